from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.sources.slurm.text.topology import Place, parse_topology

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_the_leaf_switches_of_a_real_tree(version: str) -> None:
    found = parse_topology((DATA / f"topology-{version}.txt").read_text(encoding="utf-8"))
    assert found.places == {
        "gpu01": Place("s0"),
        "gpu02": Place("s0"),
        "gpu03": Place("s1"),
    }
    assert (found.total, found.unreadable) == (2, 0)


def test_real_blocks_without_the_blocks_of_blocks() -> None:
    found = parse_topology((DATA / "topology-24.11-block.txt").read_text(encoding="utf-8"))
    assert found.places == {
        "gpu01": Place("", "b1"),
        "gpu02": Place("", "b2"),
        "gpu03": Place("", "b3"),
    }
    assert (found.total, found.unreadable) == (3, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Welcome to the cluster\n",
        "RingName=r1 RingIndex=0 Nodes=n[1-4] RingSize=4\n",
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]\n",
        "SwitchName=empty Level=0 LinkSpeed=1\n",
        " SwitchName=s0 Level=0 Nodes=n1\n",
    ],
)
def test_what_places_no_node_is_passed_over(text: str) -> None:
    found = parse_topology(text)
    assert (dict(found.places), found.unreadable) == ({}, 0)


def test_the_first_of_several_leaf_switches_counts() -> None:
    text = (
        "motd\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
        "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n2,m3\nBlockName=b Nodes=n1 BlockSize=1\n"
    )
    found = parse_topology(text).places
    assert found == {"n1": Place("s1", "b"), "n2": Place("s1"), "m3": Place("s2")}


@pytest.mark.parametrize(
    "line",
    [
        "SwitchName= Level=0 Nodes=n1",
        "SwitchName=s Level=0 Nodes=n[1-",
        "SwitchName=s Level=0 Nodes=n[1-99999999]",
        "BlockName=b BlockIndex=0 Nodes=-oProxyCommand=x BlockSize=4",
        "SwitchName=s Level=0 Nodes=n\x1b[2J",
    ],
)
def test_a_record_that_cannot_be_read_is_counted_and_the_others_stay(line: str) -> None:
    found = parse_topology(f"{line}\nSwitchName=ok Level=0 LinkSpeed=1 Nodes=n7\n")
    assert (dict(found.places), found.total, found.unreadable) == ({"n7": Place("ok")}, 2, 1)


def test_names_are_made_harmless() -> None:
    found = parse_topology("SwitchName=\x1b[31ms\u202e0 Level=0 Nodes=n1\n")
    assert found.places["n1"].leaf_switch == "\ufffd[31ms\ufffd0"


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    found = parse_topology(f"SwitchName={text}")
    assert found.unreadable <= found.total
