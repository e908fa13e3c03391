"""Jobs that waste GPU time in ways that no rule of the idle and faulty ones proves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.population.boards import HOPPER
from tests.population.kinds_benign import steady
from tests.population.ranges import MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.population.draft import Draft
    from tests.population.ranges import Dice


def hang(dice: Dice) -> Draft:
    """All ranks wait in a collective that never ends: 100 % busy, nothing done."""
    draft = steady(dice, dice.board(with_links=True), 8)
    end = dice.seconds("worked_h")
    draft.work(dice.work("spin"), draft.span(end))
    draft.busy_hosts(8.0 / draft.cores, draft.span(end))
    draft.lose("hang", end)
    return draft


def straggler(dice: Dice) -> Draft:
    """One rank is slow and all others wait for it, spinning."""
    draft = steady(dice, HOPPER, 8)
    slow = dice.draw("straggle")
    for gpu in range(7):
        for key in ("sm", "tensor", "dram", "power"):
            draft.level[key][gpu] /= slow
    draft.lose("straggler", 0, share=1.0 - 1.0 / slow)
    return draft


def fp32_training(dice: Dice) -> Draft:
    """Dense work outside of the tensor cores."""
    draft = steady(dice)
    draft.work(dice.work("fp32"), draft.span(8 * MIN))
    draft.lose("no_tensor_cores", 0, share=0.6)
    return draft


def small_batches(dice: Dice) -> Draft:
    """Launches cost more than what they start."""
    draft = steady(dice)
    draft.mem *= 0.4
    draft.work(dice.work("launch_bound"), draft.span(8 * MIN))
    draft.lose("small_batch", 0, share=0.6)
    return draft


def starved(dice: Dice) -> Draft:
    """Its loaders cannot keep up: the GPUs work a tenth of the time."""
    draft = steady(dice)
    draft.busy_hosts(0.97, draft.span(0))
    busy = draft.shares(dice.draw("starved_duty"), draft.span(0), dice.count(7, 19, 45, 90))
    for key in draft.level:
        draft.level[key][:, ~busy] = 0.0
    draft.lose("input_bound", 0, share=0.8)
    return draft


def checkpoint_stalls(dice: Dice) -> Draft:
    """Saves so often that it does little else; to a network file system."""
    draft = steady(dice)
    period = dice.seconds("stall_every_min")
    duty = dice.draw("stall_duty")
    saving = draft.every(period, round(duty * period)) & draft.span(8 * MIN)
    for key in draft.level:
        draft.level[key][:, saving] = 0.0
    draft.busy_hosts(0.5, saving, "net_tx")
    draft.lose("checkpoint_stall", 0, share=duty)
    return draft


def storage_bound(dice: Dice) -> Draft:
    """Reads from a file server that answers slowly: stalls of minutes."""
    draft = steady(dice)
    ready = draft.spells("chunk_min", "update_min", 5 * MIN)
    for key in draft.level:
        draft.level[key][:, ~ready] = 0.0
    draft.busy_hosts(0.08, draft.span(0))
    draft.busy_hosts(0.15, ~ready, "net_rx")
    draft.lose("storage_bound", 0, share=0.4)
    return draft


def copy_bound(dice: Dice) -> Draft:
    """Copies between host and device fill the step."""
    draft = steady(dice)
    draft.work(dice.work("copying"), draft.span(8 * MIN))
    draft.lose("copy_bound", 0, share=0.6)
    return draft


def communication_bound(dice: Dice) -> Draft:
    """Small layers over many GPUs: all ranks exchange most of the time."""
    draft = steady(dice, HOPPER, 8)
    draft.work(dice.work("collective"), draft.span(8 * MIN))
    draft.lose("comm_bound", 0, share=0.6)
    return draft


def leaking_training(dice: Dice) -> Draft:
    """Its memory grows beside what its checkpoints write, which may be the page cache."""
    draft = steady(dice)
    draft.remember(dice.rng.uniform(0.93, 0.99), dice.seconds("leak_h"))
    draft.lose("memory_leak", 0, share=0.0)
    return draft


def slowing_down(dice: Dice) -> Draft:
    """Steps take ever longer."""
    draft = steady(dice)
    drift = 1.0 / (1.0 + draft.span(0).cumsum() / draft.seconds)
    for key in ("sm", "tensor", "dram", "power"):
        draft.level[key] *= drift
    draft.lose("slow_drift", 0, share=0.3)
    return draft


UNKNOWN: Final[tuple[Callable[[Dice], Draft], ...]] = (
    hang, straggler, fp32_training, small_batches, starved, checkpoint_stalls, storage_bound,
    copy_bound, communication_bound, leaking_training, slowing_down,
)  # fmt: skip
