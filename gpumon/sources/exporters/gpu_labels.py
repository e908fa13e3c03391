"""What labels of a GPU's series name, by any of their names.

Labels drift from version to version and from site to site: what one is called is looked up in one
table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.sources.exporters.gpu_names import in_words_of_nvml

if TYPE_CHECKING:
    from collections.abc import Mapping

LABELS: Final = {
    "uuid": ("UUID", "uuid", "gpu_uuid", "gpuuuid"),
    "index": ("gpu", "gpu_id", "index", "ordinal"),
    "device": ("device",),
    "host": ("Hostname", "hostname"),
    "node": ("kubernetes_node", "node", "node_name", "nodename", "k8s_node_name"),
    "name": ("modelName", "model_name", "name"),
    "pci_bus_id": ("pci_bus_id",),
    "instance": ("GPU_I_ID",),
    "profile": ("GPU_I_PROFILE",),
    "driver_version": (
        *("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION", "driver_version"),
    ),
    "nvml_version": ("DCGM_FI_NVML_VERSION", "DCGM_FI_SYSTEM_NVML_VERSION"),
    "serial": ("DCGM_FI_DEV_SERIAL", "serial"),
    "vbios": ("DCGM_FI_DEV_VBIOS_VERSION", "vbios_version"),
    "job": ("hpc_job", "jobid"),
    "pod": ("exported_pod", "pod", "pod_name"),
    "namespace": ("exported_namespace", "namespace", "pod_namespace"),
    "container": ("exported_container", "container", "container_name"),
}
"""What each label is called, the newest name of dcgm-exporter first; `jobid` is that of Princeton's
fork of it, `gpuuuid` is what CEEMS asks sites to rename. Where Prometheus calls a page's label
`exported_…`, the other is of the exporter. What the name of a node is called is a site's choice:
`kubernetes_node` in NVIDIA's manual of the GPU operator, `k8s_node_name` by OpenTelemetry."""

HOLDERS: Final = ("job", "namespace", "pod", "container")
"""Which of these name who holds a GPU."""

HOLDER_LABELS: Final = frozenset(name for what in HOLDERS for name in LABELS[what])

NO_TEXT: Final = ("<<<NULL>>>", "[N/A]", "N/A")
"""What DCGM and nvidia-smi have in place of a text that is missing."""

OWN_POD: Final = "dcgm-exporter-"
"""In the name of each pod in which it runs, which it takes for the node's where it is not given
that (NVIDIA/dcgm-exporter#78)."""


def host_of(labels: Mapping[str, str]) -> str | None:
    """The node that labels name: where the exporter took its pod for one, the one that it is on."""
    host = label_of(labels, "host")
    return (label_of(labels, "node") or host) if host and OWN_POD in host else host


def uuid_of(labels: Mapping[str, str]) -> str:
    """The GPU that labels name, in NVML's words; empty: none."""
    return in_words_of_nvml(label_of(labels, "uuid") or "")


def label_of(labels: Mapping[str, str], what: str) -> str | None:
    """What labels hold of one thing, by any of its names; None where they do not."""
    for name in LABELS[what]:
        value = labels.get(name)
        if value and value not in NO_TEXT:
            return value
    return None
