"""The manual page in docs is the one that the parsers give, and roff takes it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gpumon.cli.commands.completion import every_command
from tools.man_page import PAGE, main, man_page


def test_the_page_is_not_stale() -> None:
    assert main(["--check"]) == 0, "python -m tools.man_page"


def test_every_option_stands_in_it() -> None:
    page = man_page(every_command()).replace("\\-", "-")
    names = {name for one in every_command() for option in one.options for name in option.names}
    assert {name for name in names - {"-h", "--help"} if f"\\fB{name}\\fR" not in page} == set()


def test_no_line_begins_with_a_word_of_roff_by_chance() -> None:
    known = (".TH", ".SH", ".SS", ".B ", ".I ", ".PP", ".TP", ".br", ".nf", ".fi")
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert [one for one in lines if one.startswith((".", "'")) and not one.startswith(known)] == []


def test_groff_has_nothing_to_say_against_it() -> None:
    if shutil.which("groff") is None:
        pytest.skip("no groff here")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", str(PAGE)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
