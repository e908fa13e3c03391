"""Actions that lead somewhere: along a view, and from one view to another."""

from __future__ import annotations

from typing import Final

from gpumon.tui.actions.action import (
    CELLS,
    EVERYWHERE,
    FLEET,
    MAIN,
    NEED_NO_QUEUE,
    PROBLEMS,
    ROOTS,
    SECTIONED,
    Action,
)

MOVE_ACTIONS: Final = (
    Action(
        "open",
        ("enter", "right", "l"),
        "Enter",
        "open",
        doc="Open what the cursor is on: a job, a GPU, a silent node, the jobs of a user, an "
        "account, a partition or a reservation, a process over time; on a GPU, the job that holds "
        "it.",
        views=(MAIN - CELLS) | {"finding"},
    ),
    Action(
        "open_cell",
        ("enter",),
        "Enter",
        "open",
        doc="Open the cell: the GPU or the node.",
        views=CELLS,
    ),
    Action(
        "back",
        ("escape", "left", "h"),
        "Esc",
        "back",
        doc="Clear the row filter, else go back one level.",
        views=EVERYWHERE - CELLS,
    ),
    Action(
        "leave",
        ("escape",),
        "Esc",
        "back",
        doc="Clear the filter, else go back one level.",
        views=CELLS,
    ),
    Action("down", ("j", "down"), "j ↓", "", doc="Down one line.", views=EVERYWHERE),
    Action("up", ("k", "up"), "k ↑", "", doc="Up one line.", views=EVERYWHERE),
    Action("cell_left", ("left", "h"), "h ←", "", doc="To the cell on the left.", views=CELLS),
    Action("cell_right", ("right", "l"), "l →", "", doc="To the cell on the right.", views=CELLS),
    Action("page_down", ("pagedown", "ctrl+f"), "PgDn", "", doc="Down one page.", views=EVERYWHERE),
    Action("page_up", ("pageup", "ctrl+b"), "PgUp", "", doc="Up one page.", views=EVERYWHERE),
    Action("top", ("g", "home"), "g", "", doc="To the first line.", views=EVERYWHERE),
    Action("bottom", ("G", "end"), "G", "", doc="To the last line.", views=EVERYWHERE),
    Action(
        "next_problem",
        ("n",),
        "n",
        "problem",
        doc="To the next row with an unacknowledged finding, a warning at least; new and "
        "unvisited ones come first.",
        views=PROBLEMS,
    ),
    Action(
        "previous_problem",
        ("N",),
        "N",
        "",
        doc="To the row with such a finding above.",
        views=PROBLEMS,
    ),
    Action(
        "next_section",
        ("right_square_bracket",),
        "]",
        "section",
        doc="To the next section.",
        views=SECTIONED,
    ),
    Action(
        "previous_section",
        ("left_square_bracket",),
        "[",
        "",
        doc="To the section above.",
        views=SECTIONED,
    ),
    Action(
        "section",
        tuple("123456789"),
        "1 … 9",
        "",
        doc="To the section with this number.",
        views=SECTIONED,
        takes_key=True,
    ),
)
"""The cursor, what lies below it, and the way back."""


GO_ACTIONS: Final = (
    Action(
        "switch",
        ("tab",),
        "Tab",
        "view",
        doc=f"To the next view: {', '.join(ROOTS)}; without a queue only "
        f"{', '.join(NEED_NO_QUEUE)}.",
        views=FLEET,
    ),
    Action(
        "switch_back", ("shift+tab",), "Shift-Tab", "", doc="To the previous view.", views=FLEET
    ),
    Action(
        "view",
        tuple("123456789"),
        "1 … 9",
        "",
        doc="To the view with this number, in the order of Tab; without a queue 1 is the GPUs.",
        views=FLEET,
        takes_key=True,
    ),
    Action(
        "command",
        ("colon",),
        ":",
        "go to",
        doc="Go to anything by name, Tab completes: :pending, :node gpu01, :job 123, :user ada, "
        ":patterns.",
        views=EVERYWHERE,
    ),
    Action(
        "node",
        ("o",),
        "o",
        "node",
        doc="Open the node of what the cursor is on: host, GPUs, ports, file systems, jobs.",
        views=frozenset({"fleet", "gpus", "job", "gpu", "ranks", "processes"}),
    ),
    Action(
        "tree",
        ("d",),
        "d",
        "tree",
        doc="Parents and children of the process, of this machine's own /proc: target local.",
        views=frozenset({"processes"}),
    ),
    Action(
        "findings",
        ("f",),
        "f",
        "findings",
        doc="All findings in view; there, all in full, and what detectors could not see.",
        views=MAIN | {"finding", "curves"},
    ),
    Action(
        "curves",
        ("v",),
        "v",
        "curves",
        doc="Curves of the main fields on one time axis, over the whole screen.",
        views=frozenset({"job", "gpu", "node"}),
    ),
    Action(
        "roofline",
        ("tab",),
        "Tab",
        "roofline",
        doc="What bounds the job or the GPU, how far below it is, and its roofline; again: the "
        "curves.",
        views=frozenset({"curves"}),
    ),
    Action(
        "ranks",
        ("tab",),
        "Tab",
        "ranks",
        doc="The job's ranks over time, then as a map, then as a table again.",
        views=frozenset({"job", "ranks"}),
    ),
    Action(
        "rank",
        ("i",),
        "i",
        "rank",
        doc="Curves of everything around the rank on one time axis: GPU, process, each NVLink, "
        "ports, its job's CPUs and memory there, the host, file systems.",
        views=frozenset({"ranks", "job", "gpu"}),
    ),
    Action(
        "ledger",
        ("B",),
        "B",
        "",
        doc="Ledger: where GPU time went this week, beside the week before: what got better.",
        views=MAIN,
    ),
    Action(
        "errors",
        ("e",),
        "e",
        "errors",
        doc="Targets, and everything that could not be read, and how to fix it.",
        views=MAIN,
    ),
)
"""From view to view."""
