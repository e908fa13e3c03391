"""Pools that leave nothing behind."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.unit.sources.pools import Run
from tests.worlds.probe import children, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpumon.sources.probes.stream import Endpoint

    Open = Callable[..., Run]


@pytest.fixture
def run() -> Iterator[Open]:
    """Makes pools; afterwards they are closed and have left no child and no descriptor."""
    before = children()
    made: list[Run] = []

    def start(*endpoints: Endpoint, once: bool = False) -> Run:
        one = Run(endpoints, once)
        made.append(one)
        one.start()
        return one

    yield start
    for one in made:
        one.close()
    eventually(lambda: children() <= before, "no child is left")


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
