"""The scripts for shells offer what the parsers know, tried in the shells that are here."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gpumon.cli import COMMANDS, main
from gpumon.cli.about.completion import SHELLS
from gpumon.cli.commands.completion import every_command

TRY = {
    "bash": """
compopt() {{ echo FILES; }}
COMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_gpumon
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "zsh": """
_files() {{ echo FILES; }}
compadd() {{ shift; print -l -- "$@"; }}
_describe() {{ print -l -- "${{(@)${{(@P)@[-1]}}%%:*}}"; }}
words=({words} ''); CURRENT=$#words
_gpumon
""",
    "fish": "complete -C '{words} '; complete -C '{words} -'",
}
"""What asks each shell for the words behind some others; in zsh its completion system is not
there, and functions of its names print what they are given."""


def offered(shell: str, words: str) -> set[str]:
    """The words that a shell offers behind these; FILES, where it offers files."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    script = SHELLS[shell](every_command())
    before = "compdef() { :; }\n" if shell == "zsh" else ""
    command = {"zsh": ["zsh", "-f"], "fish": ["fish", "--no-config"]}.get(shell, [shell, "--norc"])
    done = subprocess.run(
        command,
        input=before + script + TRY[shell].format(words=words),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return {line.partition("\t")[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_targets_and_options_stand_behind_gpumon(shell: str) -> None:
    assert {*COMMANDS, "local", "slurm", "demo", "--json", "--version"} <= offered(shell, "gpumon")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "here", "not_here"),
    [
        ("gpumon config", {"path", "print", "validate", "init"}, {"--json", "demo"}),
        ("gpumon config init", {"--help"}, {"path"}),
        ("gpumon report --by", {"user", "account", "class"}, {"config", "demo"}),
        ("gpumon replay", {"--speed", "--at"}, {"--seed", "config"}),
        ("gpumon completion", set(SHELLS), {"demo"}),
    ],
)
def test_a_command_has_its_own_words(
    shell: str, words: str, here: set[str], not_here: set[str]
) -> None:
    found = offered(shell, words)
    assert here <= found
    assert not found & not_here


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("words", ["gpumon replay", "gpumon report --directory", "gpumon doctor"])
def test_files_are_left_to_the_shell(shell: str, words: str) -> None:
    assert "FILES" in offered(shell, words)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_nothing_is_offered_for_a_value_that_nobody_can_guess(shell: str) -> None:
    assert offered(shell, "gpumon --for") <= {""}


def test_the_command_writes_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == SHELLS["bash"](every_command())


def test_another_shell_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err
