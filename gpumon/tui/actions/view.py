"""Actions that change what a view shows: rows and cells, the instant, which findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.text.typed_time import EXAMPLES
from gpumon.tui.actions.action import (
    CELLS,
    CHARGED,
    EVERYWHERE,
    JOBS,
    MAPS,
    SECTIONED,
    TABLES,
    TIMED,
    Action,
)

if TYPE_CHECKING:
    from gpumon.tui.actions.action import ViewName

SHOW_ACTIONS: Final = (
    Action(
        "filter",
        ("slash",),
        "/",
        "filter",
        doc="Show only what contains a text; in a table, what passes a filter: user==ada & sm<20.",
        views=EVERYWHERE,
    ),
    Action(
        "mine",
        ("u",),
        "u",
        "mine",
        doc="Only your own jobs, their GPUs and their findings, and your own processes, in every "
        "view of them; again: all.",
        views=JOBS,
    ),
    Action(
        "others",
        ("O",),
        "O",
        "",
        doc="Command lines of other users' processes, too, on this machine; again: only of your "
        "own.",
        views=frozenset({"processes"}),
    ),
    Action("sort", ("s",), "s", "sort", doc="Sort by the next column.", views=TABLES),
    Action("reverse", ("S",), "S", "", doc="Reverse the order.", views=TABLES),
    Action(
        "sort_left",
        ("less_than_sign",),
        "<",
        "",
        doc="Sort by the column to the left.",
        views=TABLES,
    ),
    Action(
        "sort_right",
        ("greater_than_sign",),
        ">",
        "",
        doc="Sort by the column to the right.",
        views=TABLES,
    ),
    Action(
        "sort_waste",
        ("W",),
        "W",
        "by loss",
        doc="Sort by lost GPU time, most first.",
        views=CHARGED,
    ),
    Action("as_at_first", ("0",), "0", "", doc="The original order.", views=TABLES),
    Action(
        "columns", ("c",), "c", "", doc="Choose the columns of the table.", views=TABLES | SECTIONED
    ),
    Action(
        "toggle_column",
        ("enter", "space"),
        "Enter Space",
        "on/off",
        doc="Show or hide the column.",
        views=frozenset({"columns"}),
    ),
    Action(
        "as_at_first",
        ("0",),
        "0",
        "restore",
        doc="The original columns.",
        views=frozenset({"columns"}),
    ),
    Action(
        "field",
        ("c",),
        "c",
        "field",
        doc="Draw the next field: verdict, SM activity, duty cycle, tensor activity, memory, "
        "power, temperature, user, job; for ranks those that they have.",
        views=CELLS,
    ),
    Action("field_back", ("C",), "C", "", doc="Draw the previous field.", views=CELLS),
    Action(
        "grouping",
        ("b",),
        "b",
        "group",
        doc="Group the nodes by partition, leaf switch, block, NVLink domain, prefix of "
        "their names, or state.",
        views=MAPS,
    ),
    Action(
        "closer",
        ("z",),
        "z",
        "zoom",
        doc="Larger cells, up to one number per GPU.",
        views=MAPS,
    ),
    Action("wider", ("Z",), "Z", "", doc="Smaller cells, down to two nodes in one.", views=MAPS),
    Action(
        "as_at_first",
        ("0",),
        "0",
        "",
        doc="The original size: the largest cells that show everything.",
        views=MAPS,
    ),
    Action(
        "mean",
        ("M",),
        "M",
        "",
        doc="If a cell is a node: its worst GPU, or the mean of those that jobs hold.",
        views=MAPS,
    ),
    Action(
        "sort",
        ("s",),
        "s",
        "sort",
        doc="Sort ranks over time by their number, or by how far they are from their peers' "
        "median.",
        views=frozenset({"ranks"}),
    ),
    Action(
        "closer",
        ("z",),
        "z",
        "zoom",
        doc="A line for every rank; or one line for similar ranks, over time for as many as it "
        "takes to show all.",
        views=frozenset({"job", "ranks"}),
    ),
    Action(
        "span", ("w",), "w", "wider", doc="More of the past.", views=frozenset({"curves", "ranks"})
    ),
    Action(
        "theme",
        ("t",),
        "t",
        "",
        doc="The next theme: dark, light, high contrast, colour-blind, greys; :theme names one.",
        views=EVERYWHERE,
    ),
    Action("refresh", ("r", "ctrl+l"), "r", "", doc="Redraw the newest tick.", views=EVERYWHERE),
)
"""Which rows, columns and cells, in which order, size and colours."""


TIME_ACTIONS: Final = (
    Action(
        "pause",
        ("p", "space"),
        "p Space",
        "pause",
        doc="Pause the screen; sampling continues. Press again to resume.",
        views=TIMED,
    ),
    Action("step_back", ("comma",), ",", "", doc="Step back one tick and pause.", views=TIMED),
    Action("step_on", ("full_stop",), ".", "", doc="Step forward one tick and pause.", views=TIMED),
    Action("minute_back", ("left_curly_bracket",), "{", "", doc="One minute back.", views=TIMED),
    Action("minute_on", ("right_curly_bracket",), "}", "", doc="One minute forward.", views=TIMED),
    Action(
        "time",
        ("T",),
        "T",
        "time",
        doc=f"Go to a time: {EXAMPLES}.",
        views=TIMED,
    ),
    Action(
        "live",
        ("L",),
        "L",
        "",
        doc="Back to live; in a recording, to its end.",
        views=TIMED,
    ),
    Action("faster", ("plus", "equals_sign"), "+", "", doc="Play a recording faster.", views=TIMED),
    Action("slower", ("minus",), "-", "", doc="Play a recording slower.", views=TIMED),
)
"""Which instant is shown: the same keys for what is live, its past, and recordings."""


JUDGING: Final[frozenset[ViewName]] = frozenset({"findings", "finding"})

FINDING_ACTIONS: Final = (
    Action(
        "acknowledge",
        ("a",),
        "a",
        "known",
        doc="Acknowledge the finding, or undo that.",
        views=JUDGING,
    ),
    Action(
        "mute",
        ("m",),
        "m",
        "mute",
        doc="Mute this finding, its class, or its subject for a while.",
        views=JUDGING,
    ),
    Action(
        "case",
        ("V",),
        "V",
        "right?",
        doc="Judge whether the finding is right: stored with how its job behaves, for gpumon train "
        "and for similar jobs.",
        views=JUDGING,
    ),
)
"""What people say about findings."""
