"""The columns of the fleet's nodes: state, what jobs hold, how busy they are, what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.job_states import HOLDING_STATES
from gpumon.report.facts.charges import stake_steps
from gpumon.report.facts.columns import Column, SortKey, shown_first
from gpumon.report.facts.healthy_nodes import has_calm_node
from gpumon.report.facts.losses import NO_STAKE, stake_of
from gpumon.report.facts.rows import host_row
from gpumon.report.facts.slurm_nodes import is_open, room_steps, rooms
from gpumon.report.tables.place import place_columns, types_column
from gpumon.report.text import units
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE, Cell, Tone, some_names
from gpumon.report.wording.gpu_cells import duty_cell
from gpumon.report.wording.health import PARTLY_READ, is_checked, own_error, troubles
from gpumon.report.wording.loss_words import LOSING, losing_column
from gpumon.report.wording.verdict_words import borne_cell, finding_cell, old_cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import Gpu, Node
    from gpumon.report.facts.losses import Stake
    from gpumon.report.facts.slurm_nodes import Room
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.wording.health import Trouble


_SILENT: Final = "+not_responding"
"""Slurm's flag of a node that does not answer it; sinfo says `*` as well."""

_NODES_A_STEP: Final = 50
"""Nodes whose rows are made in one step: of each all GPUs are checked for what is wrong."""


class NodeRow(NamedTuple):
    """One node with its GPUs, and Slurm's record of it."""

    node: Node
    gpus: tuple[Gpu, ...]
    room: Room | None
    """None: no queue lists the node."""
    jobs: int | None
    """Jobs that hold something of it; None: there is no queue."""
    finding: Finding | None
    """What loses most about the node or one of its GPUs."""
    stake: Stake
    """What is lost on its GPUs, through its own fault or that of jobs."""
    troubles: tuple[Trouble, ...]
    """What is wrong with its GPUs themselves, the worst first."""
    sick_gpus: int
    """GPUs with such a trouble."""

    def mean(self, key: str) -> float | None:
        """Mean of a field over its GPUs whose value is known."""
        values = self._known(key)
        return sum(values) / len(values) if values else None

    def total(self, key: str) -> float | None:
        """Sum of a field, None where a GPU's value is missing: a part would look like the whole."""
        values = self._known(key)
        return sum(values) if values and len(values) == len(self.gpus) else None

    def most(self, key: str) -> float | None:
        """Largest value of a field."""
        return max(self._known(key), default=None)

    def host(self, key: str) -> float | None:
        """A value of the host itself."""
        return host_row(self.node).value(key)

    def _known(self, key: str) -> list[float]:
        return [value for gpu in self.gpus if (value := gpu.value(key)) is not None]


def node_rows(digest: Digest) -> tuple[NodeRow, ...]:
    """Every node that a target or the queue names."""
    for _ in node_row_steps(digest):
        pass
    return tuple(_made(digest))


def node_row_steps(digest: Digest) -> Iterator[None]:
    """Make the rows, those of some nodes in a step; `node_rows` has nothing left to do."""
    nodes, made = tuple(digest.tick.nodes.values()), _made(digest)
    if len(made) == len(nodes):
        return
    held = digest.remembered(("jobs by node", ""), lambda: _held_jobs(digest))
    yield
    about = digest.remembered(("findings by node", ""), lambda: _findings(digest))
    yield
    yield from stake_steps(digest)
    yield from room_steps(digest)
    listed = rooms(digest)
    while len(made) < len(nodes):
        for node in nodes[len(made) : len(made) + _NODES_A_STEP]:
            made.append(_row(digest, node, listed.get(node.name), held, about))
        yield


def _made(digest: Digest) -> list[NodeRow]:
    """The rows that were made so far."""
    return digest.remembered(("node rows", ""), list)


def _held_jobs(digest: Digest) -> dict[str, int]:
    """How many jobs hold something of each node."""
    held: dict[str, int] = {}
    for view in digest.tick.jobs:
        if view.job.state in HOLDING_STATES:
            for name in view.job.nodes:
                held[name] = held.get(name, 0) + 1
    return held


def _row(
    digest: Digest,
    node: Node,
    room: Room | None,
    held: Mapping[str, int],
    about: Mapping[str, Finding],
) -> NodeRow:
    known = digest.tick.gpus
    gpus = tuple([gpu for gpu in map(known.get, node.gpu_uuids) if gpu is not None])
    wrong = _wrong(digest, gpus)
    worst = sorted(
        (t for troubles_of_gpu in wrong for t in troubles_of_gpu),
        key=lambda t: t.tone is not Tone.BAD,
    )
    return NodeRow(
        node=node,
        gpus=gpus,
        room=room,
        jobs=None if room is None else held.get(node.name, 0),
        finding=about.get(node.name),
        stake=_stake(digest, node, about.get(node.name)),
        troubles=tuple(worst),
        sick_gpus=len(wrong),
    )


def _wrong(digest: Digest, gpus: tuple[Gpu, ...]) -> list[tuple[Trouble, ...]]:
    """What is wrong with each GPU that has a trouble."""
    if gpus and has_calm_node(digest, gpus[0]):
        block = gpus[0].block
        gpus = tuple(gpu for gpu in gpus if gpu.block is not block)
    return [found for gpu in gpus if (found := troubles(digest, gpu))]


def _findings(digest: Digest) -> dict[str, Finding]:
    """What loses most about each node or one of its GPUs."""
    found: dict[str, Finding] = {}
    # Put in order without those of jobs, which are most of them.
    about_machines = [f for f in digest.tick.findings if f.subject.startswith(("gpu:", "node:"))]
    for finding in digest.by_loss(about_machines):
        kind, _, name = finding.subject.partition(":")
        if kind == "gpu":
            gpu = digest.tick.gpus.get(name)
            name = gpu.node if gpu else ""
        found.setdefault(name, finding)
    return found


def _stake(digest: Digest, node: Node, own: Finding | None) -> Stake:
    """The sum of its GPUs; of a node that shows none the finding about it."""
    if not node.gpu_uuids:
        return NO_STAKE if own is None else stake_of(digest.tick, own)
    return digest.stakes_by_node.get(node.name, NO_STAKE)


def _known_stake(digest: Digest, row: NodeRow) -> Stake | None:
    """None also where the node is silent or has not been read."""
    is_read = not row.node.is_silent and row.node.taken_at is not None
    return digest.known_stake(row.stake) if is_read else None


def node_order(_digest: Digest, row: NodeRow) -> SortKey:
    """What loses most on top, then sick GPUs, silence, out of service; then by name."""
    is_bad = bool(row.troubles) and row.troubles[0].tone is Tone.BAD
    return (
        *row.stake.first,
        0.0 if is_bad else 1.0 if row.troubles else 2.0,
        0.0 if row.node.is_silent or row.node.errors else 1.0,
        1.0 if row.node.state is None or is_open(row.node.state) else 0.0,
        row.node.name,
    )


def node_search(digest: Digest, row: NodeRow) -> str:
    """What the row filter looks through, lower case."""
    listed = row.room.node if row.room else None
    words = (
        row.node.name,
        row.node.state or "",
        *(listed.partitions if listed else ()),
        *(listed.features if listed else ()),
        *(set(listed.gpu_types) if listed else ()),
        *((listed.leaf_switch, listed.block) if listed else ()),
        _why(digest, row).text,
    )
    return "\n".join(words).lower()


def _state(row: NodeRow) -> Cell:
    state = row.node.state
    if state is None:
        return NO_VALUE
    return Cell(state.replace(_SILENT, "*"), Tone.PLAIN if is_open(state) else Tone.WARN)


def _held(row: NodeRow) -> Cell:
    """GPUs held and in all: `6/8`."""
    room = row.room
    if room is None or room.gpus is None or room.free is None:
        return Cell(f"–/{len(row.gpus)}", Tone.DIM) if row.gpus else NO_VALUE
    held = room.gpus - room.free
    return Cell(f"{held}/{room.gpus}", Tone.PLAIN if held else Tone.DIM)


def _held_count(row: NodeRow) -> SortKey | None:
    room = row.room
    if room is None or room.gpus is None or room.free is None:
        return None
    return (float(room.gpus - room.free),)


def _activity(row: NodeRow) -> Cell:
    """Mean SM activity; where no GPU has that counter the duty cycle, marked `≤`."""
    value = row.mean("sm_active_ratio")
    return duty_cell(row.mean("gpu_util_ratio")) if value is None else Cell(units.percent(value))


def _number(value: float | None, form: str = ".0f") -> Cell:
    return NO_VALUE if value is None else Cell(format(value, form))


def _share(value: float | None) -> Cell:
    return NO_VALUE if value is None else Cell(units.percent(value))


def _key(value: float | None) -> SortKey | None:
    return None if value is None else (value,)


def _host_mem(row: NodeRow) -> float | None:
    """Share of the host's memory in use."""
    free, total = row.host("host_mem_available_bytes"), row.host("host_mem_total_bytes")
    return None if free is None or not total else 1.0 - free / total


def _age_s(digest: Digest, row: NodeRow) -> float | None:
    taken_at = row.node.taken_at
    return None if taken_at is None else max(0.0, digest.tick.at - taken_at)


def _heard(digest: Digest, row: NodeRow) -> Cell:
    age_s = _age_s(digest, row)
    if age_s is None:
        return Cell("never", Tone.DIM)
    return Cell(units.short_duration(age_s), Tone.WARN if row.node.is_silent else Tone.DIM)


def _health(row: NodeRow) -> Cell:
    """The worst trouble of its GPUs in a word, and on how many GPUs there is one."""
    if row.troubles:
        worst = row.troubles[0]
        more = f" ({row.sick_gpus} GPUs)" if row.sick_gpus > 1 else ""
        return Cell(f"{worst.sign} {worst.word}{more}", worst.tone)
    if not any(is_checked(gpu) for gpu in row.gpus):
        return NO_VALUE
    if any(own_error(row.node, gpu) for gpu in row.gpus):
        return Cell(PARTLY_READ, Tone.WARN)
    return Cell("ok", Tone.DIM)


def _health_order(row: NodeRow) -> SortKey | None:
    if not row.troubles:
        return None if _health(row) == NO_VALUE else (2.0, 0.0)
    return (0.0 if row.troubles[0].tone is Tone.BAD else 1.0, -float(row.sick_gpus))


def _why(digest: Digest, row: NodeRow) -> Cell:
    """The worst about the node, in a few words."""
    node = row.node
    if node.is_silent:
        age = units.short_duration(_age_s(digest, row) or 0.0)
        return old_cell(digest.tick, f"stale {age}", row.finding)
    if row.finding is not None:
        return finding_cell(digest.tick, row.finding)
    if node.errors:
        return Cell(node.errors[0].message, Tone.WARN)
    if row.troubles:
        return Cell(f"{row.troubles[0].sign} {row.troubles[0].sentence}", row.troubles[0].tone)
    if (leading := _leading(digest, row)) is not None:
        return leading
    if row.room is not None and row.room.node.reason:
        return Cell(f"Slurm: {row.room.node.reason}", Tone.WARN)
    if node.is_stale and node.left_at is not None:
        # The reason comes first: where the column is narrow HEARD has the time.
        return Cell(f"not watched: no job in view since {units.clock_time(node.left_at)}", Tone.DIM)
    if node.taken_at is None:
        return Cell("no telemetry", Tone.DIM)
    return EMPTY_CELL


def _leading(digest: Digest, row: NodeRow) -> Cell | None:
    """The job that loses most of its GPUs' time, and by what."""
    found = {
        one: uuid for uuid in row.node.gpu_uuids if (one := digest.leading.get(uuid)) is not None
    }
    if not found:
        return None
    leading = digest.by_loss(found)[0]
    name = leading.subject.partition(":")[2].partition("/")[0]
    view = digest.job(name) or digest.job_by_gpu.get(found[leading])
    return borne_cell(digest.tick, leading, f"job {view.job.label if view else name}")


def _name(row: NodeRow) -> str:
    return row.node.name


def _partitions(row: NodeRow) -> str:
    return some_names(row.room.node.partitions) if row.room else ""


_COLUMNS: Final[tuple[Column[NodeRow], ...]] = (
    Column(
        "node", "NODE", 10, "left", priority=0, cell=lambda _d, r: Cell(r.node.name, Tone.STRONG),
        order=lambda _d, r: (r.node.name,), doc="Node name.", max_width=20,
        value=lambda _d, r: r.node.name,
    ),
    Column(
        "state", "STATE", 10, "left", priority=1, cell=lambda _d, r: _state(r),
        order=lambda _d, r: (r.node.state,) if r.node.state else None,
        doc="Slurm's state with its flags, * where it does not answer Slurm; – where no queue "
        "lists the node.", max_width=18, value=lambda _d, r: r.node.state,
    ),
    Column(
        "partition", "PART", 6, "left", priority=6,
        cell=lambda _d, r: Cell(_partitions(r), Tone.DIM),
        order=lambda _d, r: (_partitions(r),) if _partitions(r) else None,
        doc="Partitions that it belongs to.", max_width=14,
    ),
    Column(
        "held", "HELD", 5, "right", priority=0, cell=lambda _d, r: _held(r),
        order=lambda _d, r: _held_count(r),
        doc="GPUs that jobs hold, of all its GPUs.", max_width=0, is_descending=True, unit="",
    ),
    Column(
        "jobs", "JOBS", 4, "right", priority=4, cell=lambda _d, r: _number(r.jobs),
        order=lambda _d, r: _key(r.jobs), doc="Jobs on it that are listed.", max_width=0,
        is_descending=True, unit="",
    ),
    Column(
        "sm_active_ratio", "SM%", 4, "right", priority=1, cell=lambda _d, r: _activity(r),
        order=lambda _d, r: _key(r.mean("sm_active_ratio")),
        doc="Share of SM-cycles with work, mean of its GPUs; ≤48: only the duty cycle is known.",
        max_width=0, is_descending=True,
    ),
    Column(
        "power_w", "POWER W", 7, "right", priority=3,
        cell=lambda _d, r: _number(r.total("power_w"), ",.0f"),
        order=lambda _d, r: _key(r.total("power_w")),
        doc="Power of its GPUs together; – if that of one is unknown.", max_width=0,
        is_descending=True,
    ),
    Column(
        "temp_c", "°C", 3, "right", priority=4, cell=lambda _d, r: _number(r.most("temp_c")),
        order=lambda _d, r: _key(r.most("temp_c")), doc="Temperature of its hottest GPU.",
        max_width=0, is_descending=True,
    ),
    Column(
        "cpu_busy_ratio", "CPU%", 4, "right", priority=3,
        cell=lambda _d, r: _share(r.host("cpu_busy_ratio")),
        order=lambda _d, r: _key(r.host("cpu_busy_ratio")),
        doc="Share of its CPUs' time with work.", max_width=0, is_descending=True,
    ),
    Column(
        "host_mem_ratio", "HOST%", 5, "right", priority=5, cell=lambda _d, r: _share(_host_mem(r)),
        order=lambda _d, r: _key(_host_mem(r)), doc="Share of its main memory in use.", max_width=0,
        is_descending=True, unit="ratio",
    ),
    Column(
        "d_state_process_count", "STUCK", 5, "right", priority=7,
        cell=lambda _d, r: _number(r.host("d_state_process_count")),
        order=lambda _d, r: _key(r.host("d_state_process_count")),
        doc="Processes that wait in the kernel (state D), often for storage.", max_width=0,
        is_descending=True,
    ),
    Column(
        "heard", "HEARD", 5, "right", priority=2, cell=_heard,
        order=lambda d, r: _key(_age_s(d, r)),
        doc="Age of its newest telemetry.", max_width=6, is_descending=True, unit="s",
    ),
    Column(
        "health", "HEALTH", 12, "left", priority=2, cell=lambda _d, r: _health(r),
        order=lambda _d, r: _health_order(r),
        doc="The worst problem of its GPUs themselves, and how many have it.",
        max_width=18,
    ),
    Column(
        "why", "WHY", 18, "left", priority=0, cell=_why,
        order=lambda d, r: (_why(d, r).text,) if _why(d, r).text else None,
        doc="The worst about it: silence, a finding, an error, Slurm's reason.", max_width=60,
    ),
    losing_column(
        _known_stake,
        " on its GPUs, through its own fault or that of jobs",
    ),
    types_column(lambda _d, r: r.room.node.gpu_types if r.room else ()),
    *place_columns(_name),
)  # fmt: skip

NODE_COLUMNS: Final = shown_first(
    ("node", LOSING, "state", "held", "sm_active_ratio", "health", "heard", "why"), _COLUMNS
)
