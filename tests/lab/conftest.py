"""A real Slurm cluster of each version for the tests of this folder, or a reason for none."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.lab import after_workers, lane
from tests.lab.cluster import Cluster
from tests.lab.lane import SLOT
from tests.lab.layout import Layout
from tests.lab.machine import LabError
from tests.lab.prerequisites import unmet
from tests.lab.release import HOST, RELEASES

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

# A second test run waits for the whole lab tests of the first.
LOCK_TIMEOUT_S = 1800.0
HERE = (HOST, "")
"""The lane of this process."""


def pytest_configure(config: pytest.Config) -> None:
    """Makes known what only the tests of this folder are marked with."""
    config.addinivalue_line("markers", "every_slurm: runs on every version of Slurm in the lab")
    config.addinivalue_line(
        "markers", "lane(name): waits for long, so that it has a cluster and a process of its own"
    )
    if os.environ.get(lane.REPORTS):
        config.pluginmanager.register(_Writer(config))


class _Writer:
    """Passes reports on to the pytest that started this one."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps one report."""
        lane.write(self._config, report)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Runs the tests of the lab side by side that have a lane of their own."""
    lanes: list[lane.Lane] = []
    apart: dict[tuple[str, str], list[pytest.Item]] = {}
    if lane.may_open(session.config):
        for item in session.items:
            apart.setdefault(_lane_of(item), []).append(item)
    if len(apart) > 1:
        own = apart.pop(HERE, [])
        session.items[:] = own
        # The empty name of a version's main lane comes first and so has the version's own cluster.
        names = sorted({"", *(name for _, name in apart)})
        for (version, name), items in apart.items():
            lanes.append(lane.Lane(session.config, items, version, names.index(name)))
    try:
        result = yield
        for one in lanes:
            one.finish()
    finally:
        for one in lanes:
            one.end()
    return result


def _lane_of(item: pytest.Item) -> tuple[str, str]:
    """Version of Slurm and name of the lane of a test; those of no lane and no cluster are here."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or not item.path.is_relative_to(after_workers.LAB):
        return HERE
    version = callspec.params.get("cluster", HOST)
    # What is skipped needs no process of its own for that; pytest names no version where
    # GPUMON_LAB_VERSION leaves none.
    if version not in RELEASES or not _can_run(version):
        return HERE
    marker = item.get_closest_marker("lane")
    return version, marker.args[0] if marker else ""


@cache
def _can_run(version: str) -> bool:
    return unmet(version) is None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests of this folder; those that wait for long do so on the versions that stay."""
    mine = [item for item in items if item.path.is_relative_to(after_workers.LAB)]
    for item in mine:
        item.add_marker(pytest.mark.lab)
    spared = {item for item in mine if item.get_closest_marker("lane") and _is_moving(item)}
    if spared:
        config.hook.pytest_deselected(items=list(spared))
        items[:] = [item for item in items if item not in spared]


def _is_moving(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    version = callspec.params.get("cluster") if callspec else None
    return version in RELEASES and RELEASES[version].is_moving


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test of the cluster on the host's Slurm, and where its marker says so on all.

    GPUMON_LAB_VERSION leaves one version.
    """
    if "cluster" in metafunc.fixturenames:
        every = metafunc.definition.get_closest_marker("every_slurm") is not None
        versions = list(RELEASES) if every else [HOST]
        only = os.environ.get("GPUMON_LAB_VERSION")
        chosen = [version for version in versions if only in (None, version)]
        metafunc.parametrize("cluster", chosen, indirect=True, scope="session")


def need(version: str) -> None:
    """Skips where the lab of a version cannot run; fails there when GPUMON_LAB=require.

    A version whose source changes any day may be missing all the same.
    """
    reason = unmet(version)
    is_required = os.environ.get("GPUMON_LAB") == "require" and not RELEASES[version].is_moving
    if reason is not None and is_required:
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A new cluster with gpumon installed, for all tests of its version."""
    need(request.param)
    lab = Cluster(Layout.chosen(SLOT, request.param))
    lab.lock(LOCK_TIMEOUT_S)
    try:
        try:
            _up_at_last(lab)
        except LabError as error:
            if lab.layout.release.is_moving:
                pytest.skip(f"what Debian sid has today gives no lab: {error}")
            raise
        lab.install_gpumon()
        yield lab
    finally:
        lab.down(purge=lane.SPARE in os.environ)
        lab.unlock()


def _up_at_last(lab: Cluster) -> None:
    """Makes the cluster, and once more from nothing where it did not come up.

    A dozen boot at once, and on a busy machine a database that is new has been seen to hang.
    """
    try:
        lab.up()
    except LabError:
        lab.up()  # whose own error comes with the first one as its context


@pytest.fixture(scope="session")
def gpumon(cluster: Cluster) -> str:
    """The command that starts gpumon in the lab."""
    return str(cluster.layout.venv / "bin/gpumon")


@pytest.fixture
def patient(cluster: Cluster) -> Iterator[None]:
    """Keeps Slurm from giving up a node whose cable a test cuts for long."""
    with cluster.patient():
        yield


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
