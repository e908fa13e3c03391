"""What a lane of the lab tells of its tests is what its pytest said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab import lane

if TYPE_CHECKING:
    from pathlib import Path


def told(
    config: pytest.Config, folder: Path, patch: pytest.MonkeyPatch, *reports: pytest.TestReport
) -> list[pytest.TestReport]:
    """The reports as the pytest reads them that started the lane."""
    file = folder / "reports"
    patch.setenv(lane.REPORTS, str(file))
    for report in reports:
        lane.write(config, report)
    return list(lane.read(config, file))


def report(outcome: str, longrepr: object, **more: object) -> pytest.TestReport:
    place = ("tests/lab/test_queue.py", 41, "test_a[24.11]")
    name = "tests/lab/test_queue.py::test_a[24.11]"
    return pytest.TestReport(name, place, {"lab": 1}, outcome, longrepr, "setup", **more)


def test_a_skipped_test_keeps_its_place_and_reason(
    pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = ("/w/tests/lab/conftest.py", 117, "Skipped: the lab needs root\nand Debian's slurmd")
    (found,) = told(pytestconfig, tmp_path, monkeypatch, report("skipped", why))
    assert found.longrepr == why


def test_what_a_test_said_keeps_its_form(
    pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = report("failed", "E   'a' != \"b\"", sections=[("Captured stdout call", "x\u2028\n")])
    one.user_properties = [("slurm", "24.11")]
    other = report("passed", None, duration=0.25)
    for before, after in zip(
        (one, other), told(pytestconfig, tmp_path, monkeypatch, one, other), strict=True
    ):
        for name in ("nodeid", "location", "outcome", "longrepr", "sections", "user_properties"):
            assert getattr(after, name) == getattr(before, name)
        assert (after.when, after.duration) == (before.when, before.duration)


def test_a_lane_that_never_began_a_test_told_nothing(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    assert list(lane.read(pytestconfig, tmp_path / "reports")) == []
