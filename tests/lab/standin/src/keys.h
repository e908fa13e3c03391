/* Every plain key of the state file; each becomes a struct member of the same name. */
#ifndef STANDIN_KEYS_H
#define STANDIN_KEYS_H

#define GLOBAL_NUMBERS(X) \
    X(gpu_count) X(cuda_version) X(epoch_us) X(counters_live) X(sample_clock_boot) \
    X(gpm_min_interval_ms) X(hang_holds_driver) X(field_id_max) X(sample_us)

#define GLOBAL_STRINGS(X) X(driver_version) X(nvml_version) X(devices) X(counts)

#define GPU_STRINGS(X) X(name) X(uuid) X(serial) X(pci_bus_id) X(vbios) X(part_number) X(fabric_cluster)

#define GPU_NUMBERS(X)                                                                         \
    /* identity */                                                                             \
    X(minor) X(brand) X(architecture) X(cc_major) X(cc_minor) X(module_id) X(numa_node)        \
    X(cores) X(memory_bus_bits) X(pci_device_id) X(pci_subsystem_id)                           \
    /* modes: 0 off, 1 on */                                                                   \
    X(persistence_mode) X(mig_mode) X(compute_mode) X(ecc_mode) X(display_active)              \
    X(display_mode) X(lost)                                                                    \
    /* memory */                                                                               \
    X(mem_total_bytes) X(mem_reserved_bytes) X(mem_used_bytes) X(bar1_total_bytes)             \
    X(bar1_used_bytes)                                                                         \
    /* use, percent */                                                                         \
    X(util_gpu) X(util_mem) X(util_encoder) X(util_decoder) X(util_jpg) X(util_ofa)            \
    /* power and energy */                                                                     \
    X(power_mw) X(power_limit_mw) X(power_default_limit_mw) X(power_min_limit_mw)              \
    X(power_max_limit_mw) X(power_enforced_limit_mw) X(energy_mj)                              \
    /* temperature and fan */                                                                  \
    X(temp_c) X(temp_mem_c) X(temp_slowdown_c) X(temp_shutdown_c) X(temp_mem_max_c)            \
    X(temp_gpu_max_c) X(temp_margin_c) X(fan_percent) X(fan_2_percent)                         \
    /* clocks; the busy ones hold while something computes */                                  \
    X(sm_clock_mhz) X(sm_clock_busy_mhz) X(sm_clock_max_mhz) X(mem_clock_mhz)                  \
    X(mem_clock_max_mhz) X(video_clock_mhz) X(video_clock_max_mhz) X(clock_event_reasons)      \
    X(graphics_clock_mhz) X(graphics_clock_max_mhz)                                           \
    X(perf_state) X(violation_power_ns) X(violation_thermal_ns) X(slowdown_sw_thermal_ns)      \
    X(slowdown_hw_thermal_ns) X(slowdown_hw_brake_ns)                                          \
    /* PCIe; counters grow with the rates */                                                   \
    X(pcie_gen) X(pcie_gen_max) X(pcie_gen_gpu_max) X(pcie_width) X(pcie_width_max)            \
    X(pcie_tx_bytes) X(pcie_rx_bytes) X(pcie_tx_bytes_per_s) X(pcie_rx_bytes_per_s)            \
    X(pcie_replays)                                                                            \
    /* NVLink; rates are totals, spread over the links */                                      \
    X(nvlink_count) X(nvlink_speed_mbps) X(nvlink_version) X(nvlink_switch)                    \
    X(nvlink_tx_bytes_per_s) X(nvlink_rx_bytes_per_s)                                          \
    /* health */                                                                               \
    X(ecc_sbe_volatile) X(ecc_dbe_volatile) X(ecc_sbe_aggregate) X(ecc_dbe_aggregate)          \
    X(remapped_correctable) X(remapped_uncorrectable) X(remapped_pending) X(remapped_failure)  \
    X(remap_rows_max) X(remap_rows_high) X(remap_rows_partial) X(remap_rows_low)               \
    X(remap_rows_none) X(retired_sbe) X(retired_dbe) X(retired_pending) X(recovery_action)     \
    X(fabric_state) X(fabric_clique) X(fabric_status) X(fabric_health)                         \
    /* what it can do */                                                                       \
    X(gpm_supported) X(event_types)

#define LINK_NUMBERS(X)                                                                        \
    X(state) X(speed_mbps) X(version) X(remote_type) X(tx_bytes) X(rx_bytes)                   \
    X(tx_bytes_per_s) X(rx_bytes_per_s) X(replays) X(recoveries) X(crc_flit) X(crc_data)       \
    X(ecc_data)

#define MIG_STRINGS(X) X(uuid) X(name)

/* An instance of a GPU in MIG mode; use in percent of the instance. */
#define MIG_NUMBERS(X)                                                                         \
    X(gpu_instance) X(compute_instance) X(mem_total_bytes) X(mem_used_bytes) X(sm_percent)     \
    X(occupancy_percent) X(tensor_percent) X(dram_percent)

#endif
