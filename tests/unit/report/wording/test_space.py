"""Shared memory and what is nearly full, in the line of the host."""

from __future__ import annotations

import pytest

from gpumon.report.lists.once import table
from gpumon.report.text.cells import safe
from gpumon.report.wording.space import space_facts
from tests.worlds.node import block, machine

GIB = 2.0**30


def facts_of(is_stale=False, **spaces):
    rows = {
        path: {"size_bytes": size * GIB, "used_bytes": used * GIB, "free_bytes": free * GIB}
        for path, (size, used, free) in spaces.items()
    }
    kinds = {"type": ("xfs",) * len(rows)}
    tick = machine(more={"local_filesystem": block("local_filesystem", rows, kinds)})
    return space_facts(tick.nodes["n1"]._replace(is_stale=is_stale))


def test_shared_memory_is_always_told_and_others_from_nine_tenths_on():
    shown = facts_of(**{"/dev/shm": (64, 1, 63), "/": (100, 89, 11), "/local": (100, 90, 10)})
    assert shown == [("/dev/shm", "1.0/64 GiB"), ("/local", "90/100 GiB, 90 % full")]


def test_what_a_container_has_by_default_is_told_in_mebibytes():
    assert facts_of(**{"/dev/shm": (64 / 1024, 3 / 1024, 61 / 1024)}) == [("/dev/shm", "3/64 MiB")]


def test_what_only_root_may_fill_counts_as_full():
    """As df has it: with 5 % kept for root, 0 of 95 are left at 95 of 100."""
    assert facts_of(**{"/": (100, 95, 0)}) == [("/", "95/100 GiB, 100 % full")]


def test_the_fullest_come_first_and_the_rest_is_counted():
    shown = facts_of(**{f"/d{n}": (100, 90 + n, 10 - n) for n in range(7)})
    assert [name for name, _ in shown] == ["/d6", "/d5", "/d4", "/d3", "also nearly full"]
    assert shown[-1][1] == "3 more"


def test_what_is_not_known_or_old_is_not_told():
    assert facts_of(is_stale=True, **{"/dev/shm": (64, 1, 63)}) == []
    assert facts_of(**{"/dev/shm": (0, 0, 0)}) == []


@pytest.mark.parametrize("name", ["/\x1b[31mred", "/[bold]x", "/" + "a" * 5000, "/\u202eabc"])
def test_a_hostile_name_is_harmless_and_short(name):
    ((shown, _),) = facts_of(**{name: (100, 99, 1)})
    assert len(shown) <= 24
    assert safe(shown) == shown


def test_the_look_at_one_machine_has_a_line_of_the_host():
    rows = {"/dev/shm": {"size_bytes": 64 * GIB, "used_bytes": 62 * GIB, "free_bytes": 2 * GIB}}
    spaces = block("local_filesystem", rows, {"type": ("tmpfs",)})
    tick = machine(more={"local_filesystem": spaces})._replace(jobs=(), queue_at=None)
    lines = table(tick, 160).splitlines()
    (line,) = [line for line in lines if line.startswith("host n1 ")]
    assert line.endswith("/dev/shm 62/64 GiB")
