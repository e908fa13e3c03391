"""A machine at a glance, below its GPUs: host, verdicts, what each GPU did, who is on them."""

from __future__ import annotations

from math import isnan
from operator import is_
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.report.facts.columns import GAP, Column
from gpumon.report.facts.rows import host_row
from gpumon.report.tables.field import bars
from gpumon.report.tables.host import load_facts
from gpumon.report.tables.process import (
    MACHINE_PROCESS_COLUMNS,
    PROCESS_PARTS,
    all_process_rows,
    process_rows,
    unread_words,
)
from gpumon.report.tables.sections import INDENT, table_section
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone, text_width
from gpumon.report.text.units import index_text
from gpumon.report.wording.empty_states import no_process_words
from gpumon.report.wording.gpu_cells import power_cell, temperature_cell, throttle_cell
from gpumon.report.wording.paragraphs import claim_lines, facts, first_lines
from gpumon.report.wording.space import space_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import Gpu, Node
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.tables.process import ProcessRow
    from gpumon.report.text.cells import Line

PAST_CELLS: Final = 20
"""Characters of a GPU's past: ten minutes at `CELL_S`. A choice."""
CELL_S: Final = 30.0
"""A cell of a GPU's past: what does not move on the screen for so long goes over no wire."""

MOST_GPUS: Final = 16
"""GPUs of a machine that have a line each."""

_RENEWED_S: Final = 10.0
"""How often a GPU's past is read again: a third of its newest cell; and so long lines of processes
are shown that nothing new was reported of."""

_LEAST_OF_PROCESSES: Final = 4
"""Lines that are left for processes: the list above has the GPUs' values, but none of these."""

_LEAST_OF_VERDICT: Final = 3
_MOST_OF_VERDICT: Final = 6
"""Lines of a verdict: a title, what it says, a step to look closer and one to mend it."""

_LEAST_COMMAND: Final = 30
"""Cells of a command line that names of users leave to it."""

_BAR: Final = 16
_WIDE: Final = 110
"""Cells from which on there are bars beside the past."""

_FULL, _EMPTY = "█", "░"


class Commands(NamedTuple):
    """Command lines of processes, where they can be read."""

    cell: Callable[[Digest, ProcessRow], Cell]
    read: int
    """Grows with what is read of them."""


class _Pane(NamedTuple):
    """What processes have of the screen."""

    width: int
    room: int
    """Lines."""
    uuid: str | None
    """The GPU under the cursor, where not all may have room."""


def machine_glance(
    digest: Digest,
    node: Node,
    width: int,
    height: int,
    commands: Commands | None = None,
    uuid: str | None = None,
) -> list[Line]:
    """The host, verdicts, a line for each GPU, and the processes on them; at most so many lines.

    Verdicts are the gravest about the machine itself and about the GPU `uuid`, with what to do. The
    lines of GPUs give way to them: the list above has their values; so do those of the host but
    the first. With room for one alone it is that of the GPU.

    `commands`, where there is room for them, take the place of the programs' names.
    """
    commands = commands if width >= _WIDE else None
    gpus = sorted(
        (gpu for uuid in node.gpu_uuids if (gpu := digest.tick.gpus.get(uuid)) is not None),
        key=lambda gpu: (gpu.nvml_index is None, gpu.nvml_index or 0),
    )
    known = (*load_facts(host_row(node)), *space_facts(node), *_others(node))
    lines = facts((("host", node.name), *known), width)
    verdicts = _verdicts(digest, node, uuid)
    room = height - _LEAST_OF_PROCESSES
    if verdicts and room > _LEAST_OF_VERDICT:
        lines = first_lines(lines, room - _LEAST_OF_VERDICT, width)
    lines += _verdict_lines(digest, verdicts, width, room - len(lines))
    if len(gpus) <= MOST_GPUS and height >= len(lines) + len(gpus) + _LEAST_OF_PROCESSES:
        lines += [_gpu_line(digest, gpu, width) for gpu in gpus]
    if gpus:
        room = height - len(lines)
        # Where all have room the cursor moves none of them: two lines are the title's.
        is_crowded = sum(len(gpu.processes) for gpu in gpus) + 2 >= room
        pane = _Pane(width, room, uuid if is_crowded else None)
        lines += _remembered_processes(digest, node, gpus, pane, commands)
    return lines[:height]


def _verdicts(digest: Digest, node: Node, uuid: str | None) -> list[Finding]:
    """The gravest about a machine itself and about one of its GPUs."""
    found = digest.findings_of_node(node.name)
    about = (f"node:{node.name}", f"gpu:{uuid}")
    first = [next((one for one in found if one.subject == subject), None) for subject in about]
    return [one for one in first if one is not None]


def _verdict_lines(digest: Digest, verdicts: list[Finding], width: int, room: int) -> list[Line]:
    """As many of the last verdicts as have room, each with what to do."""
    verdicts = verdicts[-max(1, room // _LEAST_OF_VERDICT) :]
    lines: list[Line] = []
    for place, finding in enumerate(verdicts):
        most = (room - len(lines)) // (len(verdicts) - place)
        if most >= _LEAST_OF_VERDICT:
            lines += claim_lines(digest.tick, finding, width, min(most, _MOST_OF_VERDICT))
    return lines


def _others(node: Node) -> list[tuple[str, str]]:
    """Disks and network of the host, as far as they move."""
    host = host_row(node)
    found = []
    for name, keys in (
        ("disk r/w", ("disk_read_bytes_per_s", "disk_write_bytes_per_s")),
        ("net in/out", ("net_rx_bytes_per_s", "net_tx_bytes_per_s")),
    ):
        moved = [host.value(key) for key in keys]
        if any(value is not None for value in moved):
            found.append((name, "/".join(units.short_rate(value) for value in moved)))
    return found


def _gpu_line(digest: Digest, gpu: Gpu, width: int) -> Line:
    """`GPU 3  SM ██████░░ 64 %  MEM ███░░ 40/80  560/700 W  61 °C`, and its last minutes."""
    used, total = gpu.value("mem_used_bytes"), gpu.value("mem_total_bytes")
    share = used / total if used is not None and total else None
    bar = _BAR if width >= _WIDE else _BAR // 2
    held = throttle_cell(gpu)
    temperature = temperature_cell(gpu)
    cells = [
        Cell(f"GPU {index_text(gpu):<3}"),
        *_activity(digest, gpu, bar),
        Cell("MEM ", Tone.DIM),
        _bar(share, bar),
        Cell(f" {units.memory(used, total) if used is not None else units.MISSING:>8}  "),
        Cell(f"{power_cell(gpu).text:>8} W  "),
        temperature._replace(text=f"{temperature.text:>3} °C  "),
    ]
    if width >= _WIDE:
        cells.append(Cell(f"{_remembered_past(digest, gpu)} ", Tone.PAST))
    if held is not None:
        cells.append(held)
    return tuple(cells)


def _activity(digest: Digest, gpu: Gpu, bar: int) -> Line:
    """What of it works: its SMs, else its utilisation; in MIG mode it has neither as a whole."""
    sm = gpu.value("sm_active_ratio")
    name, ratio = ("SM", sm) if sm is not None else ("UTIL", gpu.value("gpu_util_ratio"))
    if ratio is None and not gpu.is_stale and (instances := digest.entities(gpu, "mig")):
        words = _instances_in_use(digest, gpu, len(instances))
        return Cell("MIG  ", Tone.DIM), Cell(words.ljust(bar + 8))
    return Cell(f"{name:<4} ", Tone.DIM), _bar(ratio, bar), Cell(f"{units.percent(ratio):>4} %  ")


def _instances_in_use(digest: Digest, gpu: Gpu, instances: int) -> str:
    """`1 of 3 in use`; without the place of each process no more than how many there are."""
    places = {row.instance for row in process_rows(digest, gpu)}
    if not gpu.reports_processes or None in places:
        return f"{instances} instances"
    return f"{len(places)} of {instances} in use"


def _bar(ratio: float | None, width: int) -> Cell:
    """A share as a bar; blank, and not an empty bar, where it is not known."""
    if ratio is None:
        return Cell(" " * width)
    full = round(min(1.0, max(0.0, ratio)) * width)
    return Cell(_FULL * full + _EMPTY * (width - full), Tone.INFO)


def _remembered_past(digest: Digest, gpu: Gpu) -> str:
    """The same as in the tick before, most times; of a new past each moment counts."""
    tick = digest.tick
    if tick.at - tick.observed_since < CELL_S:
        return _past(digest, gpu)
    which = ("past of a GPU", gpu.uuid, tick.at // _RENEWED_S)
    return digest.lasting(which, lambda: _past(digest, gpu))


def _past(digest: Digest, gpu: Gpu) -> str:
    """SM activity of the last ten minutes, else utilisation; a block for half a minute."""
    history: Any = digest.tick.history
    if not hasattr(history, "window"):
        return " " * PAST_CELLS
    end = (digest.tick.at // CELL_S + 1) * CELL_S
    start = end - PAST_CELLS * CELL_S
    for key in ("sm_active_ratio", "gpu_util_ratio"):
        times, values = history.window(gpu.uuid, key, start, digest.tick.at)
        if any(not isnan(value) for value in values):
            return bars(times, values, (start, end), (0.0, 1.0), PAST_CELLS)
    return " " * PAST_CELLS


def _remembered_processes(
    digest: Digest,
    node: Node,
    gpus: list[Gpu],
    pane: _Pane,
    commands: Commands | None,
) -> list[Line]:
    """The same as in the tick before, while their node has reported nothing new of them."""
    tick = digest.tick
    blocks = tuple(node.blocks.get(name) for name in ("context", "process"))
    if None in blocks:
        return _processes(digest, gpus, pane, commands)
    there = tuple([one.pid for gpu in gpus for one in gpu.processes])
    # Another view reads for itself, and what it did not ask for would never come.
    read = None if commands is None else (commands.cell, commands.read)
    which = (pane, there, read)
    # Their lines are stored once, with the very blocks that they were made of.
    stored: list[Any] = digest.lasting(("processes of", node.name), lambda: [None, None, [], 0.0])
    is_recent = 0.0 <= tick.at - stored[3] < _RENEWED_S
    if not is_recent or stored[0] != which or not all(map(is_, stored[1], blocks)):
        stored[:] = which, blocks, _processes(digest, gpus, pane, commands), tick.at
    lines: list[Line] = stored[2]
    return lines


def _columns(
    width: int, place_width: int, user_width: int, commands: Commands | None
) -> Sequence[Column[ProcessRow]]:
    """Of processes; the GPU, or its instance, is shown whole; the command line takes the rest.

    Where that is much, names of users are shown as far as elsewhere.
    """
    gpu, *others = MACHINE_PROCESS_COLUMNS
    others.insert(0, gpu._replace(width=max(gpu.width, place_width)))
    if commands is None:
        return others
    others = [one for one in others if one.key != "program"]
    left = width - INDENT - sum(one.width + GAP for one in others)
    at = next(place for place, one in enumerate(others) if one.key == "user")
    user = others[at]
    more = max(0, min(user_width, user.max_width, user.width + left - _LEAST_COMMAND) - user.width)
    others[at] = user._replace(width=user.width + more)
    left -= more
    doc = "Command line, or the program's name."
    return (
        *others,
        Column(
            key="command",
            title="COMMAND",
            width=left,
            align="left",
            priority=1,
            cell=commands.cell,
            order=None,
            doc=doc,
        ),
    )


def _widest(
    digest: Digest, rows: Sequence[ProcessRow], cell: Callable[[Digest, ProcessRow], Cell]
) -> int:
    """Cells that the widest text of a column takes."""
    return max((text_width(cell(digest, row).text) for row in rows), default=0)


def _processes(
    digest: Digest, gpus: list[Gpu], pane: _Pane, commands: Commands | None
) -> list[Line]:
    """Every process on them, those with most memory first; what has no room is counted.

    Where not all have room, those on the GPU under the cursor come before all others.
    """
    width, room, uuid = pane
    rows = all_process_rows(digest, gpus)
    if room < 3:
        return []
    if not rows:
        if not gpus:
            return []
        return [(), (Cell(no_process_words(gpus, "its GPUs"), Tone.DIM),)]
    why = unread_words(rows)
    room -= bool(why)
    shown = rows[: max(1, room - 2)]
    if len(shown) < len(rows):
        rows = sorted(rows, key=lambda row: row.uuid != uuid)
        shown = rows[: len(shown) - 1]
    place, user = MACHINE_PROCESS_COLUMNS[0].cell, PROCESS_PARTS["user"].cell
    place_width, user_width = (_widest(digest, shown, cell) for cell in (place, user))
    section = table_section(
        "",
        digest,
        _columns(width, place_width, user_width, commands),
        shown,
        width,
        lambda row: f"{row.process.pid}/{row.uuid}",
    )
    lines: list[Line] = [(), section.head, *(entry.line for entry in section.entries)]
    if len(shown) < len(rows):
        left = f"  {len(rows) - len(shown)} more: :ps shows all"
        lines.append((Cell(left, Tone.DIM),))
    if why:
        lines.append((Cell(f"  {why}", Tone.DIM),))
    return lines
