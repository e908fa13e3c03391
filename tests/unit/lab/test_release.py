"""The lab's versions of Slurm are listed once, for the lab and for what installs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon.sources.slurm.rest.client import VERSIONS
from tests.lab import release
from tests.lab.lane import SLOT, SLOTS_APART
from tests.lab.layout import LAST_SLOT, Layout
from tests.lab.release import HOST, RELEASES, SLOTS

if TYPE_CHECKING:
    import pytest


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


def test_no_two_versions_share_the_addresses_of_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUMON_LAB_SLOT", raising=False)
    layouts = [Layout.chosen(slot, one) for one in RELEASES for slot in (0, 1, LAST_SLOT)]
    assert len({layout.bridge_address for layout in layouts}) == 3 * len(RELEASES)
    assert max(layout.slot for layout in layouts) < SLOTS


def test_one_more_version_leaves_a_slot_to_every_lane() -> None:
    files = Path(release.__file__).parent.glob("*.py")
    named = {name for file in files for name in re.findall(r'lane\("(\w+)"\)', file.read_text())}
    assert len(named) > 3
    assert SLOT + SLOTS_APART * len(named) < SLOTS // (len(RELEASES) + 1)


def test_what_its_slurmrestd_speaks_is_asked_for() -> None:
    spoken = {version for one in RELEASES.values() for version in one.rest_versions}
    assert spoken <= set(VERSIONS), "VERSIONS in gpumon/sources/slurm/rest/client.py lacks one"
