"""What tests of several folders share: pretend nodes, and patience with real processes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.probes import pool, stream
from tests.inherited import children_take_signals
from tests.lab import after_workers
from tests.lab.standin import driver
from tests.left_open import let_go
from tests.worlds.probe import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from tests.lab.standin.driver import Standin


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds what asks for the tests that take long."""
    parser.addoption("--slow", action="store_true", help="run slow tests and the lab's, too")
    every = "run slow scenes with every pair of period and trouble, and every seed"
    parser.addoption("--every", action="store_true", help=every)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Half as many workers again as processors: many a test waits for processes or timers."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None  # pytest-xdist's own way to say how many.
    processors = len(os.sched_getaffinity(0))
    return processors + (processors + 1) // 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the lab's tests out of workers, and slow ones out of a run that asks for none."""
    after_workers.leave_out(config, items)
    if config.getoption("slow"):
        return
    left = [item for item in items if is_slow(item) and not is_named(config, item)]
    if left:
        items[:] = [item for item in items if item not in set(left)]
        config.hook.pytest_deselected(items=left)


def is_slow(item: pytest.Item) -> bool:
    """Whether `make test` leaves it to `make test ARGS=--slow`."""
    return any(item.get_closest_marker(name) for name in ("slow", "lab"))


def is_named(config: pytest.Config, item: pytest.Item) -> bool:
    """Whether the command line names its file, or the lab: then it runs, however long it takes."""
    where = config.invocation_params.dir
    named = {(where / word.partition("::")[0]).resolve() for word in config.args}
    return item.path in named or (after_workers.LAB in named and after_workers.is_labs(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Runs the lab's tests after the workers'."""
    has_workers = session.config.pluginmanager.hasplugin("dsession")
    result = yield
    # It comes here again from there.
    if has_workers and not session.items:
        after_workers.run(session)
    return result


def pytest_runtest_logfinish() -> None:
    """Keeps descriptors of one test's pasts from piling up behind thousands of tests.

    Nothing that a test has put in another's place is there any more.
    """
    let_go()


@pytest.fixture(autouse=True, scope="session")
def begun_by_anybody() -> Iterator[None]:
    """Has children begin as in a terminal, also under `nohup` and in a script's background."""
    # Unbuffered, a program never fails at its last flush, as it does for its users.
    with pytest.MonkeyPatch.context() as patch, children_take_signals():
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        yield


@pytest.fixture(autouse=True)
def nothing_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the answers of one test's queue from the next one, and from this user's gpumons."""
    monkeypatch.setenv("GPUMON_SHARE", "no")


@pytest.fixture(autouse=True)
def ends_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives children that end as long for it as a busy machine takes."""
    monkeypatch.setattr(stream, "END_LIMIT_S", PATIENCE_S)
    monkeypatch.setattr(pool, "REAP_LIMIT_S", PATIENCE_S)


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Standin]:
    """Makes this process's children see a pretend node; skips where it cannot be built."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) to build the stand-in driver")

    def start(profile: str = "h100", **options: object) -> Standin:
        node = driver.start(tmp_path / "node", profile, **options)
        for key, value in node.env().items():
            monkeypatch.setenv(key, value)
        return node

    return start


_NEWS = (
    (r"/tmp/(pytest-of-[^/]+/[^/]+(/popen-gw\d+)?/[^/\s:]+|gpumon-caller-\w+)", "FOLDER"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\x1b\[[?0-9;]*[A-Za-z]", ""),
    (re.escape(sys.executable), "python3"),
)
"""What is another in each run, or for the terminal alone, and what stands for it."""


@pytest.fixture
def said(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Takes what a user is told of a fault that the test makes, and the way out: docs/faults.md."""

    def keep(*parts: str) -> None:
        line = "; ".join(part.strip() for part in parts if part.strip())
        for news, instead in _NEWS:
            line = re.sub(news, instead, line)
        request.node.user_properties.append(("said", line))

    return keep


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that only itself vouches for, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=gpumon", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    try:
        subprocess.run([*words, *names, *files], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return folder / "cert.pem", folder / "key.pem"
