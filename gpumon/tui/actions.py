"""Every key of the terminal, declared once: bindings, footer, help and docs are made from it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from textual.binding import Binding

from gpumon.report.instants import EXAMPLES

ViewName = Literal[
    "jobs",
    "gpus",
    "pending",
    "ended",
    "users",
    "accounts",
    "partitions",
    "reservations",
    "fleet",
    "job",
    "gpu",
    "node",
    "page",
    "columns",
    "findings",
    "finding",
    "curves",
]

ROOTS: Final[tuple[ViewName, ...]] = (
    "jobs",
    "gpus",
    "pending",
    "ended",
    "users",
    "accounts",
    "partitions",
    "reservations",
    "fleet",
)
"""The views of the whole fleet, in the order of Tab and of their digits."""

FLEET: Final[frozenset[ViewName]] = frozenset(ROOTS)
MAPS: Final[frozenset[ViewName]] = frozenset({"fleet"})
TABLES: Final[frozenset[ViewName]] = (FLEET - MAPS) | {"job", "findings"}
SECTIONED: Final[frozenset[ViewName]] = frozenset({"gpu", "node"})
MAIN: Final[frozenset[ViewName]] = FLEET | TABLES | SECTIONED
EVERYWHERE: Final[frozenset[ViewName]] = MAIN | {"page", "columns", "finding", "curves"}
LISTED: Final[frozenset[ViewName]] = TABLES | {"columns"}
"""Views whose lines a filter with columns goes through."""


class Action(NamedTuple):
    """One thing the user can do."""

    name: str
    """Name of the `action_` method of the views."""
    keys: tuple[str, ...]
    """Textual's key names; the first is shown."""
    shown: str
    """The keys as people write them."""
    label: str
    """One or two words for the footer; empty: not in the footer."""
    doc: str
    views: frozenset[ViewName]
    is_told_key: bool = False
    """Whether the method is told which of the keys was pressed."""


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
        MAPS,
    ),
    Action(
        "leave", ("escape",), "Esc", "back", "Clear the filter, else go back to the jobs.", MAPS
    ),
    Action("cell_left", ("left", "h"), "h ←", "", "To the cell on the left.", MAPS),
    Action("cell_right", ("right", "l"), "l →", "", "To the cell on the right.", MAPS),
    Action(
        "field",
        ("v",),
        "v",
        "field",
        "Draw the next field: verdict, SM activity, duty cycle, tensor activity, memory, power, "
        "temperature, user, job.",
        MAPS,
    ),
    Action("field_back", ("V",), "V", "", "Draw the field before.", MAPS),
    Action(
        "grouping",
        ("o",),
        "o",
        "group",
        "Put the nodes together by partition, NVLink domain, the front of their names, or state.",
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


CHART_ACTIONS: Final = (
    Action(
        "curves",
        ("v",),
        "v",
        "curves",
        "Curves of the main fields on one time axis, over the whole screen.",
        frozenset({"job", "gpu", "node"}),
    ),
    Action("span", ("w",), "w", "wider", "More of the past.", frozenset({"curves"})),
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


ACTIONS: Final = (
    Action(
        "open",
        ("enter", "right", "l"),
        "Enter",
        "open",
        "Open what the cursor is on: a job, a GPU, a silent node, the jobs of a user, an account, "
        "a partition or a reservation; on a GPU, the job that holds it.",
        (MAIN - MAPS) | {"finding"},
    ),
    Action(
        "back",
        ("escape", "left", "h"),
        "Esc",
        "back",
        "Clear the row filter, else go back one level.",
        EVERYWHERE - MAPS,
    ),
    *MAP_ACTIONS,
    *CHART_ACTIONS,
    *FINDING_ACTIONS,
    Action(
        "filter",
        ("slash",),
        "/",
        "filter",
        "Show only what contains a text; in a table, what passes a filter: user==ada & sm<20.",
        EVERYWHERE,
    ),
    Action(
        "switch",
        ("tab", "n"),
        "Tab",
        "view",
        f"To the next view: {', '.join(ROOTS)}.",
        FLEET,
    ),
    Action("switch_back", ("shift+tab",), "⇧Tab", "", "To the view before.", FLEET),
    Action(
        "view",
        tuple(str(number + 1) for number in range(len(ROOTS))),
        f"1 … {len(ROOTS)}",
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
        "Go to anything by name, Tab completes: :pending, :node gpu01, :job 123, :user ada.",
        EVERYWHERE,
    ),
    Action(
        "node",
        ("N",),
        "N",
        "node",
        "Open the node of what the cursor is on: host, GPUs, ports, file systems, jobs.",
        frozenset({"fleet", "gpus", "job", "gpu"}),
    ),
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
    Action("columns", ("c",), "c", "", "Choose the columns of the table.", TABLES),
    Action(
        "toggle_column",
        ("enter", "x"),
        "Enter",
        "on/off",
        "Show the column, or do not.",
        frozenset({"columns"}),
    ),
    Action(
        "usual_columns",
        ("0",),
        "0",
        "as at first",
        "Show the columns of the beginning again.",
        frozenset({"columns"}),
    ),
    Action("default_sort", ("0",), "0", "", "Sort as at first: what needs a look on top.", TABLES),
    Action(
        "findings",
        ("f",),
        "f",
        "findings",
        "All findings in view; there, all in full, and what detectors could not see.",
        MAIN | {"finding", "curves"},
    ),
    Action(
        "errors",
        ("e",),
        "e",
        "errors",
        "Targets, and everything that could not be read, with the way out.",
        MAIN,
    ),
    *TIME_ACTIONS,
    Action("refresh", ("r", "ctrl+l"), "r", "", "Draw the newest picture afresh.", EVERYWHERE),
    Action("theme", ("t",), "t", "", "Switch between the dark and the light theme.", EVERYWHERE),
    Action("down", ("j", "down"), "j ↓", "", "Down one line.", EVERYWHERE),
    Action("up", ("k", "up"), "k ↑", "", "Up one line.", EVERYWHERE),
    Action("page_down", ("pagedown", "ctrl+f"), "PgDn", "", "Down one page.", EVERYWHERE),
    Action("page_up", ("pageup", "ctrl+b"), "PgUp", "", "Up one page.", EVERYWHERE),
    Action("top", ("g", "home"), "g", "", "To the first line.", EVERYWHERE),
    Action("bottom", ("G", "end"), "G", "", "To the last line.", EVERYWHERE),
    Action(
        "help",
        ("question_mark", "f1"),
        "?",
        "help",
        "Keys, signs and columns of this view; / searches them.",
        EVERYWHERE,
    ),
    Action("quit", ("q", "ctrl+c"), "q", "quit", "Quit at once.", EVERYWHERE),
)


def actions_of(view: ViewName) -> tuple[Action, ...]:
    """What a view lets the user do."""
    return tuple(action for action in ACTIONS if view in action.views)


def bindings_of(view: ViewName) -> list[Binding | tuple[str, str] | tuple[str, str, str]]:
    """Textual bindings of a view."""
    return [
        Binding(
            key,
            f"{action.name}({key!r})" if action.is_told_key else action.name,
            action.label or action.doc,
            id=f"{action.name}.{key}",
            show=False,
        )
        for action in actions_of(view)
        for key in action.keys
    ]


_FOOTER: Final = (
    "quit",
    "help",
    "open",
    "toggle_column",
    "usual_columns",
    "open_cell",
    "back",
    "leave",
    "field",
    "grouping",
    "closer",
    "acknowledge",
    "mute",
    "span",
    "switch",
    "filter",
    "command",
    "next_section",
    "curves",
    "node",
    "findings",
    "sort",
    "pause",
    "time",
    "errors",
)
"""The footer's order: a narrow terminal cuts it at the right."""


def footer_of(view: ViewName) -> tuple[Action, ...]:
    """The actions named in the footer, the most wanted first."""
    named = {action.name: action for action in actions_of(view) if action.label}
    return tuple(named[name] for name in _FOOTER if name in named)


_NAMES: Final = {
    "jobs": "jobs",
    "gpus": "GPUs",
    "pending": "pending",
    "ended": "ended",
    "users": "users",
    "accounts": "accounts",
    "partitions": "partitions",
    "reservations": "reservations",
    "fleet": "fleet",
    "job": "one job",
    "gpu": "one GPU",
    "node": "one node",
    "page": "texts",
    "columns": "choice of columns",
    "findings": "findings",
    "finding": "one finding",
    "curves": "curves",
}


def _places(views: frozenset[ViewName]) -> list[str]:
    """Names of views; all of the fleet's as one."""
    is_whole = views >= FLEET - MAPS
    names = ["tables of the fleet"] if is_whole else []
    skip = FLEET - MAPS if is_whole else frozenset()
    return names + [name for view, name in _NAMES.items() if view in views - skip]


def keys_markdown() -> str:
    """The table of keys for the documentation, GitHub-flavoured Markdown."""
    lines = ["| key | does | where |", "|---|---|---|"]
    for action in ACTIONS:
        where = "everywhere" if action.views == EVERYWHERE else ", ".join(_places(action.views))
        keys = " ".join(f"`{key}`" for key in action.shown.split())
        lines.append(f"| {keys} | {action.doc} | {where} |")
    return "\n".join(lines) + "\n"
