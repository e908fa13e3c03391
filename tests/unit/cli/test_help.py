"""What every command says of itself fits a terminal of 80 columns, and leads on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpumon.cli import main

COMMANDS = (
    "",
    "completion",
    "config",
    "config init",
    "config path",
    "config print",
    "config validate",
    "detectors",
    "detectors check",
    "detectors describe",
    "detectors list",
    "doctor",
    "evaluate",
    "patterns",
    "record",
    "replay",
    "report",
    "serve",
    "simulate",
    "train",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns_and_describes_the_command(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = command.split()
    assert main([*words, "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: {' '.join(['gpumon', *words])} ")
    assert [line for line in said.splitlines() if len(line) > 80] == []
    described = said.split("\n\n")[1]
    assert described[0].isupper()
    assert described.endswith(".")


def test_exit_codes_and_every_command_stand_in_the_main_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--help"])
    said = capsys.readouterr().out
    assert "Exit codes: 0 done, 1 nothing could be read or no such job, 2 wrong usage" in said
    names = {command.split()[0] for command in COMMANDS if command}
    assert [name for name in names if name not in said.partition("Other commands:")[2]] == []


@pytest.mark.parametrize("words", [["record"], ["report", "--by", "x"], ["--tiers", "x"]])
def test_wrong_usage_leads_to_the_help_of_its_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    name = "" if words[0].startswith("-") else f" {words[0]}"
    assert capsys.readouterr().err.endswith(f"; see gpumon{name} --help\n")


@pytest.mark.parametrize(
    "words", [["--help"], ["--for", "x"], ["report", "--since"], ["--nothing"]]
)
def test_the_program_speaks_the_same_words_without_looking_for_translations(
    words: list[str],
) -> None:
    code = (
        "import os, sys; from gpumon.cli import main\n"
        "if sys.argv[1] == 'call': sys.exit(main(sys.argv[2:]))\n"
        "del sys.argv[1]\n"
        "import atexit\n"
        "atexit.register(lambda: print('translated' * ('gettext' in sys.modules)))\n"
        "main()"
    )
    called, program = (
        subprocess.run(
            [sys.executable, "-c", code, how, *words], capture_output=True, text=True, check=False
        )
        for how in ("call", "program")
    )
    assert program.stdout == f"{called.stdout}\n"
    assert (program.stderr, program.returncode) == (called.stderr, called.returncode)
