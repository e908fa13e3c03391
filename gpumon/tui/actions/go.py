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
        "Open what the cursor is on: a job, a GPU, a silent node, the jobs of a user, an account, "
        "a partition or a reservation, a process over time; on a GPU, the job that holds it.",
        (MAIN - CELLS) | {"finding"},
    ),
    Action(
        "open_cell",
        ("enter",),
        "Enter",
        "open",
        "Open what the cell is: the GPU, or the node.",
        CELLS,
    ),
    Action(
        "back",
        ("escape", "left", "h"),
        "Esc",
        "back",
        "Clear the row filter, else go back one level.",
        EVERYWHERE - CELLS,
    ),
    Action("leave", ("escape",), "Esc", "back", "Clear the filter, else go back one level.", CELLS),
    Action("down", ("j", "down"), "j ↓", "", "Down one line.", EVERYWHERE),
    Action("up", ("k", "up"), "k ↑", "", "Up one line.", EVERYWHERE),
    Action("cell_left", ("left", "h"), "h ←", "", "To the cell on the left.", CELLS),
    Action("cell_right", ("right", "l"), "l →", "", "To the cell on the right.", CELLS),
    Action("page_down", ("pagedown", "ctrl+f"), "PgDn", "", "Down one page.", EVERYWHERE),
    Action("page_up", ("pageup", "ctrl+b"), "PgUp", "", "Up one page.", EVERYWHERE),
    Action("top", ("g", "home"), "g", "", "To the first line.", EVERYWHERE),
    Action("bottom", ("G", "end"), "G", "", "To the last line.", EVERYWHERE),
    Action(
        "next_problem",
        ("n",),
        "n",
        "problem",
        "To the next row with a finding that is a warning at least and nobody knows of yet; what "
        "is new, or was not gone to, comes first.",
        PROBLEMS,
    ),
    Action("previous_problem", ("N",), "N", "", "To the row with such a finding above.", PROBLEMS),
    Action(
        "next_section",
        ("right_square_bracket",),
        "]",
        "section",
        "To the next section.",
        SECTIONED,
    ),
    Action(
        "previous_section", ("left_square_bracket",), "[", "", "To the section above.", SECTIONED
    ),
    Action(
        "section",
        tuple("123456789"),
        "1 … 9",
        "",
        "To the section with this number.",
        SECTIONED,
        is_told_key=True,
    ),
)
"""The cursor, what lies below it, and the way back."""


GO_ACTIONS: Final = (
    Action(
        "switch",
        ("tab",),
        "Tab",
        "view",
        f"To the next view: {', '.join(ROOTS)}; where no queue is asked only "
        f"{', '.join(NEED_NO_QUEUE)}.",
        FLEET,
    ),
    Action("switch_back", ("shift+tab",), "Shift-Tab", "", "To the view before.", FLEET),
    Action(
        "view",
        tuple("123456789"),
        "1 … 9",
        "",
        "To the view with this number, in the order of Tab.",
        FLEET,
        is_told_key=True,
    ),
    Action(
        "command",
        ("colon",),
        ":",
        "go to",
        "Go to anything by name, Tab completes: :pending, :node gpu01, :job 123, :user ada, "
        ":patterns.",
        EVERYWHERE,
    ),
    Action(
        "node",
        ("o",),
        "o",
        "node",
        "Open the node of what the cursor is on: host, GPUs, ports, file systems, jobs.",
        frozenset({"fleet", "gpus", "job", "gpu", "ranks", "processes"}),
    ),
    Action(
        "tree",
        ("d",),
        "d",
        "tree",
        "Parents and children of the process, of this machine's own /proc: target local.",
        frozenset({"processes"}),
    ),
    Action(
        "findings",
        ("f",),
        "f",
        "findings",
        "All findings in view; there, all in full, and what detectors could not see.",
        MAIN | {"finding", "curves"},
    ),
    Action(
        "curves",
        ("v",),
        "v",
        "curves",
        "Curves of the main fields on one time axis, over the whole screen.",
        frozenset({"job", "gpu", "node"}),
    ),
    Action(
        "roofline",
        ("tab",),
        "Tab",
        "roofline",
        "What bounds the job or the GPU, how far below it is, and its roofline; again: the curves.",
        frozenset({"curves"}),
    ),
    Action(
        "ranks",
        ("tab",),
        "Tab",
        "ranks",
        "The job's ranks over time, then as a map, then as a table again.",
        frozenset({"job", "ranks"}),
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
    Action(
        "books",
        ("B",),
        "B",
        "",
        "The books: where GPU time went this week, beside the week before: what got better.",
        MAIN,
    ),
    Action(
        "errors",
        ("e",),
        "e",
        "errors",
        "Targets, and everything that could not be read, with the way out.",
        MAIN,
    ),
)
"""From view to view."""
