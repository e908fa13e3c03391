"""The lab's versions of Slurm are listed once, for the lab and for what installs them."""

from __future__ import annotations

import subprocess
import sys

from tests.lab import release
from tests.lab.release import HOST, RELEASES


def test_what_needs_a_tree_is_named_with_its_suite() -> None:
    done = subprocess.run(
        # As the Python of a bare machine runs it: nothing of ours can be imported.
        [sys.executable, "-I", "-S", release.__file__],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [version for _, version, _ in lines] == [one for one in RELEASES if one != HOST]
    assert ["trixie", "24.11", "kept"] in lines
    assert {kind for suite, _, kind in lines if suite == "sid"} == {"moving"}


def test_no_two_versions_share_the_addresses_of_a_slot() -> None:
    assert len({one.slot_offset for one in RELEASES.values()}) == len(RELEASES)
