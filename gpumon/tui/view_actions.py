"""Actions of some views only: the instant that is shown, the map, curves, findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.instants import EXAMPLES
from gpumon.tui.action import CELLS, EVERYWHERE, MAPS, Action

if TYPE_CHECKING:
    from gpumon.tui.action import ViewName

TIME_ACTIONS: Final = (
    Action(
        "pause",
        ("p", "space"),
        "p Space",
        "pause",
        "Freeze the picture; sampling goes on behind it. Again to go on.",
        EVERYWHERE,
    ),
    Action("step_back", ("comma",), ",", "", "One picture back, and stand there.", EVERYWHERE),
    Action("step_on", ("full_stop",), ".", "", "One picture on, and stand there.", EVERYWHERE),
    Action("minute_back", ("left_curly_bracket",), "{", "", "One minute back.", EVERYWHERE),
    Action("minute_on", ("right_curly_bracket",), "}", "", "One minute on.", EVERYWHERE),
    Action(
        "time",
        ("T",),
        "T",
        "time",
        f"Go to a time: {EXAMPLES}.",
        EVERYWHERE,
    ),
    Action(
        "live",
        ("L",),
        "L",
        "",
        "Live again; of a recording, to its end.",
        EVERYWHERE,
    ),
    Action("faster", ("plus", "equals_sign"), "+", "", "Play a recording faster.", EVERYWHERE),
    Action("slower", ("minus",), "-", "", "Play a recording slower.", EVERYWHERE),
)
"""Which instant is shown: the same keys for what is live, its past, and recordings."""


MAP_ACTIONS: Final = (
    Action(
        "open_cell",
        ("enter",),
        "Enter",
        "open",
        "Open what the cell is: the GPU, or the node.",
        CELLS,
    ),
    Action("leave", ("escape",), "Esc", "back", "Clear the filter, else go back one level.", CELLS),
    Action("cell_left", ("left", "h"), "h ←", "", "To the cell on the left.", CELLS),
    Action("cell_right", ("right", "l"), "l →", "", "To the cell on the right.", CELLS),
    Action(
        "field",
        ("v",),
        "v",
        "field",
        "Draw the next field: verdict, SM activity, duty cycle, tensor activity, memory, power, "
        "temperature, user, job; of ranks those that they have.",
        CELLS,
    ),
    Action("field_back", ("V",), "V", "", "Draw the field before.", CELLS),
    Action(
        "grouping",
        ("o",),
        "o",
        "group",
        "Put the nodes together by partition, leaf switch, block, NVLink domain, the front of "
        "their names, or state.",
        MAPS,
    ),
    Action("closer", ("z",), "z", "zoom", "Larger cells, in the end one number per GPU.", MAPS),
    Action("wider", ("Z",), "Z", "", "Smaller cells, in the end two nodes in one.", MAPS),
    Action("fit", ("0",), "0", "", "The largest cells with which all is in sight.", MAPS),
    Action(
        "mean",
        ("m",),
        "m",
        "",
        "Where a cell is a node: its worst GPU, or the mean of those that jobs hold.",
        MAPS,
    ),
)
"""What only the map of the fleet can do, where arrows go from cell to cell."""


RANK_ACTIONS: Final = (
    Action(
        "ranks",
        ("tab",),
        "Tab",
        "ranks",
        "The job's ranks over time, then as a map, then as a table again.",
        frozenset({"job", "ranks"}),
    ),
    Action(
        "order",
        ("s",),
        "s",
        "sort",
        "Sort ranks over time by their number, or by how far they are from their peers' median.",
        frozenset({"ranks"}),
    ),
    Action(
        "every_rank",
        ("z",),
        "z",
        "zoom",
        "A line for every rank, or as many on a line as it takes to have all in sight.",
        frozenset({"ranks"}),
    ),
    Action(
        "rank",
        ("i",),
        "i",
        "rank",
        "Curves of everything around the rank on one time axis: GPU, process, each NVLink, ports, "
        "its job's CPUs and memory there, the host, file systems.",
        frozenset({"ranks", "job", "gpu"}),
    ),
)
"""What is about the ranks of a job."""


CHART_ACTIONS: Final = (
    Action(
        "curves",
        ("v",),
        "v",
        "curves",
        "Curves of the main fields on one time axis, over the whole screen.",
        frozenset({"job", "gpu", "node"}),
    ),
    Action("span", ("w",), "w", "wider", "More of the past.", frozenset({"curves", "ranks"})),
)
"""Curves over time."""


JUDGING: Final[frozenset[ViewName]] = frozenset({"findings", "finding"})

FINDING_ACTIONS: Final = (
    Action(
        "acknowledge",
        ("a",),
        "a",
        "known",
        "Say that somebody knows of the finding, or take it back.",
        JUDGING,
    ),
    Action(
        "mute",
        ("m",),
        "m",
        "mute",
        "Do not tell of it for a while: of it, of its class, or of all of its subject.",
        JUDGING,
    ),
)
"""What people say about findings."""
