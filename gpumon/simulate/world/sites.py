"""Sites: what runs at clusters whose figures were published, and how well.

No two clusters are alike, and no mix can be all of them: a seed draws one, and its fleets resemble
that one alone. Which kinds of jobs a cluster ran no paper gives. How often each is drawn here is
our choice, guided by what its operators write of its users, so that the published quantiles match:
`python -m tests.bench.likeness` holds them side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.simulate.physics.board import A100, BOARDS, Board
from gpumon.simulate.physics.random_streams import stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.simulate.cluster.workloads import Workload


class Site(NamedTuple):
    """One cluster: its machines and the habits of its users."""

    name: str
    reaches: tuple[tuple[float, float], ...]
    """How well programs of a partition's users fill its SMs: one range a partition."""
    gap_share: float
    """Of what they leave unfilled, the share that is time between kernels."""
    step_times: tuple[float, float]
    """Length of a training step, over that of a model that fits one node."""
    times: Mapping[str, float]
    """How often a kind of job is drawn, over how often it is anywhere; 1 where none is named."""
    boards: tuple[Board, ...] = ()
    """Boards that are there in any case, as they are sold."""
    products: int = len(BOARDS)
    """How many kinds of boards are there at most."""

    def weight_of(self, workload: Workload) -> float:
        """How common a kind of job is there."""
        return workload.weight * self.times.get(workload.kind, 1.0)


def _each(kinds: Iterable[str], times: float) -> dict[str, float]:
    return dict.fromkeys(kinds, times)


_HELD: Final = (
    "never_started",
    "idle_tail",
    "idle_held",
    "session_left",
    "notebook",
    "cpu_only",
)
_WAITED_ON: Final = ("input_bound", "storage_bound", "copy_bound", "cpu_oversubscribed")
_HALF_BUSY: Final = ("memory_limited", "offloaded", "token_server", "batch_inference")
_OTHER_THAN_MODELS: Final = (
    *("token_server", "serving", "standby", "batch_inference", "transcoding", "rendering"),
    *("folding", "solving", "recommending", "offloaded"),
)
_LARGE: Final = ("pipeline", "mixture", "stage_imbalance", "data_imbalance", "comm_bound")
_DENSE: Final = ("dense", "evaluating", "curriculum", "staged", "compiled_first", "saving_often")

PHILLY: Final = Site(
    "philly",
    ((0.3, 0.6), (0.9, 1.0), (0.9, 1.0)),
    0.3,
    (1.0, 1.0),
    times=_each(_HELD, 2.7) | _each(_WAITED_ON, 10.0) | _each(_HALF_BUSY, 6.0),
)
"""Microsoft, 2017 (Jeon et al., ATC 2019): a quarter of all minutes at 0 %, another quarter below a
half, because data and samples came late."""

_ACME: Final = _each(_OTHER_THAN_MODELS, 0.3) | _each(_LARGE, 1.2)
"""Language models alone (Hu et al., NSDI 2024): pretraining takes 94 % of Kalos' GPU time."""

_ACME_STEPS: Final = (4.0, 9.0)
"""Steps of models of 7 to 123 billion parameters take seconds, and their data is fetched ahead, so
that a GPU is busy 98 to 99 % of a minute."""

_ACME_GAPS: Final = 0.02
"""While it is busy so, a third to a half of its SMs are: kernels fill few, and follow closely."""

KALOS: Final = Site(
    "kalos",
    ((0.65, 0.77), (0.97, 1.0), (0.97, 1.0)),
    _ACME_GAPS,
    _ACME_STEPS,
    times=_ACME | _each(_HELD, 1.8) | _each(_DENSE, 7.0) | {"pipeline": 0.8},
    boards=(A100,),
    products=3,
)
"""One large model at a time on A100s: a third of all GPUs at 0 %, a quarter with full SMs."""

SEREN: Final = Site(
    "seren",
    ((0.6, 0.8), (0.85, 1.0), (0.85, 1.0)),
    _ACME_GAPS,
    _ACME_STEPS,
    times=_ACME | _each(_HELD, 2.8) | _each(_DENSE, 1.5) | {"data_imbalance": 9.0, "mixture": 2.5},
    boards=(A100,),
    products=3,
)
"""Many smaller ones beside each other, fine-tuning with sequences of all lengths, experts: as many
SMs at work for less power."""

BYTEDANCE: Final = Site(
    "bytedance",
    ((0.4, 0.6), (0.85, 1.0), (0.85, 1.0)),
    0.3,
    (1.0, 3.0),
    times={"stage_imbalance": 4.0, "data_imbalance": 3.0, "pipeline": 2.0, "comm_bound": 0.5},
)
"""Training on many GPUs (Lin et al., OSDI 2025): stragglers in two of five jobs, most for uneven
stages and sequences."""

SITES: Final = (PHILLY, KALOS, SEREN, BYTEDANCE)


def site_of(seed: int) -> Site:
    """The site that the fleets of a seed are at."""
    return stream(seed, "site").choice(SITES)
