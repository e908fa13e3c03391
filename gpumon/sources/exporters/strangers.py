"""Why a page has nothing to show: whose it is by its metrics' names, and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.base.errors import DamagedError
from gpumon.sources.exporters.gpu_names import PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.sources.exposition.parse import Page

_OTHER_EXPORTERS: Final = {
    "nvidia_gpu_": "nvidia_gpu_prometheus_exporter without a value that gpumon knows",
    "nvidia_smi_": "Telegraf's nvidia_smi or one like it, whose names do not show in which unit",
    "dcgm_": "dcgm-exporter before 2.0: use a newer one",
    "slurm_job_": "slurm-job-exporter or one like it: values of jobs that name no GPU by its UUID; "
    "the target slurm asks for the jobs",
    "slurm_": "an exporter of Slurm, or slurmctld itself: numbers of jobs, not jobs; the target "
    "slurm asks for these",
    "amd_gpu_": "an exporter of AMD's GPUs",
    "all_smi_": "all-smi",
    "cgroup_": "cgroup_exporter: control groups of jobs, which are not read from pages",
    "lustre_": "lustre_exporter",
    "prometheus_": "Prometheus itself",
    "vm_": "VictoriaMetrics itself",
}
"""Whose pages are not read, by what their names begin with."""

_NODE_EXPORTER: Final = "node_"

_OF_ITSELF: Final = ("go_", "process_", "promhttp_", "python_")
"""What every exporter reports of its own program."""

_WHERE: Final = "check host and port: dcgm-exporter listens on 9400 by default"

_SHOWN_NAMES: Final = 3
"""Names of an unknown page that its error shows: enough to see what made it."""


class PlanError(DamagedError):
    """A page is none that can be read."""


def nothing_in(page: Page, nameless: int, odd: Sequence[tuple[str, str]] = ()) -> PlanError:
    """Why a page has nothing to show.

    Args:
        page: What was read.
        nameless: Series of GPUs that name none.
        odd: Why what it has of hosts cannot be read, with the way out.
    """
    if odd:
        return PlanError(*odd[0])
    names = list(dict.fromkeys(sample.name for sample in page.samples))
    if not names:
        if page.wrong:
            return PlanError(f"is not a page of metrics: {page.wrong[0]}", _WHERE)
        hint = (
            "dcgm-exporter collects for the first time up to 30 s after its start; then see its log"
        )
        return PlanError("its page is empty", hint)
    if nameless:
        text = f"none of its {nameless:,} series names a GPU by its UUID"
        is_dcgm = any(name.startswith(PREFIX) for name in names)
        who = "dcgm-exporter" if is_dcgm else "the exporter"
        return PlanError(text, f"gpumon knows GPUs by UUID: have {who} add that label")
    if any(name.startswith(PREFIX) for name in names):
        text = (
            f"has none of DCGM's metrics that gpumon knows, only {', '.join(names[:_SHOWN_NAMES])}"
        )
        return PlanError(text, "see the list of fields that dcgm-exporter was given (its -f)")
    if all(name.startswith(_OF_ITSELF) for name in names):
        return PlanError("describes only its own program", "look at the exporter's log")
    names = [name for name in names if not name.startswith(_OF_ITSELF)]
    whose = [who for begin, who in _OTHER_EXPORTERS.items() if names[0].startswith(begin)]
    if names[0].startswith(_NODE_EXPORTER):
        shown = ", ".join(names[:_SHOWN_NAMES])
        text = f"has no value of its host that gpumon knows, only {shown} (node_exporter)"
        return PlanError(text, "see which collectors node_exporter was given")
    text = f"is not a page that gpumon reads: it has {', '.join(names[:_SHOWN_NAMES])}"
    return PlanError(f"{text} ({whose[0]})" if whose else text, _WHERE)
