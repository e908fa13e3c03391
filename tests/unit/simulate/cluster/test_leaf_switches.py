"""The leaf switches of the simulated fleet, also after they were recorded."""

from __future__ import annotations

from collections import Counter

from gpumon.model.records.frame import Frame, QueueRecords
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.records.slurm_queue import queue_records
from gpumon.sources.recording.decode import Decoder
from gpumon.sources.recording.encode import Encoder

ORIGIN = 1_800_000_000.0


def records(nodes: int) -> QueueRecords:
    return queue_records(Fleet(nodes, 2, 1, ORIGIN, 0.0), ORIGIN)


def test_sixteen_nodes_hang_on_a_leaf_and_the_silent_one_beside_its_neighbour() -> None:
    leaves = Counter(node.leaf_switch for node in records(40).nodes)
    assert leaves == {"leaf01": 16, "leaf02": 16, "leaf03": 8 + 1}


def test_a_recording_keeps_leaf_switches_and_blocks() -> None:
    queue = records(20)
    nodes = (queue.nodes[0]._replace(block="b1"), *queue.nodes[1:])
    frame = Frame("demo", "", ORIGIN, 0.0, {}, queue=queue._replace(nodes=nodes))
    encoder, decoder = Encoder(), Decoder()
    decoder.read(encoder.header(0.0, 1.0, ["demo"]))
    read = decoder.read(encoder.frame(frame))
    assert isinstance(read, Frame)
    assert read.queue is not None
    assert read.queue.nodes == nodes
    moved = (nodes[0]._replace(leaf_switch="leaf09"), *nodes[1:])
    again = decoder.read(encoder.frame(frame._replace(queue=queue._replace(nodes=moved))))
    assert isinstance(again, Frame)
    assert again.queue is not None
    assert again.queue.nodes == moved


def test_a_recording_of_before_has_neither() -> None:
    node = records(1).nodes[0]._replace(leaf_switch="")
    frame = Frame("demo", "", ORIGIN, 0.0, {}, queue=records(1)._replace(nodes=(node,)))
    line = Encoder().frame(frame)
    assert b"leaf_switch" not in line
