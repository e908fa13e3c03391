"""What is measured of each kind of entity, as types: the catalogue's fields and texts.

Made of the schema by `python -m tools.schema`; change that instead.
"""

from __future__ import annotations

from typing import TypedDict


class GpuTexts(TypedDict):
    """What the catalogue says of the document's `gpu`."""

    name: str | None
    pci_bus_id: str | None
    common_ancestors: str | None
    architecture: str | None
    compute_capability: str | None
    serial: str | None
    board_part: str | None
    vbios: str | None
    fabric_cluster: str | None
    label_jobs: str | None
    label_pods: str | None


class GpuValues(TypedDict):
    """What the catalogue says of the document's `gpu`."""

    open_error: int | None
    gpu_numa_node: int | None
    minor_number: int | None
    gpu_util_ratio: float | None
    mem_activity_ratio: float | None
    sm_active_ratio: float | None
    sm_occupancy_ratio: float | None
    tensor_active_ratio: float | None
    dram_active_ratio: float | None
    mem_used_bytes: float | None
    mem_total_bytes: float | None
    mem_reserved_bytes: float | None
    power_w: float | None
    power_limit_w: float | None
    energy_j: int | None
    temp_c: float | None
    sm_clock_mhz: float | None
    sm_clock_max_mhz: float | None
    clock_event_reasons: int | None
    pcie_gen: float | None
    pcie_gen_max: float | None
    pcie_width: float | None
    pcie_width_max: float | None
    pcie_tx_bytes: int | None
    pcie_rx_bytes: int | None
    pcie_tx_bytes_per_s: float | None
    pcie_rx_bytes_per_s: float | None
    nvlink_tx_bytes: int | None
    nvlink_rx_bytes: int | None
    nvlink_tx_bytes_per_s: float | None
    nvlink_rx_bytes_per_s: float | None
    encoder_util_ratio: float | None
    decoder_util_ratio: float | None
    fan_speed_ratio: float | None
    process_count: float | None
    compute_process_count: float | None
    graphics_active_ratio: float | None
    int_active_ratio: float | None
    tensor_dfma_active_ratio: float | None
    tensor_hmma_active_ratio: float | None
    tensor_dmma_active_ratio: float | None
    tensor_imma_active_ratio: float | None
    fp64_active_ratio: float | None
    fp32_active_ratio: float | None
    fp16_active_ratio: float | None
    sw_power_cap_us: int | None
    sw_power_cap_ratio: float | None
    thermal_violation_us: int | None
    thermal_violation_ratio: float | None
    sw_thermal_us: int | None
    sw_thermal_ratio: float | None
    hw_thermal_us: int | None
    hw_thermal_ratio: float | None
    power_brake_us: int | None
    power_brake_ratio: float | None
    power_average_w: float | None
    power_limit_default_w: float | None
    power_limit_min_w: float | None
    power_limit_max_w: float | None
    mem_temp_c: float | None
    temp_margin_c: float | None
    temp_slowdown_c: float | None
    temp_shutdown_c: float | None
    temp_max_c: float | None
    mem_temp_max_c: float | None
    mem_clock_mhz: float | None
    mem_clock_max_mhz: float | None
    graphics_clock_mhz: float | None
    graphics_clock_max_mhz: float | None
    perf_state: float | None
    pcie_replay_count: int | None
    pcie_recovery_count: int | None
    pcie_correctable_error_count: int | None
    pcie_nak_received_count: int | None
    pcie_receiver_error_count: int | None
    pcie_bad_tlp_count: int | None
    pcie_nak_sent_count: int | None
    pcie_bad_dllp_count: int | None
    pcie_nonfatal_error_count: int | None
    pcie_fatal_error_count: int | None
    pcie_unsupported_request_count: int | None
    pcie_lcrc_error_count: int | None
    nvlink_crc_flit_count: int | None
    nvlink_crc_data_count: int | None
    nvlink_replay_count: int | None
    nvlink_recovery_count: int | None
    nvlink_ecc_data_count: int | None
    ecc_corrected_volatile_count: int | None
    ecc_uncorrected_volatile_count: int | None
    ecc_corrected_aggregate_count: int | None
    ecc_uncorrected_aggregate_count: int | None
    retired_pages_corrected_count: int | None
    retired_pages_uncorrected_count: int | None
    remapped_rows_correctable_count: int | None
    remapped_rows_uncorrectable_count: int | None
    retired_pages_pending: int | None
    remap_pending: int | None
    remap_failure: int | None
    recovery_action: int | None
    fabric_state: int | None
    fabric_status: int | None
    fabric_clique: int | None
    fabric_health: int | None
    persistence_mode: int | None
    compute_mode: int | None
    mig_mode: int | None
    ecc_mode: int | None
    watched_events: int | None


class Link(TypedDict):
    """What the catalogue says of the document's `link`."""

    remote_type: str | None
    remote: str | None
    link_state: int | None
    link_version: int | None
    link_effective_ber: int | None
    link_symbol_ber: int | None
    link_speed_bytes_per_s: float | None
    link_tx_bytes: int | None
    link_tx_bytes_per_s: float | None
    link_rx_bytes: int | None
    link_rx_bytes_per_s: float | None
    link_replay_count: int | None
    link_recovery_count: int | None
    link_crc_count: int | None
    link_receive_error_count: int | None
    link_transmit_discard_count: int | None
    link_recovery_success_count: int | None
    link_recovery_failed_count: int | None
    link_recovery_event_count: int | None
    link_effective_error_count: int | None
    link_symbol_error_count: int | None
    missing: dict[str, str]


class Mig(TypedDict):
    """What the catalogue says of the document's `mig`."""

    parent: str | None
    profile: str | None
    mig_gpu_instance: int | None
    mig_compute_instance: int | None
    mig_mem_used_bytes: float | None
    mig_mem_total_bytes: float | None
    mig_sm_active_ratio: float | None
    mig_sm_occupancy_ratio: float | None
    mig_tensor_active_ratio: float | None
    mig_dram_active_ratio: float | None
    missing: dict[str, str]


class ProcessValues(TypedDict):
    """What the catalogue says of the document's `process`."""

    parent_pid: int | None
    inner_pid: int | None
    process_cpu_us: int | None
    process_cpu_cores_used: float | None
    process_rss_bytes: float | None
    descendant_count: float | None
    process_tree_cpu_us: int | None
    process_tree_cpu_cores_used: float | None
    process_tree_rss_bytes: float | None
    process_io_read_bytes: int | None
    process_io_read_bytes_per_s: float | None
    process_io_write_bytes: int | None
    process_io_write_bytes_per_s: float | None
    cpus_allowed_count: float | None
    process_cpu_wait_us: int | None
    process_cpu_wait_ratio: float | None
    process_stopped_s: float | None
    process_stuck_s: float | None
    context_sm_util_ratio: float | None
    context_mem_util_ratio: float | None
    context_encoder_util_ratio: float | None
    context_decoder_util_ratio: float | None
    context_gpu_instance: int | None
    context_compute_instance: int | None


class Node(TypedDict):
    """What the catalogue says of the document's `node`."""

    driver_version: str | None
    nvml_version: str | None
    boot_id: str | None
    host_name: str | None
    kernel_log: str | None
    numa_distances: str | None
    slowest_call: str | None
    awaited_call: str | None
    cpu_count: float | None
    cpu_busy_ratio: float | None
    cpu_iowait_ratio: float | None
    cpu_busy_ticks: int | None
    cpu_iowait_ticks: int | None
    cpu_total_ticks: int | None
    load_1m: float | None
    load_5m: float | None
    load_15m: float | None
    host_mem_total_bytes: float | None
    host_mem_available_bytes: float | None
    host_swap_total_bytes: float | None
    host_swap_free_bytes: float | None
    cpu_pressure_some_ratio: float | None
    cpu_pressure_full_ratio: float | None
    mem_pressure_some_ratio: float | None
    mem_pressure_full_ratio: float | None
    io_pressure_some_ratio: float | None
    io_pressure_full_ratio: float | None
    d_state_process_count: float | None
    net_rx_bytes: int | None
    net_rx_bytes_per_s: float | None
    net_tx_bytes: int | None
    net_tx_bytes_per_s: float | None
    disk_read_bytes: int | None
    disk_read_bytes_per_s: float | None
    disk_write_bytes: int | None
    disk_write_bytes_per_s: float | None
    probe_calls: int | None
    probe_calls_per_s: float | None
    probe_driver_us: int | None
    probe_driver_ratio: float | None
    probe_slowest_call_s: float | None
    uptime_s: float | None
    missing: dict[str, str]


class Nic(TypedDict):
    """What the catalogue says of the document's `nic`."""

    state: str | None
    phys_state: str | None
    link_layer: str | None
    net_device: str | None
    pci_bus_id: str | None
    nearest_by: str | None
    nearest_gpus: str | None
    nic_speed_gbps: float | None
    nic_tx_bytes: int | None
    nic_tx_bytes_per_s: float | None
    nic_rx_bytes: int | None
    nic_rx_bytes_per_s: float | None
    nic_symbol_error: int | None
    nic_link_error_recovery: int | None
    nic_link_downed: int | None
    nic_port_rcv_errors: int | None
    nic_port_xmit_discards: int | None
    nic_local_link_integrity_errors: int | None
    nic_excessive_buffer_overrun_errors: int | None
    nic_out_of_sequence: int | None
    nic_packet_seq_err: int | None
    nic_local_ack_timeout_err: int | None
    nic_np_cnp_sent: int | None
    nic_np_ecn_marked_roce_packets: int | None
    nic_numa_node: int | None
    missing: dict[str, str]


class Filesystem(TypedDict):
    """What the catalogue says of the document's `filesystem`."""

    fstype: str | None
    device: str | None
    fs_read_bytes: int | None
    fs_read_bytes_per_s: float | None
    fs_write_bytes: int | None
    fs_write_bytes_per_s: float | None
    fs_read_ops: int | None
    fs_read_ops_per_s: float | None
    fs_read_rtt_us: int | None
    fs_read_exec_us: int | None
    fs_read_rtt_s: float | None
    fs_read_exec_s: float | None
    fs_write_ops: int | None
    fs_write_ops_per_s: float | None
    fs_write_rtt_us: int | None
    fs_write_exec_us: int | None
    fs_write_rtt_s: float | None
    fs_write_exec_s: float | None
    fs_retransmits: int | None
    fs_timeouts: int | None
    missing: dict[str, str]


class LocalFilesystem(TypedDict):
    """What the catalogue says of the document's `local_filesystem`."""

    type: str | None
    size_bytes: float | None
    used_bytes: float | None
    free_bytes: float | None
    missing: dict[str, str]


class Event(TypedDict):
    """What the catalogue says of the document's `event`."""

    xid: int | None
    event_type: int | None
    event_age_s: float | None
    missing: dict[str, str]


class Cgroup(TypedDict):
    """What the catalogue says of the document's `cgroup`."""

    job_cpu_us: int | None
    job_cpu_cores_used: float | None
    job_cpu_count: float | None
    job_mem_used_bytes: float | None
    job_mem_peak_bytes: float | None
    job_mem_limit_bytes: float | None
    job_oom_kills: int | None
    job_io_read_bytes: int | None
    job_io_read_bytes_per_s: float | None
    job_io_write_bytes: int | None
    job_io_write_bytes_per_s: float | None
    job_output_bytes: int | None
    job_output_bytes_per_s: float | None
    job_output_age_s: float | None
    job_cpu_pressure_some_ratio: float | None
    job_cpu_pressure_full_ratio: float | None
    job_mem_pressure_some_ratio: float | None
    job_mem_pressure_full_ratio: float | None
    job_io_pressure_some_ratio: float | None
    job_io_pressure_full_ratio: float | None
    job_process_count: float | None
    missing: dict[str, str]
