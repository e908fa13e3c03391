"""Jobs that waste GPU time in ways that today's detectors know, with the truth about each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.population.boards import HOPPER
from tests.population.draft import HW_SLOWDOWN, HW_THERMAL, SW_THERMAL, Draft
from tests.population.kinds_benign import serving_bursts, steady
from tests.population.ranges import HOUR, MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.population.ranges import Dice


def _still(draft: Draft, start: int, *, is_held: bool) -> None:
    """Nothing computes any more from a second on; processes stay or go."""
    for key in draft.level:
        draft.level[key][:, start:] = 0.0
    for key in ("cores", "read", "write", "net_rx", "net_tx"):
        draft.host[key][:, start:] = 0.0
    draft.busy_hosts(draft.dice.draw("quiet_cores") / draft.cores, draft.span(start))
    if not is_held:
        draft.mem[:, start:] = 0.0
        draft.programs = [p._replace(end=min(p.end, start)) for p in draft.programs]


def never_started(dice: Dice) -> Draft:
    """The container was never launched, and the script waits."""
    draft = Draft(dice, dice.board(), dice.count(1, 2, 4))
    _still(draft, 0, is_held=False)
    draft.remember(0.05)
    draft.lose("never_started", 0)
    return draft


def dies_early(dice: Dice) -> Draft:
    """Works for minutes, then its processes are gone and `sleep infinity` keeps the job."""
    draft = steady(dice)
    end = dice.seconds("worked_min")
    _still(draft, end, is_held=False)
    draft.lose("idle_tail", end)
    return draft


def works_then_idle(dice: Dice) -> Draft:
    """Works for a while; then the process waits for nothing and keeps its memory."""
    draft = steady(dice)
    end = dice.seconds("worked_h" if dice.is_so(0.5) else "worked_min")
    _still(draft, end, is_held=True)
    draft.lose("idle_held", end, also=("idle_tail",))
    return draft


def held_all_night(dice: Dice) -> Draft:
    """A kernel of a notebook, started by sbatch, keeps what it loaded."""
    draft = Draft(dice, dice.board(), dice.count(1, 2))
    draft.slurm = {"name": str(dice.one_of("train_llama", "nb", "jupyter.sh"))}
    end = dice.seconds("worked_min")
    draft.hold(dice.draw("held_share"), MIN, name="python")
    draft.remember(0.3)
    draft.work(dice.work("training"), draft.spells("cell_min", "think_min", 2 * MIN, end))
    _still(draft, end, is_held=True)
    draft.lose("idle_held", end, also=("interactive_idle", "idle_tail"))
    return draft


def one_core_spins(dice: Dice) -> Draft:
    """A loop polls for a file that never comes: one core busy, GPUs held and quiet."""
    draft = steady(dice, gpus=dice.count(1, 2, 4))
    end = dice.seconds("worked_min")
    _still(draft, end, is_held=True)
    draft.busy_hosts(1.0 / draft.cores, draft.span(end))
    draft.lose("idle_held", end, also=("idle_tail",))
    return draft


def cpu_job(dice: Dice) -> Draft:
    """A solver on CPUs in the partition of the GPUs."""
    draft = Draft(dice, dice.board(), dice.count(1, 2, 4))
    draft.slurm = {"name": str(dice.one_of("gpu_train", "abaqus", "preprocess"))}
    draft.busy_hosts(dice.draw("cpu_job_share"), draft.span(MIN))
    draft.remember(0.6)
    draft.lose("cpu_only", 0)
    return draft


def partial_idle(dice: Dice) -> Draft:
    """Fewer processes than GPUs: the others stay untouched."""
    draft = steady(dice, gpus=dice.count(2, 4, 8) if dice.is_so(0.6) else 4)
    idle = draft.all[dice.count(1, draft.gpus // 2) :]
    draft.programs = [p for p in draft.programs if p.gpus[0] not in idle]
    draft.mem[list(idle)] = 0.0
    for key in draft.level:
        draft.level[key][list(idle)] = 0.0
    draft.lose("partial_gpus_idle", 0, gpus=idle)
    return draft


def idle_session(dice: Dice) -> Draft:
    """A shell of `salloc` left open: used for minutes, or not at all."""
    draft = Draft(dice, dice.board(), dice.count(1, 2, 4), hours="job_h")
    draft.slurm = {"name": "interactive", "is_interactive": True}
    use = dice.seconds("session_use_min") if dice.is_so(0.6) else 0
    if use:
        draft.hold(0.3, 0, use)
        draft.work(dice.work("training"), draft.spells("cell_min", "think_min", 0, use))
    _still(draft, use, is_held=False)
    draft.remember(0.05)
    draft.lose("interactive_idle", use, also=() if use else ("never_started",))
    return draft


def forgotten_notebook(dice: Dice) -> Draft:
    """An interactive notebook whose owner went home; the kernel keeps its memory."""
    draft = Draft(dice, dice.board(), 1, hours="job_h")
    draft.slurm = {"name": "sys/dashboard/sys/jupyter", "is_interactive": True}
    end = dice.seconds("worked_min")
    draft.hold(dice.draw("held_share"), MIN, name="python")
    draft.remember(0.3)
    draft.work(dice.work("training"), draft.spells("cell_min", "think_min", 0, end))
    _still(draft, end, is_held=True)
    draft.lose("interactive_idle", end, also=("idle_held",))
    return draft


def slow_start(dice: Dice) -> Draft:
    """Builds and installs for an hour or two before the first kernel."""
    draft = steady(dice)
    begin = dice.seconds("slow_start_h")
    for key in draft.level:
        draft.level[key][:, :begin] = 0.0
    draft.mem[:, :begin] = 0.0
    draft.programs = [p._replace(start=begin) for p in draft.programs]
    draft.busy_hosts(dice.rng.uniform(1.5, 5.0) / draft.cores, draft.span(0, begin))
    draft.busy_hosts(0.03, draft.span(0, begin), "net_rx")
    draft.busy_hosts(0.05, draft.span(0, begin), "write")
    draft.lose("slow_startup", 0, begin)
    return draft


def _hot(dice: Dice, start: int) -> Draft:
    """One of several GPUs that work apart from one another is too hot."""
    draft = steady(dice, gpus=dice.count(2, 4))
    draft.is_apart = True
    # Far from the power limit, so that the clock alone tells what is lost.
    draft.level["power"][:] = draft.level["power"].clip(0.0, 0.95)
    factor = dice.draw("hot_factor")
    bits = SW_THERMAL if dice.is_so(0.5) else HW_THERMAL | HW_SLOWDOWN
    hot = (dice.count(*draft.all),)
    draft.slow(factor, bits, start, hot)
    lost = (1.0 - factor) * (draft.level["util"][hot[0], start:] > 0.3)
    draft.lose("throttled", start, gpus=hot, share=lost)
    return draft


def hot_from_the_start(dice: Dice) -> Draft:
    """A fan that failed before the job began."""
    return _hot(dice, 0)


def hot_from_the_middle(dice: Dice) -> Draft:
    """A fan that fails while it works."""
    return _hot(dice, dice.seconds("worked_h"))


def downtrained_link(dice: Dice) -> Draft:
    """A link came up, or fell, to few lanes under load."""
    draft = steady(dice, gpus=4)
    draft.work(dice.work("copying"), draft.span(5 * MIN))
    start = dice.seconds("worked_h") if dice.is_so(0.5) else 0
    draft.width[1, start:] = dice.count(1, 4)
    slow = dice.draw("downtrain_slow")
    for key in ("rx", "sm", "tensor", "power"):
        draft.level[key][1, start:] /= slow
    draft.counted += [(s, 1, "pcie_replay_count", 3) for s in range(start, draft.seconds, 600)]
    share = 1.0 - 1.0 / slow
    draft.lose("pcie_degraded", start, gpus=(1,), share=share, is_charged=False)
    return draft


def lost_gpu(dice: Dice) -> Draft:
    """A GPU falls off the bus (Xid 79); the job's other ranks wait for it."""
    draft = steady(dice, gpus=4)
    end = dice.seconds("worked_h")
    draft.is_alone = True
    draft.lost[2] = end
    draft.xids.append((end, 2, 79))
    _still(draft, end, is_held=True)
    draft.work(dice.work("spin"), draft.span(end), (0, 1, 3))
    draft.lose("gpu_fault", end, gpus=(2,), also=("telemetry_lost",), is_charged=False)
    draft.lose("hang", end, gpus=(0, 1, 3), is_charged=False)
    return draft


def uncorrected_memory(dice: Dice) -> Draft:
    """An uncorrected error in memory (Xid 48, 63 or 94), a row waits for its remapping."""
    draft = steady(dice, gpus=4)
    at = dice.seconds("worked_h")
    draft.xids += [(at, 1, 48), (at + 1, 1, dice.count(63, 94))]
    draft.counted += [
        (at, 1, "ecc_uncorrected_volatile_count", dice.count(1, 2)),
        (at, 1, "ecc_uncorrected_aggregate_count", 1),
        (at + 2, 1, "remap_pending", 1),
    ]
    draft.lose("gpu_fault", at, gpus=(1,), is_charged=False)
    return draft


def link_errors(dice: Dice) -> Draft:
    """NVLinks of one GPU are down, or count errors that they cannot correct."""
    draft = steady(dice, HOPPER, 8)
    at = dice.seconds("worked_min")
    draft.links_down[5] = (at, dice.count(1, 2, 4))
    draft.lose("fabric_degraded", at, gpus=(5,), is_charged=False)
    return draft


def failing_port(dice: Dice) -> Draft:
    """The network port beside one GPU goes up and down, and then stays down."""
    draft = steady(dice, HOPPER, 16, 2)
    draft.busy_hosts(12.0, draft.span(10 * MIN), "net_tx")
    draft.busy_hosts(12.0, draft.span(10 * MIN), "net_rx")
    at = dice.seconds("worked_h")
    draft.counted += [(at + 60 * n, 3, "nic_link_downed", 1) for n in range(5)]
    draft.ports_down[3] = at + 5 * MIN
    draft.lose("fabric_degraded", at, gpus=(3,), is_charged=False)
    return draft


def scattered(dice: Dice) -> Draft:
    """Four GPUs on four nodes that exchange all they can, where one node would do."""
    draft = steady(dice, HOPPER, 4, 4)
    draft.is_alone = False
    for key in ("net_tx", "net_rx"):
        draft.busy_hosts(dice.rng.uniform(15, 35), draft.span(10 * MIN), key)
    draft.lose("fragmented", 0, share=0.3, is_charged=False)
    return draft


def oversized(dice: Dice) -> Draft:
    """A small model on a large GPU, for hours."""
    draft = Draft(dice, dice.board(with_gpm=True), 1)
    draft.hold(dice.draw("small_mem_gib") / draft.board.mem_gib, MIN)
    draft.busy_hosts(1.2 / draft.cores_per_gpu, draft.span(0))
    draft.remember(0.5)
    draft.work(dice.work("tiny"), draft.span(2 * MIN))
    draft.lose("oversized_gpu", 0, share=0.8, is_charged=False)
    return draft


def overasked_cores(dice: Dice) -> Draft:
    """Asks for half of the node's CPUs beside one GPU, and uses one of them."""
    draft = steady(dice, gpus=1)
    draft.cores_per_gpu = draft.board.cores_per_gpu * draft.board.in_node // 2
    draft.busy_hosts(dice.rng.uniform(0.8, 2.0) / draft.cores, draft.span(0))
    draft.lose("overasked", 0, share=0.0, is_charged=False)
    return draft


def overasked_days(dice: Dice) -> Draft:
    """Asks for days and is done within hours."""
    draft = steady(dice, hours="short_h")
    draft.slurm = {"time_limit_s": float(dice.count(3, 5, 7)) * 24 * HOUR}
    draft.lose("overasked", 0, share=0.0, is_charged=False)
    return draft


def leaking_service(dice: Dice) -> Draft:
    """A service keeps something of every request, until the limit of its memory ends it."""
    draft = serving_bursts(dice)
    draft.remember(dice.rng.uniform(0.93, 0.99), dice.seconds("leak_h"))
    draft.lose("memory_leak", 0, share=0.0, is_charged=False)
    return draft


def idle_tail(dice: Dice) -> Draft:
    """Work done, results written, and the script does not end."""
    draft = steady(dice)
    end = max(HOUR, draft.seconds - dice.seconds("tail_h"))
    _still(draft, end, is_held=False)
    draft.lose("idle_tail", end)
    return draft


WASTEFUL: Final[tuple[Callable[[Dice], Draft], ...]] = (
    never_started, dies_early, works_then_idle, held_all_night, one_core_spins, cpu_job,
    partial_idle, idle_session, forgotten_notebook, slow_start, hot_from_the_start,
    hot_from_the_middle, downtrained_link, lost_gpu, uncorrected_memory, link_errors,
    failing_port, scattered, oversized, overasked_cores, overasked_days, leaking_service,
    idle_tail,
)  # fmt: skip
