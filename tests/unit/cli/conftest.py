"""gpumon as a command, called by whoever runs the tests and by an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from gpumon.fleet.ledger.journal_reader import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ORDINARY = 65534
"""A user without any right of its own: `nobody`."""

OWN_FOLDERS = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")


BOOKED = Entry(
    1_767_225_600.0, 1_767_229_200.0, "7", 1_767_225_600.0, "ada", "ml", "h100", "gpu01", "H100",
    ("GPU-1",), {"useful": 3000.0, "idle_tail": 600.0}, 3.6e6, 3600.0, 1_767_226_500.0,
)  # fmt: skip
"""An hour of GPU time in the books."""


class Caller(NamedTuple):
    """Somebody who starts gpumon, in a home of its own."""

    home: Path
    uid: int | None = None
    """None: the user of the tests."""

    def options(self, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        """What a child of this user is started with."""
        own = {name: str(self.home / name.lower()) for name in OWN_FOLDERS}
        given = {**(os.environ if env is None else env), "HOME": str(self.home), **own}
        if self.uid is None:
            return {"env": given}
        return {"env": given, "user": self.uid, "group": self.uid, "extra_groups": []}

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> Any:
        """How gpumon has ended, and what it has said."""
        return subprocess.run(
            [sys.executable, "-m", "gpumon", *words],
            capture_output=True, text=True, timeout=300, check=False, **self.options(env),
        )  # fmt: skip

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """gpumon as it runs."""
        command = [sys.executable, "-m", "gpumon", *words]
        return subprocess.Popen(command, text=True, **self.options(), **more)


@lru_cache(maxsize=1)
def why_no_ordinary_user() -> str:
    """Why the tests cannot start gpumon as an ordinary user; empty: they can."""
    if os.getuid() != 0:
        return "only root starts gpumon as another user; whoever runs the tests is an ordinary one"
    command = [sys.executable, "-c", "import gpumon.cli"]
    as_another = {"user": ORDINARY, "group": ORDINARY, "extra_groups": []}
    try:
        done = subprocess.run(command, capture_output=True, check=False, cwd="/", **as_another)
    except OSError as error:
        return f"uid {ORDINARY} cannot start Python here: {error}"
    if done.returncode:
        return f"uid {ORDINARY} cannot read gpumon here: it lies below a closed folder"
    return ""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that others can enter: pytest's own are closed to them."""
    with tempfile.TemporaryDirectory(prefix="gpumon-caller-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def ordinary_caller(home: Path) -> Caller:
    """A user without any right of its own."""
    if why := why_no_ordinary_user():
        pytest.skip(why)
    os.chown(home, ORDINARY, ORDINARY)
    return Caller(home, ORDINARY)


@pytest.fixture(params=["oneself", "ordinary user"])
def caller(request: pytest.FixtureRequest, home: Path) -> Caller:
    """Each who starts gpumon: what it answers is no question of being root."""
    if request.param == "oneself":
        return Caller(home)
    found: Caller = request.getfixturevalue("ordinary_caller")
    return found
