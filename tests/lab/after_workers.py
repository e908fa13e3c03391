"""The lab's tests where pytest-xdist runs the others: in its controller, once those are done.

They have one cluster for all and lanes of their own, so no worker may run any of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

LAB = Path(__file__).parent
"""The folder of the lab's tests."""


def is_labs(item: pytest.Item) -> bool:
    """Whether a test lies in the lab's folder."""
    return item.path.is_relative_to(LAB)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the lab's tests from a worker, which collects what the controller was told to."""
    if hasattr(config, "workerinput"):
        items[:] = [item for item in items if not is_labs(item)]


def run(session: pytest.Session) -> None:
    """Runs those tests of the lab that were asked for; the workers were given the others."""
    chosen = _chosen(session.config)
    if not chosen:
        return
    of_workers, failed = session.testscollected, session.testsfailed
    # What failed before its first test is for pytest an error of collecting: none is run.
    session.testsfailed = 0
    found = session.perform_collect(chosen)
    # Before they run: the share that is told as done counts on from the workers' tests.
    session.testscollected += of_workers
    if found:
        _run_here(session)
    session.testsfailed += failed


def _run_here(session: pytest.Session) -> None:
    """Runs the session's tests as where there are no workers, lanes included."""
    manager = session.config.pluginmanager
    here = manager.subset_hook_caller("pytest_runtestloop", [manager.get_plugin("dsession")])
    here(session=session)


def _chosen(config: pytest.Config) -> list[str]:
    """Of the command line's operands what lies in the lab's folder."""
    chosen = []
    for operand in config.args:
        path = (config.invocation_params.dir / operand.partition("::")[0]).resolve()
        if path.is_relative_to(LAB):
            chosen.append(operand)
        elif LAB.is_relative_to(path):
            chosen.append(str(LAB))
    return chosen
