"""NUMA nodes of a machine, and which of them a process may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.probe.kernel.numa import MAX_CPUS, MAX_LIST, Numa, cpu_list

if TYPE_CHECKING:
    from pathlib import Path


def machine(root: Path, nodes: dict[int, tuple[str, str]]) -> Numa:
    for number, (cpus, distance) in nodes.items():
        folder = root / f"sys/devices/system/node/node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus + "\n")
        (folder / "distance").write_text(distance + "\n")
    return Numa(str(root))


def status(cpus: str) -> str:
    return f"Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}\nMems_allowed:\t1\n"


TWO = {0: ("0-15,32-47", "10 21"), 1: ("16-31,48-63", "21 10")}


@pytest.mark.parametrize(
    ("cpus", "count", "nodes"),
    [
        ("0-63", 64, "0,1"),
        ("3", 1, "0"),
        ("16-31", 16, "1"),
        ("15-16", 2, "0,1"),
        ("100", 1, ""),
    ],
)
def test_the_nodes_of_the_cpus_that_a_process_may_use(
    cpus: str, count: int, nodes: str, tmp_path: Path
) -> None:
    allowed = machine(tmp_path, TWO).allowed(status(cpus))
    assert allowed is not None
    assert (allowed.listed, allowed.number, allowed.nodes) == (cpus, count, nodes)


@pytest.mark.parametrize("text", ["", "Cpus_allowed:\tff\n", status(""), status("x"), status("-1")])
def test_a_status_without_a_list_says_nothing(text: str, tmp_path: Path) -> None:
    assert machine(tmp_path, TWO).allowed(text) is None


def test_a_long_list_is_cut_but_counted_whole(tmp_path: Path) -> None:
    cpus = ",".join(str(cpu) for cpu in range(0, 512, 2))
    allowed = machine(tmp_path, TWO).allowed(status(cpus))
    assert allowed is not None
    assert allowed.number == 256
    assert len(allowed.listed) <= MAX_LIST + 2
    assert allowed.listed.endswith(",\u2026")
    assert cpus.startswith(allowed.listed[:-1])


def test_distances_are_those_between_nodes_with_cpus(tmp_path: Path) -> None:
    """Memory of GPUs, as on Grace Hopper, is a node without CPUs; numbers may have gaps."""
    numa = machine(tmp_path, TWO | {4: ("", "80 80"), 9: ("", "80 80")})
    assert numa.distances == ""
    (tmp_path / "second").mkdir()
    nodes = {0: ("0-3", "10 32 80"), 2: ("4-7", "32 10 80"), 9: ("", "80 80 10")}
    assert machine(tmp_path / "second", nodes).distances == "0:10,32 2:32,10"


def test_a_kernel_without_numa_tells_nothing(tmp_path: Path) -> None:
    numa = Numa(str(tmp_path))
    assert numa.distances == ""
    allowed = numa.allowed(status("0-7"))
    assert allowed is not None
    assert (allowed.number, allowed.nodes) == (8, "")


@given(st.text(max_size=60))
def test_no_list_is_too_strange(text: str) -> None:
    try:
        found = cpu_list(text)
    except ValueError:
        return
    assert all(0 <= cpu < MAX_CPUS for cpu in found)


def test_a_list_beyond_any_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="no such CPU"):
        cpu_list("0-99999999999")


def test_a_list_that_repeats_itself_is_none() -> None:
    with pytest.raises(ValueError, match="CPU"):
        cpu_list("0-5000," * 4 + "7")
