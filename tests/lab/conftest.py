"""One real Slurm cluster for all tests of this folder, or a clear reason why there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.lab.cluster import Cluster
from tests.lab.layout import Layout
from tests.lab.prerequisites import unmet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Not the slot of the command line, so that a lab that somebody looks at survives a test run.
SLOT = 1
# A second worker, or a second test run, waits for the whole lab tests of the first.
LOCK_TIMEOUT_S = 1800.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests of this folder, and keeps them in one worker of pytest-xdist."""
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.lab)
            if config.pluginmanager.hasplugin("xdist"):
                item.add_marker(pytest.mark.xdist_group("lab"))


@pytest.fixture(scope="session")
def lab_possible() -> None:
    """Skips where the lab cannot run; fails there instead when GPUMON_LAB=require."""
    reason = unmet()
    if reason is not None and os.environ.get("GPUMON_LAB") == "require":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def cluster(lab_possible: None) -> Iterator[Cluster]:
    """A new cluster with gpumon installed, for the whole session."""
    lab = Cluster(Layout.chosen(SLOT))
    lab.lock(LOCK_TIMEOUT_S)
    lab.up()
    try:
        lab.install_gpumon()
        yield lab
    finally:
        lab.down()
        lab.unlock()


class Submit(Protocol):
    """Cluster.submit, whose jobs are cancelled after the test."""

    def __call__(self, user: str, script: str | Sequence[str], *options: str) -> int:
        """Returns the job's number."""


@pytest.fixture
def submit(cluster: Cluster) -> Iterator[Submit]:
    """Submits jobs that do not outlive the test."""
    jobs: list[int] = []

    def submit_job(user: str, script: str | Sequence[str], *options: str) -> int:
        jobs.append(cluster.submit(user, script, *options))
        return jobs[-1]

    yield submit_job
    if jobs:
        cluster.cancel(*jobs)
