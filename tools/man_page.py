"""Writes the manual page from the argument parsers: docs/gpumon.1, which the wheel ships.

python -m tools.man_page            write it
python -m tools.man_page --check    exit 1 if it is stale
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon import __version__
from gpumon.cli.commands.completion import every_command
from gpumon.cli.options import EPILOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.cli.about.command_tree import Command, Option

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "gpumon.1"

TARGETS: Final = "targets:\n"
"""Heading of the part of the main command's help that lists the targets."""

FILES: Final = (
    ("~/.config/gpumon/config.toml", "Settings; gpumon config init begins it."),
    ("/etc/xdg/gpumon/config.toml", "Settings of the site, read before those of the user."),
    ("~/.local/state/gpumon", "Notes, the ledger of GPU time and rolling recordings."),
)


def man_page(commands: Sequence[Command]) -> str:
    """The page in the macros of man(7).

    Args:
        commands: The command line, the main command first.
    """
    main, *others = commands
    head, _, rest = EPILOG.partition(TARGETS)[2].partition("\n\n")
    return "".join(
        (
            f'.TH GPUMON 1 "" "gpumon {__version__}" "User Commands"\n',
            f".SH NAME\ngpumon \\- {_text(main.doc[0].lower() + main.doc[1:].rstrip('.'))}\n",
            f".SH SYNOPSIS\n{_usage(main)}",
            *(f".br\n{_usage(one)}" for one in others if len(one.words) == 1),
            f".SH DESCRIPTION\n{_text(main.doc)}\n",
            f".SH TARGETS\n.nf\n{_text(head)}\n.fi\n",
            f".SH OPTIONS\n{''.join(_options(main))}",
            f".SH COMMANDS\n{''.join(map(_command, others))}",
            f".SH NOTES\n.nf\n{_text(rest.strip())}\n.fi\n",
            f".SH FILES\n{''.join(_item(f'.I {_text(path)}', doc) for path, doc in FILES)}",
        )
    )


def _command(command: Command) -> str:
    """One command, or one part of it, with its options."""
    head = f".SS gpumon {_text(command.name)}\n{_usage(command)}.PP\n{_text(command.doc)}\n"
    return head + "".join(_arguments(command)) + "".join(_options(command))


def _usage(command: Command) -> str:
    """How a command is called; the words in bold."""
    usage = _text(command.usage)
    return f".B {_text(' '.join(('gpumon', *command.words)))}\n{usage}\n" if usage else ""


def _arguments(command: Command) -> Iterator[str]:
    for one in command.arguments:
        if one.doc:
            yield _item(f".I {_text(one.metavar)}", one.doc)


def _options(command: Command) -> Iterator[str]:
    for one in command.options:
        if "--help" not in one.names:
            yield _item(_named(one), one.doc)


def _named(option: Option) -> str:
    """The names of an option in bold, its value in italics."""
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
    return names + (f" \\fI{_text(option.metavar)}\\fR" if option.metavar else "")


def _item(head: str, doc: str) -> str:
    return f".TP\n{head}\n{_text(doc)}\n"


def _text(text: str) -> str:
    """Text that roff prints as it stands: no line begins with a control character."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti")
    escaped = escaped.replace("^", "\\(ha").replace("`", "\\(ga")
    return "\n".join(f"\\&{one}" if one[:1] in (".", "'") else one for one in escaped.split("\n"))


def main(words: Sequence[str]) -> int:
    """0; 1 where the page is stale and only to be checked."""
    page = man_page(every_command())
    if "--check" in words:
        is_stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page
        if is_stale:
            print(f"{PAGE.name} is stale: python -m tools.man_page writes it")
        return int(is_stale)
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
