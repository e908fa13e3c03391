"""Where pytest-xdist runs tests, its controller runs those of the lab, and each is told once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.worlds.probe import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

TEST = "tests/unit/report/tables/test_age.py"
LAB = "tests/lab/test_topology.py"


def run(folder: Path, *words: str) -> tuple[int, Counter[str], str]:
    """Exit code, how often each test of which file was told, and all that was said."""
    results = folder / "results.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junit-xml={results}"]
    done = subprocess.run(
        [*command, *words],
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_S,
        # Without a compiler the lab's tests are skipped, on every machine.
        env={**os.environ, "CC": "/nowhere/cc", "GPUMON_LAB": ""},
        check=False,
    )
    cases = ElementTree.parse(results).iter("testcase") if results.exists() else ()
    told = Counter(f"{case.get('classname')}::{case.get('name')}" for case in cases)
    return done.returncode, told, done.stdout + done.stderr


def test_one_run_has_the_workers_tests_and_the_labs_each_once(tmp_path: Path) -> None:
    code, told, said = run(tmp_path, "-n", "1", TEST, LAB)
    assert code == 0, said
    assert set(told.values()) == {1}
    assert {name.split(".")[1] for name in told} == {"unit", "lab"}
    assert "skipped" in said.splitlines()[-1]
    assert "failed" not in said.splitlines()[-1]


def test_a_failure_of_the_workers_is_no_reason_to_leave_the_lab_out(tmp_path: Path) -> None:
    bad = tmp_path / "test_bad.py"
    bad.write_text("def test_bad(): assert False\n")
    code, told, said = run(tmp_path, "-n", "1", "-c", "pyproject.toml", str(bad), LAB)
    assert code == 1, said
    assert any(name.startswith("tests.lab.") for name in told)
    assert "1 failed" in said.splitlines()[-1]


def test_nothing_chosen_is_nothing_run(tmp_path: Path) -> None:
    code, told, said = run(tmp_path, "-n", "1", TEST, LAB, "-k", "no_test_has_this_name")
    assert (code, told) == (5, Counter()), said
