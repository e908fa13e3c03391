"""Tests of the lab in a process and a cluster of their own, beside this one's.

Most of a lab test is waiting for leases, beats and time limits, so many take as long as one.
"""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SLOT = 1
"""Not the slot of the command line, so that a lab that somebody looks at survives a test run."""
REPORTS = "GPUMON_LAB_REPORTS"
"""Names the file that a lane's process writes its reports to."""
SPARE = "GPUMON_LAB_SPARE"
"""Set where a lane's cluster is one beyond that of its version, whose files nobody will need."""
SLOTS_APART = 10
"""Between the lanes of one version of Slurm: a fourth version leaves 64 slots to each."""
END_TIMEOUT_S = 60.0
"""For the labs of a broken-off lane to be taken down."""


class Lane:
    """One more pytest, which runs some of this one's tests and leaves it the reports."""

    def __init__(
        self, config: pytest.Config, items: Sequence[pytest.Item], version: str, number: int
    ) -> None:
        """Starts it.

        Args:
            config: of this pytest.
            items: what it is to run.
            version: of Slurm, the only one that it knows.
            number: of its lane among those of the version, which tells their clusters apart.
        """
        self._config = config
        self._items = items
        self._folder = Path(tempfile.mkdtemp(prefix="gpumon-lane-"))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        maxfail = config.getoption("maxfail")
        if maxfail:
            command.append(f"--maxfail={maxfail}")
        with (self._folder / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [*command, *(item.nodeid for item in items)],
                cwd=config.rootpath,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={
                    **os.environ,
                    **_own_cluster(version, number),
                    REPORTS: str(self._folder / "reports"),
                },
            )

    def finish(self) -> None:
        """Waits for its end and tells its reports to this pytest."""
        self._process.wait()
        by_test: dict[str, list[pytest.TestReport]] = {}
        for report in read(self._config, self._folder / "reports"):
            by_test.setdefault(report.nodeid, []).append(report)
        hook = self._config.hook
        for item in self._items:
            hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            reports = by_test.get(item.nodeid) or [self._lost(item)]
            for report in reports:
                hook.pytest_runtest_logreport(report=report)
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def end(self) -> None:
        """Breaks it off if it still runs; its lab is taken down all the same."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for file in self._folder.iterdir():
            file.unlink()
        self._folder.rmdir()

    def _lost(self, item: pytest.Item) -> pytest.TestReport:
        """In the place of the report of a test that never ran or never ended."""
        output = (self._folder / "output").read_text(errors="replace")
        return pytest.TestReport(
            item.nodeid,
            item.location,
            {},
            "failed",
            f"no report; the end of what its pytest said:\n{output[-4000:]}",
            "call",
        )


def _own_cluster(version: str, number: int) -> dict[str, str]:
    """Variables that choose the cluster of a lane; the first lane has that of its version."""
    slot = int(os.environ.get("GPUMON_LAB_SLOT", SLOT)) + SLOTS_APART * number
    chosen = {"GPUMON_LAB_VERSION": version, "GPUMON_LAB_SLOT": str(slot)}
    if number:
        chosen[SPARE] = "yes"
        if state := os.environ.get("GPUMON_LAB_STATE"):
            chosen["GPUMON_LAB_STATE"] = f"{state}-{number}"
    return chosen


def write(config: pytest.Config, report: pytest.TestReport) -> None:
    """Keeps a report for the pytest that started this one, if one did."""
    file = os.environ.get(REPORTS)
    if file:
        data: dict[str, Any] = config.hook.pytest_report_to_serializable(
            config=config, report=report
        )
        with Path(file).open("a", encoding="utf-8") as reports:
            # No JSON, which has no tuples: pytest knows a skipped test's reason by one.
            reports.write(ascii(data) + "\n")


def read(config: pytest.Config, file: Path) -> Iterator[pytest.TestReport]:
    """The reports that a lane has written to its file, which need not be there."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        yield config.hook.pytest_report_from_serializable(
            config=config, data=ast.literal_eval(line)
        )


def may_open(config: pytest.Config) -> bool:
    """Whether lanes are of use: not in a lane, nor under a debugger, or for a mere listing."""
    alone = config.getoption("usepdb") or config.getoption("capture") == "no"
    lists = config.getoption("collectonly") or config.getoption("setupplan", False)
    return not (os.environ.get(REPORTS) or alone or lists)
