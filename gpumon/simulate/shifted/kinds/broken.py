"""Jobs below which a board, a link, a port or a node is broken, slow or silent."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.simulate.shifted.kinds.steps import STEP, begin, healthy_save, recipe, train
from gpumon.simulate.shifted.signals import Phase
from gpumon.simulate.shifted.story import Event, Growth, Kind, Mark

if TYPE_CHECKING:
    from gpumon.simulate.shifted.kinds.steps import Recipe
    from gpumon.simulate.shifted.signals import Tape
    from gpumon.simulate.shifted.story import Story

HW_SLOWDOWN: Final = 0x08
"""The hardware lowers the clock (nvml.h: nvmlClocksEventReasonHwSlowdown)."""
SW_THERMAL: Final = 0x20
"""The driver lowers it because of heat (nvml.h: nvmlClocksEventReasonSwThermalSlowdown)."""
HW_THERMAL: Final = 0x40
"""The hardware lowers it because of heat (nvml.h: nvmlClocksEventReasonHwThermalSlowdown)."""
POWER_BRAKE: Final = 0x80
"""The power supply asks for it (nvml.h: nvmlClocksEventReasonHwPowerBrakeSlowdown)."""

DIES: Final = ((79, "lost"), (48, "ecc"), (94, "ecc"), (119, "driver"), (95, "ecc"))
"""Xids after which a board needs a reset or a power cycle (NVIDIA's Xid catalogue), and how."""


def _sound(story: Story, end_s: float) -> tuple[Recipe, Tape]:
    """A tape of a healthy training job until a time, and how its steps are."""
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    train(story, tape, end_s, of, *healthy_save(story))
    return of, tape


def _prolonged(story: Story, of: Recipe, phase: str, more: float, sick: int | None) -> None:
    """One phase of each step takes longer until the job ends, for as many bytes.

    Args:
        story: Gets the steps, behind what its first tape holds already.
        of: How steps were before.
        phase: `copy` or `comm`.
        more: By how much steps are longer, as a share of what they were.
        sick: The GPU whose link is slow, for which the others wait; None: all are slow together.
    """
    first, life = story.tapes[0], story.life
    lengths = story.steps(life.length_s - first.length_s, of.step_s * (1.0 + more), of.cov)
    lengths /= 1.0 + more
    usual_share = float(of.shares[STEP.index(phase)])
    usual, ratio = story.phases[phase], usual_share / (usual_share + more)
    slow = usual._replace(
        to_gpu=ratio * usual.to_gpu, from_gpu=ratio * usual.from_gpu, nvlink=ratio * usual.nvlink,
        port=ratio * usual.port, dram=ratio * usual.dram,
    )  # fmt: skip
    story.phases |= {"slow": slow, "slow_more": slow._replace(lost=1.0)}
    shares = np.append(of.shares, more)
    work = lengths[:, None] * shares[None, :]
    if sick is not None and life.gpus > 1:
        others = story.branch()
        story.tape_of = [0 if gpu == sick else 1 for gpu in range(life.gpus)]
        story.phases["lag"] = story.phases["wait"]._replace(lost=1.0)
        others.loop((*STEP, "lag"), work)
    first.loop((*("slow" if name == phase else name for name in STEP), "slow_more"), work)


def throttled(story: Story) -> None:
    """Heat or a power brake holds one board's clock down; the other ranks wait for it."""
    draw, life = story.draw, story.life
    of = recipe(story)
    first = story.tape()
    begin(story, first)
    onset = story.onset(3900)
    end_s = min(life.length_s, onset + max(3300.0, draw.of("fault_s")))
    train(story, first, onset, of)
    others = story.branch()
    slow, sick = draw.of("hot_clock_ratio"), draw.whole(0, life.gpus - 1)
    story.tape_of = [0 if gpu == sick else 1 for gpu in range(life.gpus)]
    compute = story.phases["compute"]
    story.phases["lag"] = story.phases["wait"]._replace(lost=1.0)
    # A slower clock does the same in more time, at less power.
    story.phases["hot"] = compute._replace(load=compute.load * slow**2)
    story.phases["hot_more"] = story.phases["hot"]._replace(lost=1.0)
    longer = 1.0 + of.shares[2] * (1.0 / slow - 1.0)
    lengths = story.steps(end_s - onset, of.step_s * longer, of.cov) / longer
    work = lengths[:, None] * of.shares[None, :]
    more = work[:, 2:3] * (1.0 / slow - 1.0)
    hot = ("load", "copy", "hot", "wait", "comm", "hot_more")
    first.loop(hot, np.concatenate((work, more), axis=1))
    others.loop((*STEP, "lag"), np.concatenate((work, more), axis=1))
    for tape in (first, others):
        train(story, tape, life.length_s, of)
    bits = draw.one((HW_THERMAL | HW_SLOWDOWN, SW_THERMAL, HW_SLOWDOWN, POWER_BRAKE | HW_SLOWDOWN))
    if bits != HW_SLOWDOWN and not bits & POWER_BRAKE:
        story.marks.append(
            Mark(gpu=sick, field="temp_c", value=draw.of("hot_c"), from_s=onset, to_s=end_s)
        )
    story.marks += [
        Mark(gpu=sick, field="sm_clock_mhz", value=slow, from_s=onset, to_s=end_s, is_factor=True),
        Mark(gpu=sick, field="clock_event_reasons", value=bits, from_s=onset, to_s=end_s),
    ]
    story.blame("throttled", onset, end_s, "gpu", sick)
    # ByteDance calls a job straggling whose steps take 1.1 times as long as without the slow rank.
    if life.gpus > 2 and longer >= 1.1:
        story.blame("straggler", onset, end_s, "rank", sick, lost_gpu_s=0.0)


def pcie_degraded(story: Story) -> None:
    """Lanes or generations are lost at some moment, or packets are sent again and again.

    Copies take longer by what the slot lacks, and the other ranks wait for them in every step.
    """
    draw, life = story.draw, story.life
    onset = story.onset(3600) if draw.happens(0.6) else 0.0
    of, _ = _sound(story, onset)
    gpu, board = draw.whole(0, life.gpus - 1), life.board
    shape = draw.one(("lanes", "lanes", "generation", "replays"))
    width = min(board.pcie_width, life.node_kind.slot_width)
    if shape == "lanes":
        left = draw.one((width // 2, width // 4, 1))
        story.marks.append(Mark(gpu, "pcie_width", left, onset))
        more = of.copy * (width / left - 1.0)
    elif shape == "generation":
        left = draw.whole(1, board.pcie_gen - 1)
        story.marks.append(Mark(gpu, "pcie_gen", left, onset))
        # Each generation doubles the rate of a lane.
        more = of.copy * (2.0 ** (board.pcie_gen - left) - 1.0)
    else:
        rate = draw.of("replays_per_min")
        story.growths.append(
            Growth(gpu=gpu, field="pcie_replay_count", per_min=rate, from_s=onset, to_s=inf)
        )
        more = draw.of("replay_loss")
    _prolonged(story, of, "copy", more, gpu)
    story.blame("pcie_degraded", max(onset, story.process_from_s), inf, "gpu", gpu)


def link_degraded(story: Story) -> None:
    """An NVLink drops out, or is trained again every minute: exchanges of all ranks take longer."""
    draw, life = story.draw, story.life
    onset = story.onset(3600)
    of, _ = _sound(story, onset)
    gpu, link = draw.whole(0, life.gpus - 1), draw.whole(0, life.board.links - 1)
    if draw.happens(0.6):
        story.down_links.append((gpu, link, onset, inf))
    else:
        rate = draw.of("error_rate_per_min")
        fields = ["link_recovery_event_count"]
        if not life.board.has_newer_links:
            # Older ones count in the sum of all links as well.
            what = draw.one(("recovery", "replay"))
            fields = [f"link_{what}_count", f"nvlink_{what}_count"]
        for field in fields:
            at = None if field.startswith("nvlink") else link
            story.growths.append(
                Growth(gpu=gpu, field=field, per_min=rate, from_s=onset, to_s=inf, link=at)
            )
    _prolonged(story, of, "comm", draw.of("broken_fabric_loss"), None)
    story.blame("fabric_degraded", onset, inf, "gpu", gpu)


def port_degraded(story: Story) -> None:
    """A port loses its link or half of its lanes, or counts errors: exchanges take longer."""
    draw, life = story.draw, story.life
    onset = story.onset(3600)
    of, _ = _sound(story, onset)
    node, port = draw.whole(0, life.nodes - 1), draw.whole(0, life.node_kind.ports - 1)
    shape = draw.one(("down", "slow", "errors"))
    if shape == "errors":
        rate = draw.of("error_rate_per_min")
        at = node * life.gpus_per_node
        story.growths.append(
            Growth(
                gpu=at, field="nic_symbol_error", per_min=rate, from_s=onset, to_s=inf, port=port
            )
        )
    else:
        speed = 0.0 if shape == "down" else life.node_kind.port_gbps / 2
        story.down_ports.append((node, port, onset, inf, speed))
    _prolonged(story, of, "comm", draw.of("broken_fabric_loss"), None)
    story.blame("fabric_degraded", onset, inf, "node", node)


def gpu_fault(story: Story) -> None:
    """A board leaves the bus, or its memory breaks; the other ranks wait for it."""
    draw, life = story.draw, story.life
    onset = story.onset(2400)
    _, first = _sound(story, onset)
    others = story.branch()
    xid, how = draw.one(DIES)
    gpu = draw.whole(0, life.gpus - 1)
    story.tape_of = [0 if one == gpu else 1 for one in range(life.gpus)]
    story.phases["broken"] = Phase(load=0.02, cores=0.1, lost=1.0)
    waiting = "wait" if draw.happens(0.6) else "rest"
    story.phases["hung"] = story.phases[waiting]._replace(lost=1.0)
    first.until("broken", life.length_s)
    others.until("hung", life.length_s)
    story.events.append(Event(gpu, xid, onset))
    if how == "lost":
        story.marks.append(Mark(gpu, "lost", 1.0, onset))
    elif how == "ecc":
        story.marks += [
            Mark(gpu, "ecc_uncorrected_volatile_count", draw.whole(1, 4), onset),
            Mark(gpu, "remap_pending", 1.0, onset),
        ]
    else:
        story.marks.append(Mark(gpu, "recovery_action", draw.one((1.0, 2.0)), onset))
    story.quiet_from_s = onset
    story.end_state = "FAILED"
    story.out_s = inf
    story.blame("gpu_fault", onset, inf, "gpu", gpu)
    if life.gpus > 1:
        story.blame("hang", onset, lost_gpu_s=0.0)


def telemetry_lost(story: Story) -> None:
    """A node reports nothing for a while; its job goes on, as far as is known."""
    draw, life = story.draw, story.life
    _sound(story, life.length_s)
    onset = story.onset(2400)
    end_s = min(onset + draw.of("silence_s"), life.seen_to_s - 60.0)
    node = draw.whole(0, life.nodes - 1)
    story.silent.append((node, onset, end_s))
    story.blame("telemetry_lost", onset, end_s, "node", node, lost_gpu_s=0.0)


def node_crash(story: Story) -> None:
    """A node dies and its job with it; when it is back its counters begin again."""
    draw, life = story.draw, story.life
    _sound(story, life.length_s)
    # Slurm gives a node up when it has not answered for five minutes (SlurmdTimeout).
    onset = life.length_s - 300.0
    node = draw.whole(0, life.nodes - 1)
    story.out_s = draw.of("reboot_s")
    story.silent.append((node, onset, life.length_s + story.out_s))
    story.end_state = "NODE_FAIL"
    story.blame("telemetry_lost", onset, life.length_s, "node", node, lost_gpu_s=0.0)


def program_error(story: Story) -> None:
    """A kernel reads where it may not; the program dies and the job is started again."""
    draw, life = story.draw, story.life
    at_s = story.onset(1800)
    of, tape = _sound(story, at_s)
    gpu = draw.whole(0, life.gpus - 1)
    story.events.append(Event(gpu, draw.one((31, 13, 43, 31, 109)), at_s))
    again_s = draw.of("restart_s")
    tape.then("start", again_s)
    top = story.memory[0][-1][1]
    back = [(at_s, 0.0), (at_s + 0.5 * again_s, 0.3 * top), (at_s + again_s, top)]
    story.memory = [[*story.memory[0], (at_s - 1.0, top), *back]]
    train(story, tape, life.length_s, of, *healthy_save(story))
    story.blame("program_error", at_s, at_s + 60.0, "gpu", gpu, lost_gpu_s=0.0)


def stuck_completing(story: Story) -> None:
    """The job is over, and a process waits in the kernel for ever."""
    draw, life = story.draw, story.life
    _sound(story, life.length_s)
    story.stuck_s = draw.of("stuck_s")
    story.blame(
        "stuck_completing", life.length_s, life.length_s + story.stuck_s, "node", lost_gpu_s=0.0
    )


# Nodes and GPUs of each, one of which is drawn. Our choice: the sizes at which the kinds occur.
_SMALL: Final = ((1, 1), (1, 2), (1, 4))
_WORLDS: Final = ((1, 2), (1, 3), (1, 4), (2, 4), (1, 6), (1, 8))

KINDS: Final = (
    Kind("throttled", throttled, ("throttled",), _WORLDS, hours=(2.0, 3.6), least_s=2400,
         names=("hot-aisle", "train_xl")),
    Kind("pcie_degraded", pcie_degraded, ("pcie_degraded",), _SMALL, hours=(2.0, 3.4), least_s=1800,
         names=("det-coco", "seg")),
    Kind("link_degraded", link_degraded, ("fabric_degraded",), ((1, 4), (1, 2), (1, 8)),
         hours=(2.0, 3.4), least_s=2000, board="nvlink", names=("tp4", "gpt-nvl")),
    Kind("port_degraded", port_degraded, ("fabric_degraded",), ((2, 4), (2, 8), (2, 2)),
         hours=(2.0, 3.4), least_s=2000, board="ports", names=("ib-run", "two-nodes")),
    Kind("gpu_fault", gpu_fault, ("gpu_fault",), _WORLDS, hours=(1.6, 3.0), least_s=1800,
         names=("dpo", "vit-h")),
    Kind("telemetry_lost", telemetry_lost, ("telemetry_lost",), (*_SMALL, (2, 4)), hours=(1.8, 3.2),
         least_s=2400, names=("wav2vec", "nerf"), is_alone=True),
    Kind("node_crash", node_crash, ("telemetry_lost",), (*_SMALL, (2, 4)), hours=(1.0, 2.6),
        least_s=1500,
         names=("t5-large", "md"), is_alone=True, ends=True),
    Kind("program_error", program_error, ("program_error",), _SMALL, hours=(1.4, 2.8), least_s=1500,
         names=("cuda-ext", "kernel_dev")),
    Kind("stuck_completing", stuck_completing, ("stuck_completing",), _SMALL, hours=(0.8, 1.8),
        least_s=1800,
         names=("nfs-home", "dump"), ends=True),
)  # fmt: skip
