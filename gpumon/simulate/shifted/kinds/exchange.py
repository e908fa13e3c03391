"""Jobs whose ranks wait for each other, or that stop for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.simulate.shifted.kinds.steps import (
    STEP,
    begin,
    exchange,
    healthy_save,
    lockstep,
    recipe,
    train,
)
from gpumon.simulate.shifted.signals import Phase
from gpumon.simulate.shifted.story import Kind

if TYPE_CHECKING:
    from gpumon.simulate.shifted.kinds.steps import Recipe
    from gpumon.simulate.shifted.signals import Floats
    from gpumon.simulate.shifted.story import Story


def _apart(story: Story, of: Recipe, onset: float) -> None:
    """A tape for each rank, alike until trouble begins."""
    begin(story, story.tape())
    train(story, story.tapes[0], max(onset, story.tapes[0].length_s), of)
    for _ in range(story.life.gpus - 1):
        story.branch()
    story.tape_of = list(range(story.life.gpus))
    story.phases["lag"] = story.phases["wait"]._replace(lost=1.0)
    story.phases["drag"] = story.phases["compute"]._replace(lost=1.0)


def _work(story: Story, of: Recipe, end_s: float, slowdown: float) -> tuple[Floats, Floats]:
    """Seconds of load, copy and compute by rank and step until a time, and of the exchange."""
    seconds = max(1.0, end_s - story.tapes[0].length_s)
    lengths = story.steps(seconds, of.step_s * slowdown, of.cov) / slowdown
    own = lengths[None, :, None] * of.shares[None, None, :3]
    return np.repeat(own, len(story.tapes), axis=0), lengths * of.shares[4]


def hang(story: Story) -> None:
    """All ranks wait alike, as for a collective that not all of them call; or one has left.

    Half and half. Who has left rests, waits in the kernel, is dead, or runs a kernel that never
    ends; the others spin or wait asleep.
    """
    draw, life = story.draw, story.life
    of = recipe(story)
    onset = story.onset(2700)
    _apart(story, of, onset)
    shape = draw.one(("rests", "stuck", "dead", "kernel")) if draw.happens(0.5) else "alike"
    asleep = story.phases["rest"]._replace(lost=1.0, cores=1.0)
    spinning = story.phases["wait"]._replace(lost=1.0, sm=draw.of("spin_sm"))
    story.phases["hung"] = spinning if shape == "rests" or draw.happens(0.65) else asleep
    left = draw.whole(0, life.gpus - 1)
    story.phases["left"] = {
        "alike": story.phases["hung"],
        "rests": asleep._replace(cores=draw.one((0.0, 1.0))),
        "stuck": asleep._replace(cores=0.0, stuck=1.0),
        "dead": Phase(lost=1.0),
        "kernel": spinning._replace(
            sm=draw.of("endless_sm"), load=draw.of("endless_load"), cores=1.0
        ),
    }[shape]
    for rank, tape in enumerate(story.tapes):
        tape.until("left" if rank == left else "hung", life.length_s)
    if shape == "dead":
        story.leaves_s = {left: onset}
    story.quiet_from_s = onset
    story.end_state = "CANCELLED"
    also = () if shape == "alike" else (("rank", left),)
    story.blame("hang", onset, also=also)


def straggler(story: Story) -> None:
    """One rank computes slower for a while: a sick board, a noisy neighbour, a bad cable."""
    draw, life = story.draw, story.life
    of = recipe(story)
    onset = story.onset(3600)
    end_s = min(life.length_s, onset + max(2700.0, draw.of("fault_s")))
    _apart(story, of, onset)
    slow, rank = draw.of("slowdown"), draw.whole(0, life.gpus - 1)
    own, comm = _work(story, of, end_s, slow)
    extra = own[rank, :, 2] * (slow - 1.0)
    if draw.happens(0.3):
        # It comes and goes.
        extra *= np.repeat(draw.uniform(len(extra) // 40 + 1) < 0.75, 40)[: len(extra)]
    waits = np.broadcast_to(extra[None, :], (life.gpus, len(extra)))
    for number, tape in enumerate(story.tapes):
        late = "drag" if number == rank else "lag"
        table = np.concatenate((own[number], waits[number][:, None], comm[:, None]), axis=1)
        tape.loop(("load", "copy", "compute", late, "comm"), table)
    end_s = story.tapes[rank].length_s
    for tape in story.tapes:
        train(story, tape, life.length_s, of)
    story.blame("straggler", onset, end_s, "rank", rank)


def stage_imbalance(story: Story) -> None:
    """A pipeline whose last stage holds the head and its loss."""
    draw, life = story.draw, story.life
    of = recipe(story)
    _apart(story, of, 0.0)
    own, comm = _work(story, of, life.length_s, draw.of("mild_slowdown") + 0.1)
    stages = draw.one([n for n in (2, 3, 4, 6, 8) if life.gpus % n == 0 and n <= life.gpus])
    heavy = draw.one((0, stages - 1, stages - 1))
    slow = draw.of("slowdown")
    per = life.gpus // stages
    for rank in range(life.gpus):
        if rank // per == heavy:
            own[rank, :, 2] *= slow
    lockstep(story, own, comm, life.length_s)
    # At balance each would need the mean: what all wait together is what is lost.
    story.blame("stage_imbalance", story.process_from_s)


def data_imbalance(story: Story) -> None:
    """Sequences of unlike length: another rank is the slowest in each step."""
    draw, life = story.draw, story.life
    of = recipe(story)
    _apart(story, of, story.onset(4500) if draw.happens(0.3) else 0.0)
    onset = story.tapes[0].length_s
    cov = draw.of("data_cov")
    own, comm = _work(story, of._replace(step_s=max(1.0, of.step_s)), life.length_s, 1 + 1.6 * cov)
    own[:, :, 2] *= np.exp(cov * draw.normal(*own.shape[:2]))
    lockstep(story, own, comm, life.length_s)
    story.blame("data_imbalance", onset)


def comm_bound(story: Story) -> None:
    """Small layers over many ranks, no overlap: all ranks exchange most of the time."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    exposed = draw.of("exposed_ratio")
    healthy = of.comm
    story.phases["comm"] = exchange(
        story, story.phases["wait"], max(draw.of("port_ratio"), 0.3)
    )._replace(lost=(exposed - healthy) / exposed, cores=1.1)
    train(story, tape, life.length_s, of._replace(comm=exposed), *healthy_save(story))
    story.blame("comm_bound", story.process_from_s)


def nic_misplaced(story: Story) -> None:
    """All ranks of a node send through one port, that of the first GPU."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    wrong = draw.whole(0, life.node_kind.ports - 1)
    story.port_of = lambda _gpu: wrong
    far = draw.of("exposed_ratio")
    narrow = life.node_kind.port_bytes_per_s * draw.of("one_port_ratio") / life.gpus_per_node
    story.phases["comm"] = story.phases["comm"]._replace(
        port=narrow, nvlink=0.3 * story.phases["comm"].nvlink, lost=(far - of.comm) / far
    )
    train(story, tape, life.length_s, of._replace(comm=far))
    story.blame("nic_misplaced", story.process_from_s)


def fragmented(story: Story) -> None:
    """A job of as many GPUs as one node has, spread over several, with much to exchange."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    far = draw.of("far_exchange_ratio")
    ports = life.node_kind.port_bytes_per_s * life.node_kind.ports
    story.phases["comm"] = story.phases["comm"]._replace(
        port=draw.of("busy_ports_ratio") * ports / life.gpus_per_node, lost=1.0 - 0.1 / far
    )
    train(story, tape, life.length_s, of._replace(comm=far))
    story.blame("fragmented", story.process_from_s)


def slow_drift(story: Story) -> None:
    """Steps take longer and longer: a list grows, or from one moment on a switch is full."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    onset = story.onset(4500)
    train(story, tape, onset, of)
    drift, ramp_s = draw.of("drift_ratio"), draw.of("drift_ramp_s")
    in_exchange = life.gpus > 1 and draw.happens(0.5)
    base = "comm" if in_exchange else "load"
    story.phases["late"] = story.phases[base]._replace(lost=1.0)
    lengths = story.steps(life.length_s - onset, of.step_s, of.cov)
    grown = drift * np.minimum(1.0, np.cumsum(lengths) / ramp_s)
    table = np.concatenate(
        (lengths[:, None] * of.shares[None, :], (lengths * grown)[:, None]), axis=1
    )
    tape.loop((*STEP, "late"), table)
    story.blame("slow_drift", onset)


# Nodes and GPUs of each, one of which is drawn. Our choice: the sizes at which the kinds occur.
_WORLDS: Final = ((1, 4), (1, 6), (1, 8), (2, 4), (1, 3), (3, 4), (2, 8), (4, 8))

KINDS: Final = (
    Kind("hang", hang, ("hang",), _WORLDS, hours=(1.6, 3.4), least_s=1800,
        names=("pretrain-7b", "fsdp")),
    Kind("straggler", straggler, ("straggler",), _WORLDS, hours=(2.0, 3.6), least_s=2400,
        board="profiled",
         names=("ddp", "moe-ablation")),
    Kind("stage_imbalance", stage_imbalance, ("stage_imbalance",), ((1, 4), (1, 8), (2, 4)),
         hours=(1.6, 3.2), least_s=1500, board="profiled", names=("pp4", "megatron")),
    Kind("data_imbalance", data_imbalance, ("data_imbalance",), ((1, 4), (1, 8), (1, 3), (2, 4)),
         hours=(1.8, 3.2), least_s=1800, board="profiled", names=("sft-longctx", "packing-off")),
    Kind("comm_bound", comm_bound, ("comm_bound",), ((1, 4), (2, 4), (1, 8), (2, 8), (3, 4)),
         hours=(1.5, 3.2), least_s=1500, board="profiled", names=("tp16", "allreduce-heavy")),
    Kind("nic_misplaced", nic_misplaced, ("nic_misplaced",), ((2, 4), (2, 8), (3, 4)),
        hours=(1.5, 3.0),
         least_s=1500, board="ports", names=("multi-node", "nccl-env")),
    Kind("fragmented", fragmented, ("fragmented",), ((2, 1), (2, 2), (4, 2), (3, 1)),
        hours=(2.0, 3.4),
         least_s=4200, board="ports", is_alone=True, is_spread=True,
         names=("scatter", "four-by-two")),
    Kind("slow_drift", slow_drift, ("slow_drift",), ((1, 1), (1, 2), (1, 4), (2, 4)),
        hours=(2.2, 3.6),
         least_s=3000, names=("longrun", "rnn-lm")),
)  # fmt: skip
