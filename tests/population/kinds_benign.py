"""Sound jobs, many of them close to a kind of waste; nobody may be accused of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.population.boards import BOARDS, HOPPER, L40S
from tests.population.draft import LOCKED, Draft
from tests.population.ranges import HOUR, MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.population.boards import Board
    from tests.population.ranges import Dice


def steady(
    dice: Dice, board: Board | None = None, gpus: int = 0, nodes: int = 1, hours: str = "job_h"
) -> Draft:
    """Training with a start of minutes and checkpoints; what others change."""
    board = board or dice.board()
    draft = Draft(dice, board, gpus or dice.count(1, 2, 4, board.in_node), nodes, hours)
    begin = dice.seconds("load_min")
    draft.hold(dice.draw("mem_share"), begin // 2)
    draft.busy_hosts(dice.draw("cores_share"), draft.span(0))
    draft.remember(dice.draw("host_mem_share"))
    draft.work(dice.work("training"), draft.span(begin))
    saving = draft.every(dice.seconds("checkpoint_every_min"), dice.seconds("checkpoint_s"))
    saving &= draft.span(begin)
    draft.work(dice.work("spin")._replace(util=0.0, sm=0.0), saving)
    draft.busy_hosts(1.5, saving, "write")
    return draft


def dense_training(dice: Dice) -> Draft:
    """Everything as it should be."""
    return steady(dice)


def large_training(dice: Dice) -> Draft:
    """The same over nodes, with exchange over the network."""
    nodes = dice.count(2, 4)
    draft = steady(dice, HOPPER, 8 * nodes, nodes)
    draft.busy_hosts(12.0, draft.span(10 * MIN), "net_tx")
    draft.busy_hosts(12.0, draft.span(10 * MIN), "net_rx")
    return draft


def power_capped_stages(dice: Dice) -> Draft:
    """Pipeline stages under a site's power cap: clocks differ by what each stage does."""
    draft = steady(dice, HOPPER, 8)
    cap = dice.draw("power_cap") * draft.board.limit_w
    draft.limit_w = [cap] * 8
    gap = dice.draw("stage_gap")
    for gpu in range(6):
        for key in ("sm", "tensor", "dram", "power"):
            draft.level[key][gpu] *= gap
    draft.level["power"][6:] *= 1.15
    return draft


def mixed_products(dice: Dice) -> Draft:
    """One job over two products: the faster one waits, and its clocks are others."""
    slower, faster = BOARDS[2], HOPPER
    draft = steady(dice, slower, 16, 2)
    draft.boards = [slower, faster]
    for gpu in range(8, 16):
        draft.limit_w[gpu] = faster.limit_w
        for key in ("sm", "tensor", "dram", "power"):
            draft.level[key][gpu] *= dice.draw("stage_gap")
    return draft


def locked_clocks(dice: Dice) -> Draft:
    """Somebody locked the clocks, on all GPUs or on those of one experiment."""
    draft = steady(dice)
    share = dice.draw("locked_clock")
    for gpu in draft.all if dice.is_so(0.5) else draft.all[: max(1, draft.gpus // 2)]:
        draft.lock[gpu] = share
        draft.reasons[gpu] |= LOCKED
    return draft


def narrow_slots(dice: Dice) -> Draft:
    """Slots of eight lanes, of all GPUs or of every second one, under load.

    NVML names what device and system can do together as the most: eight
    (nvmlDeviceGetMaxPcieLinkWidth in NVIDIA's NVML reference).
    """
    draft = steady(dice, L40S, 8)
    draft.work(dice.work("training")._replace(rx=dice.rng.uniform(2, 9)), draft.span(10 * MIN))
    narrow = draft.all if dice.is_so(0.5) else (1, 3, 5, 7)
    for gpu in narrow:
        draft.lanes[gpu] = 8
    return draft


def cached_data(dice: Dice) -> Draft:
    """The data set comes into host memory for hours, to the limit, and stays there."""
    draft = steady(dice)
    ramp = dice.seconds("cache_h")
    draft.remember(dice.rng.uniform(0.85, 0.99), ramp)
    draft.busy_hosts(0.4, draft.span(0, ramp), "read")
    return draft


def standby_replicas(dice: Dice) -> Draft:
    """Replicas behind a balancer: the last ones see requests only at peaks, and probes."""
    draft = Draft(dice, dice.board(), dice.count(2, 4))
    begin = dice.seconds("long_load_min")
    draft.hold(0.9, begin // 2, name="VLLM::EngineCore")
    draft.busy_hosts(0.05, draft.span(0))
    draft.remember(0.4)
    ping, every = dice.work("ping"), dice.seconds("ping_every_s")
    for gpu in draft.all:
        off = "lull_min" if gpu == 0 else "standby_lull_min"
        draft.work(ping, draft.shares(1 / every, draft.span(begin), every), (gpu,))
        draft.work(dice.work("serving"), draft.spells("burst_min", off, begin), (gpu,))
    return draft


def serving_bursts(dice: Dice) -> Draft:
    """One service with bursts of requests and lulls."""
    draft = Draft(dice, dice.board(), dice.count(1, 2, 4))
    begin = dice.seconds("load_min")
    draft.hold(0.88, begin, name=str(dice.one_of("tritonserver", "python3", "trtllm-serve")))
    draft.busy_hosts(0.08, draft.span(0))
    draft.remember(0.3)
    draft.work(dice.work("serving"), draft.spells("burst_min", "lull_min", begin))
    return draft


def bash_sweep(dice: Dice) -> Draft:
    """A script `run.bash` tries one set of parameters after another, with gaps between."""
    draft = Draft(dice, dice.board(), dice.count(1, 1, 2, 4))
    draft.slurm = {"name": "run_all.bash"}
    busy = draft.spells("trial_min", "queue_gap_min", 2 * MIN)
    draft.hold(dice.draw("mem_share"), 0, name="train.bash")
    draft.mem[:, ~busy] = 0.0
    draft.busy_hosts(dice.draw("cores_share"), busy)
    draft.busy_hosts(0.06, ~busy)
    draft.remember(0.5)
    draft.work(dice.work("training"), busy)
    return draft


def rollouts(dice: Dice) -> Draft:
    """Reinforcement learning: half of the GPUs generate, then the other half learns."""
    draft = Draft(dice, dice.board(with_links=True), 8)
    begin = dice.seconds("long_load_min")
    draft.hold(0.85, begin // 2, name="ray::WorkerDict")
    draft.remember(0.6)
    draft.busy_hosts(0.25, draft.span(0))
    turn = draft.spells("rollout_min", "update_min", begin)
    draft.work(dice.work("decode"), turn, (0, 1, 2, 3))
    draft.work(dice.work("training"), ~turn & draft.span(begin), (4, 5, 6, 7))
    return draft


def compile_first(dice: Dice) -> Draft:
    """Compiles for minutes before hours of work."""
    draft = steady(dice)
    begin = dice.seconds("compile_min")
    for key in draft.level:
        draft.level[key][:, :begin] = 0.0
    draft.mem[:, : begin // 3] = 0.0
    draft.busy_hosts(dice.rng.uniform(0.1, 0.9), draft.span(0, begin))
    return draft


def staging(dice: Dice) -> Draft:
    """Copies its data to local disks first, on a node that it shares."""
    draft = steady(dice, gpus=dice.count(1, 2))
    begin = dice.seconds("staging_min")
    for key in draft.level:
        draft.level[key][:, :begin] = 0.0
    draft.mem[:, :begin] = 0.0
    draft.programs = [one._replace(start=begin) for one in draft.programs]
    draft.busy_hosts(0.05, draft.span(0, begin))
    rate = dice.rng.uniform(0.8, 2.0)
    draft.busy_hosts(rate, draft.span(0, begin), "net_rx")
    draft.busy_hosts(rate, draft.span(0, begin), "write")
    return draft


def active_notebook(dice: Dice) -> Draft:
    """Somebody at work in a notebook: cells, and pauses to think."""
    draft = Draft(dice, dice.board(), 1, hours="short_h")
    draft.slurm = {"name": "jupyter", "is_interactive": dice.is_so(0.5)}
    begin = dice.seconds("load_min")
    draft.hold(dice.draw("held_share"), begin, name="python")
    draft.busy_hosts(0.03, draft.span(0))
    draft.remember(0.3)
    draft.work(dice.work("training"), draft.spells("cell_min", "think_min", begin))
    return draft


def debugging(dice: Dice) -> Draft:
    """An interactive allocation: short runs that crash, and reading between them."""
    draft = Draft(dice, dice.board(), dice.count(1, 2, 4), hours="short_h")
    draft.slurm = {"name": "interactive", "is_interactive": True}
    busy = draft.spells("cell_min", "think_min", dice.seconds("load_min"))
    draft.hold(0.4, 0)
    draft.mem[:, ~busy] = 0.0
    draft.busy_hosts(0.3, busy)
    draft.remember(0.3)
    draft.work(dice.work("training"), busy)
    return draft


def input_bound(dice: Dice) -> Draft:
    """Waits for its loaders between batches: slow, but neither idle nor stuck."""
    draft = steady(dice)
    draft.busy_hosts(0.97, draft.span(0))
    busy = draft.shares(dice.draw("duty"), draft.span(0), dice.count(3, 7, 11, 23))
    for key in draft.level:
        draft.level[key][:, ~busy] = 0.0
    return draft


def fluid_dynamics(dice: Dice) -> Draft:
    """fp64: no tensor cores, memory well used, exchange through the host."""
    draft = Draft(dice, dice.board(), dice.count(1, 4))
    draft.slurm = {"name": str(dice.one_of("openfoam", "nekrs", "case12"))}
    draft.hold(dice.draw("mem_share"), 2 * MIN, name="nekrs")
    draft.busy_hosts(1.0 / draft.cores_per_gpu, draft.span(0))
    draft.remember(0.45)
    draft.work(dice.work("cfd"), draft.span(4 * MIN))
    return draft


def molecular_dynamics(dice: Dice) -> Draft:
    """Little memory, full SMs: no smaller GPU would do."""
    draft = Draft(dice, dice.board(), 1)
    draft.hold(dice.draw("md_mem_gib") / draft.board.mem_gib, MIN, name="gmx")
    draft.busy_hosts(0.7, draft.span(0))
    draft.remember(0.45)
    draft.work(dice.work("dynamics"), draft.span(2 * MIN))
    return draft


def eval_mix(dice: Dice) -> Draft:
    """Every hour two of the ranks evaluate, and the others wait for them in a collective."""
    draft = steady(dice, gpus=4)
    evals = draft.every(dice.seconds("eval_every_min"), dice.seconds("eval_min"))
    evals &= draft.span(30 * MIN)
    draft.work(dice.work("decode"), evals, (0, 1))
    draft.work(dice.work("spin"), evals, (2, 3))
    return draft


def mixture_of_experts(dice: Dice) -> Draft:
    """Exchange by design: always busy, SMs a third."""
    draft = steady(dice, HOPPER, 8)
    draft.work(dice.work("moe"), draft.span(10 * MIN))
    return draft


def chunked_inference(dice: Dice) -> Draft:
    """CPUs prepare for minutes, then GPUs work through it: busy CPUs, quiet GPUs between."""
    draft = Draft(dice, dice.board(), dice.count(1, 2))
    draft.hold(dice.draw("held_share"), dice.seconds("load_min"), name="ray::MapBatches")
    draft.busy_hosts(dice.draw("cpu_job_share"), draft.span(0))
    draft.remember(0.7)
    draft.work(dice.work("decode"), draft.spells("chunk_min", "prepare_min", 6 * MIN))
    return draft


def transcoding(dice: Dice) -> Draft:
    """Video engines work; the SMs hardly do."""
    draft = Draft(dice, dice.board(), dice.count(1, 2))
    draft.hold(0.12, MIN, name="ffmpeg")
    draft.busy_hosts(0.4, draft.span(0))
    draft.remember(0.45)
    draft.work(dice.work("transcode"), draft.span(MIN))
    return draft


def scarred_board(dice: Dice) -> Draft:
    """Old errors, all repaired: aggregate counts, remapped rows, replays that do not grow."""
    draft = steady(dice)
    for gpu in draft.all:
        draft.start_counts += [
            (gpu, "ecc_uncorrected_aggregate_count", dice.count(0, 1, 4)),
            (gpu, "remapped_rows_uncorrectable_count", dice.count(0, 1, 2)),
            (gpu, "ecc_corrected_aggregate_count", dice.count(0, 12, 900)),
            (gpu, "pcie_replay_count", dice.count(0, 3, 140)),
        ]
    draft.counted += [(dice.count(HOUR, 2 * HOUR), 0, "ecc_corrected_volatile_count", 1)]
    return draft


def worn_cables(dice: Dice) -> Draft:
    """Ports and slots with an error now and then, all of them corrected; congestion marks."""
    draft = large_training(dice)
    for hour in range(0, draft.seconds, HOUR):
        draft.counted.append((hour + dice.count(60, 900), dice.count(0, 5), "nic_symbol_error", 1))
    for second in range(0, draft.seconds, 10 * MIN):
        draft.counted.append((second, 2, "nic_np_cnp_sent", dice.count(90, 4000)))
    draft.counted.append((dice.seconds("worked_h"), 1, "pcie_replay_count", 1))
    return draft


def long_load(dice: Dice) -> Draft:
    """Reads a terabyte of weights before it can begin; memory fills meanwhile."""
    draft = Draft(dice, dice.board(), dice.count(4, 8) if dice.is_so(0.5) else 2)
    begin = dice.seconds("long_load_min")
    draft.hold(0.88, MIN, name="sglang::scheduler")
    for second in range(MIN, begin):
        draft.mem[:, second] *= (second - MIN) / (begin - MIN)
    draft.busy_hosts(0.1, draft.span(0))
    draft.busy_hosts(0.8, draft.span(0, begin), "net_rx")
    draft.remember(0.6, begin)
    draft.work(dice.work("decode"), draft.span(begin))
    return draft


def helper_gpu(dice: Dice) -> Draft:
    """One of the GPUs holds a reference or reward model that is asked now and then."""
    draft = steady(dice, gpus=4)
    last = (3,)
    draft.work(dice.work("ping")._replace(util=0, sm=0, dram=0, power=0.0), draft.span(0), last)
    draft.work(dice.work("decode"), draft.spells("update_min", "rollout_min", 9 * MIN), last)
    return draft


def early_hours(dice: Dice) -> Draft:
    """Asked for days, has run for hours: nobody can know how long it will take."""
    draft = steady(dice, hours="long_h")
    draft.slurm = {"time_limit_s": float(dice.count(2, 4, 7)) * 24 * HOUR}
    return draft


BENIGN: Final[tuple[Callable[[Dice], Draft], ...]] = (
    dense_training, large_training, power_capped_stages, mixed_products, locked_clocks,
    narrow_slots, cached_data, standby_replicas, serving_bursts, bash_sweep, rollouts,
    compile_first, staging, active_notebook, debugging, input_bound, fluid_dynamics,
    molecular_dynamics, eval_mix, mixture_of_experts, chunked_inference, transcoding,
    scarred_board, worn_cables, long_load, helper_gpu, early_hours,
)  # fmt: skip
