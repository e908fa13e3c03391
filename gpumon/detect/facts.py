"""What a detector gets to know of a GPU and which jobs it gets to see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.cluster import Gpu, JobView

JUDGED_STATE: Final = "RUNNING"


class GpuFacts(NamedTuple):
    """What does not change about a GPU while it is watched."""

    uuid: str
    node: str
    nvml_index: int | None
    """NVML's index on the node: a label only."""
    name: str | None
    """Product name."""


def facts_of(gpus: Mapping[str, Gpu]) -> dict[str, GpuFacts]:
    """Facts of every GPU by UUID."""
    return {
        uuid: GpuFacts(uuid, gpu.node, gpu.nvml_index, gpu.label("name"))
        for uuid, gpu in gpus.items()
    }


def is_judged(view: JobView) -> bool:
    """Whether detectors see a job: it runs and holds GPUs, whether telemetry names them or not."""
    return view.job.state == JUDGED_STATE and bool(view.gpu_uuids or view.gpus_unknown)
