"""Actions that change what a view shows: rows and cells, the instant, which findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.facts.typed_time import EXAMPLES
from gpumon.tui.actions.action import (
    BOOKED,
    CELLS,
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
        "Show only what contains a text; in a table, what passes a filter: user==ada & sm<20.",
        EVERYWHERE,
    ),
    Action(
        "mine",
        ("u",),
        "u",
        "mine",
        "Only your own jobs, their GPUs and their findings, and your own processes, in every view "
        "of them; again: all.",
        JOBS,
    ),
    Action(
        "others",
        ("O",),
        "O",
        "",
        "Command lines of other users' processes, too, on this machine; again: only of your own.",
        frozenset({"processes"}),
    ),
    Action("sort", ("s",), "s", "sort", "Sort by the next column.", TABLES),
    Action("reverse", ("S",), "S", "", "Sort the other way round.", TABLES),
    Action(
        "sort_left",
        ("less_than_sign",),
        "<",
        "",
        "Sort by the column to the left.",
        TABLES,
    ),
    Action(
        "sort_right",
        ("greater_than_sign",),
        ">",
        "",
        "Sort by the column to the right.",
        TABLES,
    ),
    Action(
        "sort_waste",
        ("W",),
        "W",
        "by loss",
        "Sort by the GPU time that was lost, the most on top.",
        BOOKED,
    ),
    Action("as_at_first", ("0",), "0", "", "The order of the beginning.", TABLES),
    Action("columns", ("c",), "c", "", "Choose the columns of the table.", TABLES | SECTIONED),
    Action(
        "toggle_column",
        ("enter", "space"),
        "Enter Space",
        "on/off",
        "Show the column, or do not.",
        frozenset({"columns"}),
    ),
    Action(
        "as_at_first",
        ("0",),
        "0",
        "as at first",
        "The columns of the beginning.",
        frozenset({"columns"}),
    ),
    Action(
        "field",
        ("c",),
        "c",
        "field",
        "Draw the next field: verdict, SM activity, duty cycle, tensor activity, memory, power, "
        "temperature, user, job; of ranks those that they have.",
        CELLS,
    ),
    Action("field_back", ("C",), "C", "", "Draw the field before.", CELLS),
    Action(
        "grouping",
        ("b",),
        "b",
        "group",
        "Put the nodes together by partition, leaf switch, block, NVLink domain, the front of "
        "their names, or state.",
        MAPS,
    ),
    Action("closer", ("z",), "z", "zoom", "Larger cells, in the end one number per GPU.", MAPS),
    Action("wider", ("Z",), "Z", "", "Smaller cells, in the end two nodes in one.", MAPS),
    Action(
        "as_at_first",
        ("0",),
        "0",
        "",
        "The size of the beginning: the largest cells with which all is in sight.",
        MAPS,
    ),
    Action(
        "mean",
        ("M",),
        "M",
        "",
        "Where a cell is a node: its worst GPU, or the mean of those that jobs hold.",
        MAPS,
    ),
    Action(
        "sort",
        ("s",),
        "s",
        "sort",
        "Sort ranks over time by their number, or by how far they are from their peers' median.",
        frozenset({"ranks"}),
    ),
    Action(
        "closer",
        ("z",),
        "z",
        "zoom",
        "A line for every rank; or alike ones in one line, over time as many as it takes to have "
        "all in sight.",
        frozenset({"job", "ranks"}),
    ),
    Action("span", ("w",), "w", "wider", "More of the past.", frozenset({"curves", "ranks"})),
    Action(
        "theme",
        ("t",),
        "t",
        "",
        "The next theme: dark, light, high contrast, colour-blind, greys; :theme names one.",
        EVERYWHERE,
    ),
    Action("refresh", ("r", "ctrl+l"), "r", "", "Draw the newest picture afresh.", EVERYWHERE),
)
"""Which rows, columns and cells, in which order, size and colours."""


TIME_ACTIONS: Final = (
    Action(
        "pause",
        ("p", "space"),
        "p Space",
        "pause",
        "Freeze the picture; sampling goes on behind it. Again to go on.",
        TIMED,
    ),
    Action("step_back", ("comma",), ",", "", "One picture back, and stand there.", TIMED),
    Action("step_on", ("full_stop",), ".", "", "One picture on, and stand there.", TIMED),
    Action("minute_back", ("left_curly_bracket",), "{", "", "One minute back.", TIMED),
    Action("minute_on", ("right_curly_bracket",), "}", "", "One minute on.", TIMED),
    Action(
        "time",
        ("T",),
        "T",
        "time",
        f"Go to a time: {EXAMPLES}.",
        TIMED,
    ),
    Action(
        "live",
        ("L",),
        "L",
        "",
        "Live again; of a recording, to its end.",
        TIMED,
    ),
    Action("faster", ("plus", "equals_sign"), "+", "", "Play a recording faster.", TIMED),
    Action("slower", ("minus",), "-", "", "Play a recording slower.", TIMED),
)
"""Which instant is shown: the same keys for what is live, its past, and recordings."""


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
    Action(
        "case",
        ("V",),
        "V",
        "right?",
        "Say whether the finding is right: kept with how its job behaves, for gpumon train and for "
        "jobs that are like it.",
        JUDGING,
    ),
)
"""What people say about findings."""
