"""Actions that hand something over: to the clipboard, to a file, to a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.tui.action import EVERYWHERE, MAIN, Action

if TYPE_CHECKING:
    from gpumon.tui.action import ViewName

_ABOUT: Final[frozenset[ViewName]] = MAIN | {"finding", "curves"}

HAND_ACTIONS: Final = (
    Action(
        "commands",
        ("x",),
        "x",
        "commands",
        "The next command, filled in: py-spy, ncclras, nvidia-smi, scontrol, a shell; Enter "
        "copies it.",
        _ABOUT,
    ),
    Action(
        "copy_command",
        ("enter",),
        "Enter",
        "copy",
        "Copy the command; one that changes something is asked about and run.",
        frozenset({"commands"}),
    ),
    Action(
        "copy",
        ("y",),
        "y",
        "",
        "Copy what the cursor is on: a GPU's UUID, a job's id, the name of a node, a user, an "
        "account, a partition or a reservation, a command.",
        _ABOUT | {"commands"},
    ),
    Action(
        "export",
        ("E",),
        "E",
        "",
        "Write the table to a file, CSV or JSON, or the screen as a picture, SVG.",
        EVERYWHERE,
    ),
    Action(
        "shell",
        ("exclamation_mark",),
        "!",
        "",
        "A shell on the node of what the cursor is on, by ssh.",
        _ABOUT,
    ),
)
"""`x` and its page list commands; nothing is run but a shell, or what is asked about."""
