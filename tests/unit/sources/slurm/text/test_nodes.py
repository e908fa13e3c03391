from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.records.cluster import SlurmNode
from gpumon.sources.slurm.text.nodes import parse_nodes

REAL = (Path(__file__).parents[1] / "data" / "nodes-22.05.txt").read_text(encoding="utf-8")


def test_reads_a_real_answer() -> None:
    found = parse_nodes(REAL)
    assert found.unreadable == 0
    assert found.announced == 3
    assert (
        found.nodes[1][:7]
        == SlurmNode("gpu02", "gpu02", "10.99.0.1", "mixed+drain", 8, (), "fan [slot 3] noisy")[:7]
    )
    assert [node.state for node in found.nodes] == ["mixed", "mixed+drain", "mixed+completing"]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("IDLE", "idle"),
        ("DOWN*", "down+not_responding"),
        ("DOWN*+DRAIN", "down+drain+not_responding"),
        ("DOWN+NOT_RESPONDING", "down+not_responding"),
        ("MIXED+MAINTENANCE+RESERVED", "mixed+maintenance+reserved"),
        ("IDLE~", "idle+powered_down"),
        ("MIXED-", "mixed+planned"),
    ],
)
def test_spells_out_states(text: str, state: str) -> None:
    found = parse_nodes(f"NodeName=a\n   Gres=gpu:2\n   State={text} ThreadsPerCore=1")
    assert found.nodes[0].state == state


def test_no_gpus_and_no_word_about_gpus_differ() -> None:
    counts = [
        parse_nodes(f"NodeName=a\n{line}   State=IDLE ThreadsPerCore=1").nodes[0].gpu_count
        for line in ("   Gres=(null)\n", "")
    ]
    assert counts == [0, None]


def test_an_address_that_is_no_operand_is_replaced_by_the_name() -> None:
    text = "NodeName=a\n   NodeAddr=-oX=y NodeHostName=b;c\n   State=IDLE"
    assert parse_nodes(text).nodes[0][:3] == ("a", "a", "a")


@pytest.mark.parametrize(
    "bad", ["NodeName=-a\n   State=IDLE", "NodeName=a", "NodeName=a\n   State=a;b", "NodeName="]
)
def test_a_corrupt_record_is_counted(bad: str) -> None:
    found = parse_nodes(f"{bad}\n\nNodeName=b\n   State=IDLE\n")
    assert ([node.name for node in found.nodes], found.unreadable) == (["b"], 1)


@given(st.integers(0, 5000), st.text(max_size=20))
def test_damage_anywhere_never_raises(place: int, text: str) -> None:
    place %= len(REAL)
    parse_nodes(REAL[:place] + text + REAL[place + len(text) :])


def test_sockets_beside_the_number_of_gpus_do_not_count() -> None:
    path = Path(__file__).parents[1] / "data" / "nodes-22.05-accounting.txt"
    found = parse_nodes(path.read_text(encoding="utf-8"))
    assert [node.gpu_count for node in found.nodes] == [8, 8, 8]
