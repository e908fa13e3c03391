"""What tests of several folders share: pretend nodes, and patience with real processes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.lab.standin import driver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab.standin.driver import Standin


@pytest.fixture(autouse=True)
def nothing_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the answers of one test's queue from the next one, and from this user's gpumons."""
    monkeypatch.setenv("GPUMON_SHARE", "no")


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
