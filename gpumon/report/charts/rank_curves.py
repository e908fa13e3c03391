"""Everything around one rank on one time axis: GPU, process, CPUs, storage, ports, links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.charts.curves import Panel, Plan, entity_panel, gpu_panels, is_known, node_panels
from gpumon.report.charts.process_curves import process_panels, rank_processes
from gpumon.report.facts.rows import block_rows

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Gpu
    from gpumon.report.facts.tick_index import Digest

_LINK: Final = (("link_rx_bytes_per_s", "received"), ("link_tx_bytes_per_s", "sent"))
_PORT: Final = (("nic_rx_bytes_per_s", "received"), ("nic_tx_bytes_per_s", "sent"))
_MOUNT: Final = (("fs_read_bytes_per_s", "read"), ("fs_write_bytes_per_s", "written"))

_JOB_PLANS: Final = (
    Plan("job here ", (("job_cpu_cores_used", "cores used"),), bound="job_cpu_count"),
    Plan("job here ", (("job_mem_used_bytes", "memory used"),), bound="job_mem_limit_bytes"),
    Plan(
        "job here ",
        (("job_io_read_bytes_per_s", "read"), ("job_io_write_bytes_per_s", "written")),
    ),
)


def alone_panels(digest: Digest, gpu: Gpu, pid: int, span_s: float) -> list[Panel]:
    """One process by itself, then its GPU and its node; fields that history never had are left out.

    Args:
        digest: The tick with its past.
        gpu: A GPU that the process is on.
        pid: The process.
        span_s: How far back, seconds.
    """
    node = digest.tick.nodes.get(gpu.node)
    itself = [process for process in gpu.processes if process.pid == pid]
    found = process_panels(digest, gpu, itself, span_s, is_alone=True)
    found += gpu_panels(digest, gpu, span_s)
    if node is not None:
        found += node_panels(digest, node, span_s)
    return [panel for panel in found if any(is_known(series) for series in panel.chart.series)]


def rank_panels(digest: Digest, gpu: Gpu, pid: int | None, span_s: float) -> list[Panel]:
    """What a rank can wait for; fields that history has never had get no panel.

    Args:
        digest: The tick with its past.
        gpu: A GPU of the rank.
        pid: The rank's process; None: every process on the GPU is drawn together.
        span_s: How far back, seconds.
    """
    node = digest.tick.nodes.get(gpu.node)
    found = process_panels(digest, gpu, rank_processes(gpu, pid), span_s)
    view = digest.holder(gpu.uuid)
    for row in block_rows(node, "cgroup"):
        if view is not None and row.key == view.job.job_id:
            name = f"{gpu.node}/{row.key}"
            found += [entity_panel(digest, row, name, p, span_s, "cgroup") for p in _JOB_PLANS]
    if node is not None:
        found += node_panels(digest, node, span_s)
    for mount in block_rows(node, "filesystem"):
        plan = Plan(f"{mount.key} ", _MOUNT)
        name = f"{gpu.node}/{mount.key}"
        found.append(entity_panel(digest, mount, name, plan, span_s, "filesystem"))
    for port in block_rows(node, "nic"):
        plan = Plan(f"port {port.key} ", _PORT)
        found.append(entity_panel(digest, port, f"{gpu.node}/{port.key}", plan, span_s, "nic"))
    for link in digest.entities(gpu, "link"):
        plan = Plan(f"NVLink {link.key} ", _LINK)
        found.append(entity_panel(digest, link, f"{gpu.uuid}/{link.key}", plan, span_s, "link"))
    return gpu_panels(digest, gpu, span_s) + [
        panel for panel in found if any(is_known(series) for series in panel.chart.series)
    ]
