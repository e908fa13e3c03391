"""Which features each learnt class is judged by, and which way each of them speaks.

A model sees no others. A simulator, like a site, has habits that have nothing to do with a fault,
and whatever is free to learn them does (docs/numbers.md, "What is learnt"). What is listed here is
what the taxonomy calls the class's signature, and what tells its look-alikes. Where physics says
which way a feature speaks, a model may not learn the contrary: more traffic between ranks never
makes it less likely that they wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Signature(NamedTuple):
    """What a class is recognised by: keys of features."""

    rises: tuple[str, ...]
    """The more, the likelier."""
    falls: tuple[str, ...]
    """The more, the less likely."""
    also: tuple[str, ...]
    """Speak one way or the other, by what the rest says."""
    needs: tuple[str, ...]
    """Those without which nothing is said: fewer counters let it look like something else."""
    least_gpus: int = 1
    """Jobs of fewer GPUs cannot be of the class."""

    @property
    def looks_at(self) -> tuple[str, ...]:
        """All features, in the order of a model's columns."""
        return (*self.rises, *self.falls, *self.also)

    @property
    def directions(self) -> tuple[int, ...]:
        """Of each of them: 1, -1, or 0 where it is free."""
        return (*(1,) * len(self.rises), *(-1,) * len(self.falls), *(0,) * len(self.also))


_UTIL: Final = ("util_15m",)
_SM: Final = ("util_15m", "sm_15m", "tensor_15m")

_STALLS: Final = ("pause_share_15m", "pause_share_60m")
_PAUSES: Final = ("pauses_60m", "pause_s_60m", "longest_pause_60m", "util_15m")
_DISKS: Final = ("io_pressure", "iowait", "blocked_per_gpu", "pause_blocked")
_FILLED: Final = ("sm_per_util_15m", "tensor_15m", "dram_15m")

SIGNATURES: Final[Mapping[str, Signature]] = {
    "storage_bound": Signature(
        (*_STALLS, *_DISKS, "read_wait"), ("cpu_share",), ("util_15m", "read", "pause_read"), _UTIL
    ),
    "input_bound": Signature(
        (*_STALLS, "cpu_share", "cpu_pressure", "pause_cpu"),
        _DISKS,
        ("util_15m", "cores_per_gpu", "cpu_follows", "pauses_60m"),
        _UTIL,
    ),
    "checkpoint_stall": Signature(
        (*_STALLS, "longest_pause_60m", "pause_write", "pause_blocked"),
        ("cpu_share", "write_follows"),
        ("util_15m", "pauses_60m", "pause_s_60m"),
        _UTIL,
    ),
    "cpu_oversubscribed": Signature(
        ("cpu_pressure", "cpu_share", *_STALLS), _DISKS, ("util_15m", "cores_per_gpu"), _UTIL
    ),
    "recompiling": Signature(_STALLS, _DISKS, (*_PAUSES, "cores_per_gpu", "pause_cpu"), _UTIL),
    "copy_bound": Signature(
        ("rx_15m", "tx_15m", "rx_most"), _FILLED, ("util_15m", "cpu_share", "gpus"), _SM
    ),
    "straggler": Signature(
        ("sm_lead", "power_lead", "sm_leader_share", "power_leader_share", "clock_lag"),
        ("tensor_15m",),
        ("util_15m", "util_lead", "util_leader_share", "sm_nodes", "power_nodes", "gpus"),
        _UTIL,
        least_gpus=3,
    ),
    "stage_imbalance": Signature(
        ("sm_stages", "power_stages", "sm_lead", "power_lead"),
        ("tensor_15m",),
        ("util_15m", "sm_leader_share", "power_leader_share", "mem_lag", "gpus"),
        _UTIL,
        least_gpus=4,
    ),
    "data_imbalance": Signature(
        ("sm_unrest_15m", "power_unrest_15m"),
        ("sm_leader_share", "power_leader_share", "sm_together", "power_together"),
        ("util_15m", "sm_lead", "power_lead", "sm_lag", "power_lag", "gpus"),
        _UTIL,
        least_gpus=2,
    ),
    "comm_bound": Signature(
        ("nvlink_15m", "ports", "util_15m"), (*_FILLED, "fp64_15m"), ("gpus",), _SM, least_gpus=2
    ),
    "slow_drift": Signature(
        (), ("drift_60m", "sm_change"), ("util_15m", "util_change", "power_change"), _SM
    ),
    "small_batch": Signature(
        ("util_15m",), (*_FILLED, "mem_peak_60m", "nvlink_15m", "rx_15m"), ("gpus",), _SM
    ),
    "memory_limited": Signature(
        ("mem_peak_60m", "mem_15m"), _FILLED, ("util_15m", "rx_15m", "tx_15m", "cpu_share"), _SM
    ),
    "no_tensor_cores": Signature(
        ("sm_per_util_15m", "fp32_15m"),
        ("tensor_15m", "tensor_per_sm_15m", "engines_15m"),
        ("util_15m", "dram_15m", "fp64_15m"),
        _SM,
    ),
}
"""By class, in the order of precedence. What takes exact counters or a job's whole life (links,
faults, idle GPUs, requests) is not among them: rules tell it better (docs/numbers.md)."""
