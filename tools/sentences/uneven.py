"""Scenes of jobs whose ranks are not alike: one is slow, a stage is heavy, data are uneven."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.scene import WORKING, Scene
from gpumon.model.records.cluster import Rank
from tools.sentences.stage import NO_FIELDS, QUIET_GROUP, QUIET_HOST, alike

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumon.detect.scene import Values

_PERIOD_S: Final = 30.0
_WORK_S: Final = 1200.0

_TRAINING: Final[Values] = {
    **WORKING,
    "gpu_util_ratio": 1.0,
    "sm_active_ratio": 0.8,
    "tensor_active_ratio": 0.36,
    "dram_active_ratio": 0.4,
    "power_w": 600.0,
    "power_limit_w": 700.0,
    "sm_clock_mhz": 1740.0,
    "clock_event_reasons": 0.0,
    "pcie_gen": 5.0,
    "pcie_width": 16.0,
}
_WAITING: Final[Values] = {
    **_TRAINING,
    "sm_active_ratio": 0.59,
    "tensor_active_ratio": 0.25,
    "dram_active_ratio": 0.28,
    "power_w": 490.0,
}
"""Of each step a third more is waited for a slower rank."""
_LATE: Final[Values] = {**_WAITING, "gpu_util_ratio": 0.7, "sm_active_ratio": 0.57}
"""Its GPU rests meanwhile."""
_NOTHING_ELSE: Final[Values] = {}
_PIPES: Final = ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio")


def _ranks(uuids: Sequence[str]) -> list[Rank]:
    return [
        Rank("0", "n1:29500", n, n, len(uuids), uuid.split("-")[1], 4100 + n, (uuid,), None)
        for n, uuid in enumerate(uuids)
    ]


def _job_on(
    nodes: int = 1,
    gpus: int = 4,
    *,
    has_ranks: bool = False,
    slurm: Mapping[str, Mapping[str, Any]] = NO_FIELDS,
) -> tuple[Scene, tuple[str, ...]]:
    scene = Scene(_PERIOD_S, span_s=24 * 3600.0)
    names = [f"n{number + 1}" for number in range(nodes)]
    uuids = tuple(uuid for name in names for uuid in scene.node(name, gpus))
    for name in names:
        scene.slurm(name, **slurm.get(name, {}))
    scene.job("42", uuids, cpu_count=16 * len(uuids), ranks=_ranks(uuids) if has_ranks else ())
    for name in names:
        scene.host(name, **QUIET_HOST, d_state_process_count=0.0)
    scene.cgroup("42", **{**QUIET_GROUP, "job_cpu_count": 64.0})
    return scene, uuids


def _slow(
    seconds: float,
    who: Sequence[int] = (2,),
    how: Values = _TRAINING,
    *,
    before_s: float = _WORK_S,
    before: Mapping[str, Any] = NO_FIELDS,
    then: Mapping[str, Any] = NO_FIELDS,
    **job: Any,  # noqa: ANN401 - of `_job_on`
) -> Scene:
    """All train; then some take longer, and the others wait for them."""
    scene, uuids = _job_on(**job)
    scene.host("n1", **before)
    if before_s:
        scene.run(before_s, alike(uuids, _TRAINING))
    scene.host("n1", **then)
    scene.run(seconds, {**alike(uuids, _WAITING), **alike([uuids[at] for at in who], how)})
    return scene


# straggler


def slow_for_minutes() -> Scene:
    """One of four ranks, whose numbers are not known, computes longer in each step."""
    return _slow(420.0)


def slow_for_longer() -> Scene:
    """It does for 20 minutes, and is known to be rank 2."""
    return _slow(1200.0, has_ranks=True)


def late_host() -> Scene:
    """The GPU of one of four rests for a third of each step while the others spin."""
    return _slow(420.0, how=_LATE)


def late_from_the_start() -> Scene:
    """It does since the job is watched."""
    return _slow(900.0, how=_LATE, before_s=0.0)


def slow_two() -> Scene:
    """Two of eight ranks compute longer."""
    return _slow(420.0, who=(2, 7), gpus=8, has_ranks=True)


def slow_many() -> Scene:
    """Nine of 36 ranks do, on nodes on which others do not."""
    return _slow(420.0, who=tuple(range(0, 36, 4)), nodes=9)


def slow_node() -> Scene:
    """All ranks of one of two nodes do."""
    return _slow(420.0, who=(4, 5, 6, 7), nodes=2)


_LEAVES: Final = {f"n{n}": {"leaf_switch": "leaf-b" if n > 3 else "leaf-a"} for n in range(1, 6)}
_BLOCKS: Final = {f"n{n}": {"block": "rack-7" if n > 3 else "rack-2"} for n in range(1, 6)}


def slow_switch() -> Scene:
    """All ranks of two nodes do, which hang on one switch."""
    return _slow(420.0, who=(6, 7, 8, 9), nodes=5, gpus=2, slurm=_LEAVES)


def slow_rack() -> Scene:
    """They are one block of nodes."""
    return _slow(420.0, who=(6, 7, 8, 9), nodes=5, gpus=2, slurm=_BLOCKS)


def slow_by_heat() -> Scene:
    """The clock of the slow one is held down."""
    return _slow(
        420.0, how={**_TRAINING, "sm_clock_mhz": 1180.0, "clock_event_reasons": float(0x40)}
    )


def slow_by_a_lower_clock() -> Scene:
    """Its clock is lower than that of the others, by a setting."""
    return _slow(
        420.0, how={**_TRAINING, "sm_clock_mhz": 1180.0, "clock_event_reasons": float(0x2)}
    )


def slow_by_its_limit() -> Scene:
    """Its power limit was lowered."""
    return _slow(
        420.0,
        how={
            **_TRAINING,
            "power_limit_w": 400.0,
            "sm_clock_mhz": 1740.0,
            "clock_event_reasons": float(0x4),
        },
    )


def slow_at_the_limit_of_all() -> Scene:
    """It works at the power limit that the others have as well."""
    return _slow(
        420.0, how={**_TRAINING, "sm_clock_mhz": 1510.0, "clock_event_reasons": float(0x4)}
    )


def slow_by_its_slot() -> Scene:
    """Its PCIe link is narrow since the job is watched."""
    return _slow(900.0, how={**_LATE, "pcie_width": 4.0}, before_s=0.0)


def slow_by_a_link() -> Scene:
    """One of its NVLinks is down."""
    scene, uuids = _job_on()
    for uuid in uuids:
        scene.links(uuid, 4, link_speed_bytes_per_s=26.5e9)
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    scene.link(uuids[2], 1, link_state=0)
    scene.run(420.0, {**alike(uuids, _WAITING), uuids[2]: _TRAINING})
    return scene


def slow_by_a_port() -> Scene:
    """The network port near to it has errors."""
    scene, uuids = _job_on()
    port: dict[str, object] = {
        "state": "ACTIVE",
        "phys_state": "LinkUp",
        "nic_speed_gbps": 400.0,
        "nic_symbol_error": 0,
        "nic_link_downed": 0,
        "nearest_gpus": uuids[2],
        "nearest_by": "switch",
    }
    scene.nic("n1", "mlx5_2/1", **port)
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    scene.nic("n1", "mlx5_2/1", nic_symbol_error=lambda s: int(s // 2))
    scene.run(600.0, {**alike(uuids, _WAITING), uuids[2]: _TRAINING})
    return scene


def slow_by_other_tasks() -> Scene:
    """Tasks wait for CPUs on its node, more than before."""
    key = "cpu_pressure_some_ratio"
    return _slow(420.0, how=_LATE, before={key: 0.03}, then={key: 0.8})


def slow_by_its_disks() -> Scene:
    """They wait for disks, and it is unknown how it was before."""
    return _slow(420.0, how=_LATE, then={"io_pressure_some_ratio": 0.6})


def slow_by_its_memory() -> Scene:
    """They wait for memory."""
    return _slow(420.0, how=_LATE, then={"mem_pressure_some_ratio": 0.6})


def slow_in_the_kernel() -> Scene:
    """Two processes of its node wait in the kernel."""
    return _slow(420.0, how=_LATE, then={"d_state_process_count": 2.0})


def slow_without_cpus() -> Scene:
    """Most of its CPUs were taken away."""
    scene, uuids = _job_on()
    scene.run(_WORK_S, alike(uuids, _TRAINING))
    scene.cgroup("42", job_cpu_count=4.0)
    scene.run(420.0, {**alike(uuids, _WAITING), uuids[2]: _LATE})
    return scene


# stage_imbalance


def _stages(seconds: float, heavy: Sequence[int], waiting: Values) -> Scene:
    scene, uuids = _job_on(2, has_ranks=True)
    scene.run(seconds, {**alike(uuids, waiting), **alike([uuids[n] for n in heavy], _TRAINING)})
    return scene


def last_stage_heavy() -> Scene:
    """The last of two stages of four ranks does more than the first, for 20 minutes."""
    return _stages(1200.0, (4, 5, 6, 7), {**_WAITING, "tensor_active_ratio": 0.22})


def last_rank_heavy() -> Scene:
    """Of eight stages of one rank the last does much more, for an hour."""
    lighter = {"sm_active_ratio": 0.45, "tensor_active_ratio": 0.19, "dram_active_ratio": 0.21}
    return _stages(3600.0, (7,), {**_WAITING, **lighter})


def _stages_of_two(
    heavy: Values = _NOTHING_ELSE, waiting: Values = _NOTHING_ELSE, *, has_ranks: bool = True
) -> Scene:
    """Two stages of two ranks on one node, of which the last does more for 20 minutes."""
    scene, uuids = _job_on(has_ranks=has_ranks)
    shown = {**alike(uuids, {**_WAITING, **waiting}), **alike(uuids[2:], {**_TRAINING, **heavy})}
    scene.run(1200.0, shown)
    return scene


def heavy_on_a_shared_node() -> Scene:
    """The last of two stages on one node counts more work at the same clock."""
    return _stages_of_two()


def heavy_without_known_ranks() -> Scene:
    """That they are ranks of one job is not known."""
    return _stages_of_two(has_ranks=False)


def heavy_by_less_than_a_layer() -> Scene:
    """It does a sixth more."""
    return _stages_of_two(waiting={"sm_active_ratio": 0.69, "tensor_active_ratio": 0.31})


def heavy_without_tensor_cores() -> Scene:
    """Tensor cores are not used."""
    return _stages_of_two({"tensor_active_ratio": 0.0}, {"tensor_active_ratio": 0.0})


def heavy_by_turns() -> Scene:
    """How much more it does changes every five minutes."""
    return _stages_of_two({"tensor_active_ratio": lambda s: 0.36 + 0.12 * (s // 300 % 2)})


def heavy_at_lower_clocks() -> Scene:
    """Its clocks are lower, at the power limit that all have."""
    return _stages_of_two({"sm_clock_mhz": 1620.0, "clock_event_reasons": float(0x4)})


def heavy_at_clocks_unknown() -> Scene:
    """No clock is read."""
    return _stages_of_two({"sm_clock_mhz": None}, {"sm_clock_mhz": None})


def heavy_at_its_limit() -> Scene:
    """It is at its power limit, its clocks hardly lower."""
    return _stages_of_two({"clock_event_reasons": float(0x4)})


# data_imbalance


def _swinging(has_ranks: bool, exchanged: float = 0.0) -> Scene:
    scene, uuids = _job_on(has_ranks=has_ranks)

    def work(place: int, share: float) -> Callable[[float], float]:
        # A fixed sequence of which nobody can tell the next.
        return lambda s: share * (0.9 + 0.2 * Random(f"{place} {s // _PERIOD_S}").random())

    values: dict[str, Values] = {
        uuid: {
            **_WAITING,
            **{key: work(place, float(_WAITING[key])) for key in _PIPES},  # type: ignore[arg-type]
            # Boards count alike to a hundredth or so.
            "nvlink_tx_bytes_per_s": exchanged * (1.0 + 0.01 * place),
        }
        for place, uuid in enumerate(uuids)
    }
    scene.run(1500.0, values)
    return scene


def uneven_data() -> Scene:
    """Another of four ranks is the slowest in each window."""
    return _swinging(has_ranks=True)


def uneven_data_of_somebody() -> Scene:
    """It is not known whether they are ranks of one job."""
    return _swinging(has_ranks=False)


def uneven_data_of_one_job() -> Scene:
    """The ranks are unknown, and their NVLinks carry alike, whichever of them has most to do."""
    return _swinging(has_ranks=False, exchanged=4e9)


# slow_drift


def _drifts(how: Values) -> Scene:
    scene, uuids = _job_on()
    scene.run(2400.0, alike(uuids, _TRAINING))
    scene.run(1800.0, alike(uuids, how))
    return scene


def drift_of_waiting() -> Scene:
    """All four GPUs wait longer in each step than before."""
    return _drifts(_WAITING)


def drift_of_resting() -> Scene:
    """They rest longer, and their tensor cores are not used."""
    work: Values = {**_TRAINING, "tensor_active_ratio": 0.0}
    scene, uuids = _job_on()
    scene.run(2400.0, alike(uuids, work))
    less = {"gpu_util_ratio": 0.72, "sm_active_ratio": 0.57, "dram_active_ratio": 0.29}
    scene.run(1800.0, alike(uuids, {**work, **less}))
    return scene


def drift_without_sm_counters() -> Scene:
    """One GPU rests longer in each step: its energy counter shows it."""
    scene, uuids = _job_on(gpus=1)
    joules = 0.0
    for util, watts, seconds in ((0.96, 610.0, 2400.0), (0.64, 430.0, 1800.0)):
        values: Values = {
            **_TRAINING,
            **dict.fromkeys(_PIPES),
            "gpu_util_ratio": util,
            "mem_activity_ratio": 0.45 * util,
            "power_w": watts,
            "energy_j": lambda s, before=joules, watts=watts: before + watts * s,  # type: ignore[misc]
        }
        scene.run(seconds, alike(uuids, values))
        joules += watts * seconds
    return scene


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "straggler": (
        slow_for_minutes,
        slow_for_longer,
        late_host,
        late_from_the_start,
        slow_two,
        slow_many,
        slow_node,
        slow_switch,
        slow_rack,
        slow_by_heat,
        slow_by_a_lower_clock,
        slow_by_its_limit,
        slow_at_the_limit_of_all,
        slow_by_its_slot,
        slow_by_a_link,
        slow_by_a_port,
        slow_by_other_tasks,
        slow_by_its_disks,
        slow_by_its_memory,
        slow_in_the_kernel,
        slow_without_cpus,
    ),
    "stage_imbalance": (
        last_stage_heavy,
        last_rank_heavy,
        heavy_on_a_shared_node,
        heavy_without_known_ranks,
        heavy_by_less_than_a_layer,
        heavy_without_tensor_cores,
        heavy_by_turns,
        heavy_at_lower_clocks,
        heavy_at_clocks_unknown,
        heavy_at_its_limit,
    ),
    "data_imbalance": (uneven_data, uneven_data_of_somebody, uneven_data_of_one_job),
    "slow_drift": (drift_of_waiting, drift_of_resting, drift_without_sm_counters),
}
