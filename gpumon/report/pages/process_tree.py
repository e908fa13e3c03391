"""The parents and children of a process as text: a line each, the eldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Line, Tone, fit, paragraph

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.base.held_process import Described
    from gpumon.sources.here.family import Relative, Tree

_PID, _STATE, _CPU, _RSS = 8, 5, 8, 8
_STEP: Final = "  "
_MOST_DEPTH: Final = 12
"""Steps of indentation: what lies deeper would leave no room for its words."""


def tree_lines(
    tree: Tree | None, command: Callable[[Described], str | None], width: int
) -> list[list[Line]]:
    """A heading, then an entry for each process.

    Args:
        tree: What was read; None: nothing yet.
        command: The command line of a process, where it may be shown; None: its program's name.
        width: Cells of a line.
    """
    if tree is None:
        return [[(Cell("Reading /proc of this machine …", Tone.DIM),)]]
    if not tree.relatives:
        text = "It has ended, or its number now belongs to another process. Esc goes back."
        return [paragraph(text, width)]
    own = sum(one.is_asked_for for one in tree.relatives)
    parents = sum(not one.is_asked_for for one in _until_asked(tree))
    children = len(tree.relatives) - parents - own + tree.untold_count
    head = f"{parents} parent{'' if parents == 1 else 's'}, "
    head += (
        f"{children} process{'' if children == 1 else 'es'} that it, or one of these, started"
        if children
        else "and nothing that it started still runs"
    )
    heading = (
        Cell(
            " ".join(
                (
                    fit("PID", _PID, "right"),
                    fit("STATE", _STATE),
                    fit("CPU TIME", _CPU, "right"),
                    fit("RSS", _RSS, "right"),
                    "COMMAND",
                )
            ),
            Tone.STRONG,
        ),
    )
    lines: list[list[Line]] = [paragraph(head, width, Tone.DIM), [()], [heading]]
    lines += [[_line(one, command(one.process), width)] for one in tree.relatives]
    if tree.untold_count:
        lines.append([(Cell(f"… and {tree.untold_count} more", Tone.DIM),)])
    return lines


def _until_asked(tree: Tree) -> list[Relative]:
    """The relatives up to the process itself: its parents, and it."""
    at = next((n for n, one in enumerate(tree.relatives) if one.is_asked_for), 0)
    return list(tree.relatives[: at + 1])


def _line(one: Relative, command: str | None, width: int) -> Line:
    process = one.process
    numbers = " ".join(
        (
            fit(str(process.pid), _PID, "right"),
            fit(process.state, _STATE),
            fit(units.short_duration(process.cpu_s), _CPU, "right"),
            fit(units.size(process.rss_bytes), _RSS, "right"),
            "",
        )
    )
    indent = _STEP * min(one.depth, _MOST_DEPTH)
    text = indent + (command or process.program)
    tone = Tone.STRONG if one.is_asked_for else Tone.PLAIN
    room = max(1, width - len(numbers))
    return (Cell(numbers, Tone.DIM), Cell(fit(text, room).rstrip(), tone))
