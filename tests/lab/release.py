"""The Slurm versions that a lab can run, and where each one's programs and system users are.

Run as a program by the Python of any machine, it names those that need a tree of their own, one a
line: the Debian suite, the version, and `moving` or `kept`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TREES = "/var/cache/gpumon-lab"


@dataclass(frozen=True)
class Release:
    """One version of Slurm."""

    version: str
    python: str
    """Version of /usr/bin/python3 where it is not this machine's; empty: this machine's."""
    rest_versions: tuple[str, ...]
    """API versions that its slurmrestd speaks, newest first."""
    ping: tuple[str, object]
    """What its slurmrestd answers to a ping, key and value."""
    suite: str = ""
    """Debian suite that its packages are of; empty: this machine's own."""
    is_moving: bool = False
    """Whether it comes from a suite that changes any day: made where it can be, and the one whose
    absence is no failure."""
    tells_exclusive: bool = True
    """Whether its JSON shows which jobs want nodes alone."""

    @property
    def tree(self) -> Path | None:
        """Folder that is the root of its machines; None: they share this machine's root."""
        if self.version == HOST:
            return None
        return Path(os.environ.get("GPUMON_LAB_TREES", TREES), f"slurm-{self.version}")

    @property
    def root(self) -> Path:
        """Where its machines' /etc and /usr are to be found."""
        return self.tree or Path("/")

    @property
    def is_newer(self) -> bool:
        """Whether its JSON is of the family that 23.11 began: wrapped numbers, lists of states."""
        return self.version != HOST

    def missing_users(self) -> list[str]:
        """System users of the daemons' packages that it lacks."""
        return sorted({"slurm", "munge", "mysql", "sshd"} - set(self._ids))

    def ids(self, user: str) -> tuple[int, int]:
        """Numbers of a system user and its group, as its machines know them."""
        return self._ids[user]

    @cached_property
    def _ids(self) -> dict[str, tuple[int, int]]:
        lines = (self.root / "etc/passwd").read_text(encoding="utf-8").splitlines()
        fields = [line.split(":") for line in lines]
        return {one[0]: (int(one[2]), int(one[3])) for one in fields}


HOST = "22.05"
"""The version of this machine's own packages, Debian 12."""

RELEASES = {
    HOST: Release(
        HOST, python="", rest_versions=("v0.0.38", "v0.0.37", "v0.0.36"), ping=("ping", "UP")
    ),
    "24.11": Release(
        "24.11",
        python="3.13",
        rest_versions=("v0.0.42", "v0.0.41", "v0.0.40"),
        ping=("pinged", "UP"),
        suite="trixie",
    ),
    "26.05": Release(
        "26.05",
        python="3.14",
        rest_versions=("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42"),
        ping=("responding", True),
        suite="sid",
        is_moving=True,
        tells_exclusive=False,
    ),
}

SLOTS = 256
"""Labs that may be up at once: each has a network of its own below 10.77."""
SLOTS_EACH = SLOTS // len(RELEASES)
"""Slots of one version."""


def first_slot(version: str) -> int:
    """Slot 0 of a version: keeps labs of two versions apart that were asked for with one slot."""
    return SLOTS_EACH * list(RELEASES).index(version)


def chosen_version() -> str:
    """The version that GPUMON_LAB_VERSION asks for, else this machine's own."""
    return os.environ.get("GPUMON_LAB_VERSION", HOST)


if __name__ == "__main__":
    for release in RELEASES.values():
        if release.suite:
            print(release.suite, release.version, "moving" if release.is_moving else "kept")
