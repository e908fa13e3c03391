"""Every key of the terminal, declared once: bindings, footer, help and docs are made from it."""

from __future__ import annotations

from typing import Final, get_args

from textual.binding import Binding

from gpumon.tui.actions.action import EVERYWHERE, FLEET, LISTED, MAIN, MAPS, ROOTS, Action, ViewName
from gpumon.tui.actions.go import GO_ACTIONS, MOVE_ACTIONS
from gpumon.tui.actions.view import FINDING_ACTIONS, SHOW_ACTIONS, TIME_ACTIONS

_ABOUT: Final[frozenset[ViewName]] = MAIN | {"finding", "curves"}

HAND_ACTIONS: Final = (
    Action(
        "commands",
        ("x",),
        "x",
        "commands",
        doc="The next command, filled in: py-spy, ncclras, nvidia-smi, scontrol, a shell; Enter "
        "copies it.",
        views=_ABOUT,
    ),
    Action(
        "copy_command",
        ("enter",),
        "Enter",
        "copy",
        doc="Copy the command; one that changes something asks first, then runs.",
        views=frozenset({"commands"}),
    ),
    Action(
        "copy",
        ("y",),
        "y",
        "",
        doc="Copy what the cursor is on: a GPU's UUID, a job's id, a process's PID, the name of a "
        "node, a user, an account, a partition or a reservation, a command.",
        views=_ABOUT | {"commands"},
    ),
    Action(
        "export",
        ("E",),
        "E",
        "",
        doc="Write the table to a CSV or JSON file, or the screen to an SVG file.",
        views=EVERYWHERE,
    ),
    Action(
        "signal",
        ("K",),
        "K",
        "signal",
        doc="Ask to send INT, TERM or KILL to the process, after its PID is typed; with "
        "--allow-actions only, and only on this machine.",
        views=frozenset({"processes"}),
    ),
    Action(
        "shell",
        ("exclamation_mark",),
        "!",
        "",
        doc="A shell on the node of what the cursor is on, by ssh.",
        views=_ABOUT,
    ),
)
"""`x` and its page list commands; nothing is run or sent but a shell, or what is asked about."""


__all__ = [
    "ACTIONS",
    "LISTED",
    "PURPOSES",
    "ROOTS",
    "Action",
    "ViewName",
    "actions_of",
    "bindings_of",
    "footer_of",
    "keys_markdown",
]

SELF_ACTIONS: Final = (
    Action(
        "help",
        ("question_mark", "f1"),
        "?",
        "help",
        doc="Keys, signs and columns of this view; / searches them.",
        views=EVERYWHERE,
    ),
    Action(
        "suspend",
        ("ctrl+z",),
        "Ctrl-Z",
        "",
        doc="Stop gpumon until fg, and give the terminal to the shell meanwhile.",
        views=EVERYWHERE,
    ),
    Action(
        "close",
        ("q",),
        "q",
        "quit",
        doc="Quit; press again if more than an hour was watched and not recorded. A "
        "view on top of another, such as a group's jobs, only closes.",
        views=FLEET,
    ),
    Action(
        "close",
        ("q",),
        "q",
        "close",
        doc="Close the view on top and its filter, as Esc does.",
        views=EVERYWHERE - FLEET,
    ),
    Action("quit", ("ctrl+c", "ctrl+q"), "Ctrl-C", "", doc="Quit at once.", views=EVERYWHERE),
)
"""What is about gpumon itself."""

PURPOSES: Final[tuple[tuple[str, tuple[Action, ...]], ...]] = (
    ("Move", MOVE_ACTIONS),
    ("Go to another view", GO_ACTIONS),
    ("Choose what is shown", SHOW_ACTIONS),
    ("Time", TIME_ACTIONS),
    ("Judge findings", FINDING_ACTIONS),
    ("Hand over", HAND_ACTIONS),
    ("gpumon itself", SELF_ACTIONS),
)
"""What people want, each with the actions for it."""

ACTIONS: Final = tuple(action for _, actions in PURPOSES for action in actions)


def actions_of(view: ViewName) -> tuple[Action, ...]:
    """What a view lets the user do."""
    return tuple(action for action in ACTIONS if view in action.views)


def bindings_of(view: ViewName) -> list[Binding | tuple[str, str] | tuple[str, str, str]]:
    """Textual bindings of a view."""
    return [
        Binding(
            key,
            f"{action.name}({key!r})" if action.takes_key else action.name,
            action.label or action.doc,
            id=f"{action.name}.{key}",
            show=False,
        )
        for action in actions_of(view)
        for key in action.keys
    ]


_FOOTER: Final = (
    "close",
    "help",
    "open",
    "toggle_column",
    "copy_command",
    "as_at_first",
    "open_cell",
    "commands",
    "ranks",
    "field",
    "grouping",
    "closer",
    "rank",
    "acknowledge",
    "mute",
    "case",
    "span",
    "roofline",
    "switch",
    "findings",
    "filter",
    "command",
    "next_section",
    "curves",
    "node",
    "tree",
    "signal",
    "back",
    "leave",
    "next_problem",
    "mine",
    "sort",
    "sort_waste",
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
    **{view: view for view in get_args(ViewName)},
    "gpus": "GPUs",
    "job": "one job",
    "gpu": "one GPU",
    "node": "one node",
    "page": "texts",
    "columns": "choice of columns",
    "finding": "one finding",
}


def _places(views: frozenset[ViewName]) -> list[str]:
    """Names of views; all of the fleet's as one."""
    is_whole = views >= FLEET - MAPS
    names = ["tables of the fleet"] if is_whole else []
    skip = FLEET - MAPS if is_whole else frozenset()
    return names + [name for view, name in _NAMES.items() if view in views - skip]


def stray_words(view: ViewName, key: str, sign: str) -> str:
    """Where a key that a view has not does something; empty for one that the view has.

    Args:
        view: The view in which it was pressed.
        key: Textual's name of the key.
        sign: The key as people write it.
    """
    having = [action for action in ACTIONS if key in action.keys]
    if any(view in action.views for action in having):
        return ""
    places = dict.fromkeys(place for action in having for place in _places(action.views))
    if not places:
        return f"{sign} does nothing: ? lists the keys"
    return f"{sign} works only in: {', '.join(places)}"


def keys_markdown() -> str:
    """The keys for the documentation, a table for each purpose, GitHub-flavoured Markdown."""
    lines: list[str] = []
    for purpose, actions in PURPOSES:
        lines += ["", f"## {purpose}", "", "| key | does | where |", "|---|---|---|"]
        for action in actions:
            where = "everywhere" if action.views == EVERYWHERE else ", ".join(_places(action.views))
            keys = " ".join(f"`{key}`" for key in action.shown.split())
            lines.append(f"| {keys} | {action.doc} | {where} |")
    return "\n".join(lines[1:]) + "\n"
