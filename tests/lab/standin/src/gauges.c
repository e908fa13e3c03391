/* Calls whose answers move: use, memory, power, clocks, temperatures, PCIe, ECC. */
#include <string.h>

#include "standin.h"

#define NUMBER_GETTER(function, expression)                                        \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *out)                      \
    {                                                                              \
        DEVICE_CALL(device);                                                       \
        return answer_number(&call, out, expression);                              \
    }

static int64_t or_else(int64_t value, int64_t otherwise)
{
    return value == ABSENT ? otherwise : value;
}

static Activity activity_of(const Gpu *gpu)
{
    Activity activity;
    activity_now(gpu, &activity);
    return activity;
}

static int64_t percent(int64_t base, double added)
{
    if (base == ABSENT)
        return ABSENT;
    return base + (int64_t)added < 100 ? base + (int64_t)added : 100;
}

static bool busy(const Gpu *gpu) { return activity_of(gpu).util > 0; }

static int64_t sm_clock_mhz(const Gpu *gpu)
{
    return busy(gpu) && gpu->sm_clock_busy_mhz != ABSENT ? gpu->sm_clock_busy_mhz : gpu->sm_clock_mhz;
}

static int64_t event_reasons(const Gpu *gpu)
{
    enum { GPU_IDLE = 1 };
    return gpu->clock_event_reasons != ABSENT && busy(gpu) ? gpu->clock_event_reasons & ~GPU_IDLE
                                                           : gpu->clock_event_reasons;
}

typedef struct {
    unsigned gpu, memory;
} Utilization;

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, Utilization *out)
{
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (gpu->util_gpu == ABSENT || gpu->util_mem == ABSENT || gpu->mig_mode == 1)
        return answer(NOT_SUPPORTED);
    Activity activity = activity_of(gpu);
    out->gpu = (unsigned)(call.has_garbage ? call.garbage : percent(gpu->util_gpu, activity.util));
    out->memory = (unsigned)(call.has_garbage ? call.garbage : percent(gpu->util_mem, activity.dram));
    return answer(SUCCESS);
}

static nvmlReturn_t answer_engine(const Call *call, int64_t value, unsigned *out, unsigned *period_us)
{
    if (!period_us)
        return answer(INVALID_ARGUMENT);
    *period_us = 167000;
    return answer_number(call, out, value);
}

#define ENGINE_GETTER(function, member)                                               \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *out, unsigned *period_us)    \
    {                                                                                 \
        DEVICE_CALL(device);                                                          \
        return answer_engine(&call, gpu->member, out, period_us);                     \
    }

ENGINE_GETTER(nvmlDeviceGetEncoderUtilization, util_encoder)
ENGINE_GETTER(nvmlDeviceGetDecoderUtilization, util_decoder)
ENGINE_GETTER(nvmlDeviceGetJpgUtilization, util_jpg)
ENGINE_GETTER(nvmlDeviceGetOfaUtilization, util_ofa)

typedef struct {
    uint64_t total, free, used;
} MemoryV1;

typedef struct {
    unsigned version;
    uint64_t total, reserved, free, used;
} MemoryV2;

static uint64_t used_bytes(const Gpu *gpu)
{
    int64_t base = gpu->mem_used_bytes == ABSENT ? 0 : gpu->mem_used_bytes;
    return (uint64_t)(base + activity_of(gpu).mem_bytes);
}

static uint64_t reserved_bytes(const Gpu *gpu)
{
    return gpu->mem_reserved_bytes == ABSENT ? 0 : (uint64_t)gpu->mem_reserved_bytes;
}

/* The first version counts what the driver keeps for itself as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, MemoryV1 *out)
{
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (gpu->mem_total_bytes == ABSENT)
        return answer(NOT_SUPPORTED);
    out->total = (uint64_t)gpu->mem_total_bytes;
    out->used = call.has_garbage ? (uint64_t)call.garbage : used_bytes(gpu) + reserved_bytes(gpu);
    out->free = out->total - out->used;
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, MemoryV2 *out)
{
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (out->version != (sizeof *out | 2u << 24))
        return answer(ARGUMENT_VERSION_MISMATCH);
    if (call.mig) {
        if (call.mig->mem_total_bytes == ABSENT || call.mig->mem_used_bytes == ABSENT)
            return answer(NOT_SUPPORTED);
        out->total = (uint64_t)call.mig->mem_total_bytes;
        out->used = (uint64_t)call.mig->mem_used_bytes;
        out->reserved = 0;
        out->free = out->total - out->used;
        return answer(SUCCESS);
    }
    if (gpu->mem_total_bytes == ABSENT)
        return answer(NOT_SUPPORTED);
    out->total = (uint64_t)gpu->mem_total_bytes;
    out->reserved = reserved_bytes(gpu);
    out->used = call.has_garbage ? (uint64_t)call.garbage : used_bytes(gpu);
    out->free = out->total - out->used - out->reserved;
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, MemoryV1 *out)
{
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (gpu->bar1_total_bytes == ABSENT || gpu->bar1_used_bytes == ABSENT)
        return answer(NOT_SUPPORTED);
    /* Total, free, used: the same order as the memory structure. */
    out->total = (uint64_t)gpu->bar1_total_bytes;
    out->used = (uint64_t)gpu->bar1_used_bytes;
    out->free = out->total - out->used;
    return answer(SUCCESS);
}

static int64_t fan_count(const Gpu *gpu)
{
    return (gpu->fan_percent != ABSENT) + (gpu->fan_2_percent != ABSENT);
}

/* A board without fans has none to count, and no speed of the first. */
nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *out)
{
    DEVICE_CALL(device);
    if (fan > 0 && fan >= fan_count(gpu))
        return answer(INVALID_ARGUMENT);
    return answer_number(&call, out, fan == 0 ? gpu->fan_percent : gpu->fan_2_percent);
}

NUMBER_GETTER(nvmlDeviceGetPowerUsage, power_mw(gpu))
NUMBER_GETTER(nvmlDeviceGetPowerManagementLimit, gpu->power_limit_mw)
NUMBER_GETTER(nvmlDeviceGetEnforcedPowerLimit,
              or_else(gpu->power_enforced_limit_mw, gpu->power_limit_mw))
NUMBER_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, gpu->power_default_limit_mw)
NUMBER_GETTER(nvmlDeviceGetPowerManagementMode, gpu->power_limit_mw == ABSENT ? ABSENT : 1)
NUMBER_GETTER(nvmlDeviceGetPerformanceState, gpu->perf_state)
NUMBER_GETTER(nvmlDeviceGetPowerState, gpu->perf_state)
NUMBER_GETTER(nvmlDeviceGetFanSpeed, gpu->fan_percent)
NUMBER_GETTER(nvmlDeviceGetNumFans, fan_count(gpu))
NUMBER_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, gpu->pcie_gen)
NUMBER_GETTER(nvmlDeviceGetCurrPcieLinkWidth, gpu->pcie_width)
NUMBER_GETTER(nvmlDeviceGetPcieReplayCounter, gpu->pcie_replays)

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *least,
                                                          unsigned *most)
{
    DEVICE_CALL(device);
    if (!least)
        return answer(INVALID_ARGUMENT);
    if (gpu->power_min_limit_mw == ABSENT)
        return answer(NOT_SUPPORTED);
    *least = (unsigned)gpu->power_min_limit_mw;
    return answer_number(&call, most, gpu->power_max_limit_mw);
}

static nvmlReturn_t answer_u64(const Call *call, uint64_t *out, int64_t value)
{
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (value == ABSENT)
        return answer(NOT_SUPPORTED);
    *out = (uint64_t)(call->has_garbage ? call->garbage : value);
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, uint64_t *out)
{
    DEVICE_CALL(device);
    return answer_u64(&call, out, energy_mj(call.state, gpu));
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, uint64_t *out)
{
    DEVICE_CALL(device);
    return answer_u64(&call, out, event_reasons(gpu));
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, uint64_t *out)
{
    DEVICE_CALL(device);
    return answer_u64(&call, out, event_reasons(gpu));
}

static nvmlReturn_t answer_reasons_known(const Call *call, uint64_t *out)
{
    return answer_u64(call, out, call->gpu->clock_event_reasons == ABSENT ? ABSENT : 0x1ff);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, uint64_t *out)
{
    DEVICE_CALL(device);
    return answer_reasons_known(&call, out);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, uint64_t *out)
{
    DEVICE_CALL(device);
    return answer_reasons_known(&call, out);
}

/* Clock domains: 0 graphics, 1 SM, 2 memory, 3 video. */
static int64_t clock_mhz(const Gpu *gpu, unsigned domain, bool most)
{
    switch (domain) {
    case 0:
        return most ? or_else(gpu->graphics_clock_max_mhz, gpu->sm_clock_max_mhz)
                    : or_else(gpu->graphics_clock_mhz, sm_clock_mhz(gpu));
    case 1: return most ? gpu->sm_clock_max_mhz : sm_clock_mhz(gpu);
    case 2: return most ? gpu->mem_clock_max_mhz : gpu->mem_clock_mhz;
    case 3: return most ? gpu->video_clock_max_mhz : gpu->video_clock_mhz;
    default: return ABSENT;
    }
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned domain, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, clock_mhz(gpu, domain, false));
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned domain, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, clock_mhz(gpu, domain, true));
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned domain, unsigned which, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, clock_mhz(gpu, domain, which != 0));
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *out)
{
    DEVICE_CALL(device);
    return sensor ? answer(INVALID_ARGUMENT) : answer_number(&call, out, gpu->temp_c);
}

typedef struct {
    unsigned version, sensor;
    int temperature;
} TemperatureV1;

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, TemperatureV1 *out)
{
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (out->version != (sizeof *out | 1u << 24))
        return answer(ARGUMENT_VERSION_MISMATCH);
    if (out->sensor != 0)
        return answer(INVALID_ARGUMENT);
    return answer_number(&call, (unsigned *)&out->temperature, gpu->temp_c);
}

typedef struct {
    unsigned version;
    int margin;
} Margin;

/* Degrees left until the clocks are lowered (T.limit), Hopper and newer. */
nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, Margin *out)
{
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (out->version != (sizeof *out | 1u << 24))
        return answer(ARGUMENT_VERSION_MISMATCH);
    return answer_number(&call, (unsigned *)&out->margin, gpu->temp_margin_c);
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned which, unsigned *out)
{
    DEVICE_CALL(device);
    int64_t limits[] = {gpu->temp_shutdown_c, gpu->temp_slowdown_c, gpu->temp_mem_max_c,
                        gpu->temp_gpu_max_c};
    return answer_number(&call, out, which < 4 ? limits[which] : ABSENT);
}

nvmlReturn_t nvmlDeviceGetPcieSpeed(nvmlDevice_t device, unsigned *out)
{
    static const int64_t mbps[] = {ABSENT, 2500, 5000, 8000, 16000, 32000, 64000};
    DEVICE_CALL(device);
    bool known = gpu->pcie_gen >= 1 && gpu->pcie_gen <= 6;
    return answer_number(&call, out, known ? mbps[gpu->pcie_gen] : ABSENT);
}

nvmlReturn_t nvmlDeviceGetPcieLinkMaxSpeed(nvmlDevice_t device, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, gpu->pcie_gen_max);
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned receive, unsigned *kib_per_s)
{
    DEVICE_CALL(device);
    int64_t rate = receive ? gpu->pcie_rx_bytes_per_s : gpu->pcie_tx_bytes_per_s;
    return answer_number(&call, kib_per_s, rate == ABSENT ? ABSENT : rate / 1024);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter,
                                         uint64_t *out)
{
    DEVICE_CALL(device);
    int64_t counts[] = {gpu->ecc_sbe_volatile, gpu->ecc_sbe_aggregate, gpu->ecc_dbe_volatile,
                        gpu->ecc_dbe_aggregate};
    return type > 1 || counter > 1 ? answer(INVALID_ARGUMENT)
                                   : answer_u64(&call, out, counts[type * 2 + counter]);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *correctable,
                                       unsigned *uncorrectable, unsigned *pending, unsigned *failure)
{
    DEVICE_CALL(device);
    if (!correctable || !uncorrectable || !pending || !failure)
        return answer(INVALID_ARGUMENT);
    if (gpu->remapped_correctable == ABSENT)
        return answer(NOT_SUPPORTED);
    *correctable = (unsigned)gpu->remapped_correctable;
    *uncorrectable = (unsigned)gpu->remapped_uncorrectable;
    *pending = (unsigned)gpu->remapped_pending;
    *failure = (unsigned)gpu->remapped_failure;
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, unsigned out[5])
{
    DEVICE_CALL(device);
    int64_t rows[] = {gpu->remap_rows_max, gpu->remap_rows_high, gpu->remap_rows_partial,
                      gpu->remap_rows_low, gpu->remap_rows_none};
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (rows[0] == ABSENT)
        return answer(NOT_SUPPORTED);
    for (int i = 0; i < 5; i++)
        out[i] = (unsigned)rows[i];
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, gpu->retired_pending);
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, unsigned policy, uint64_t out[2])
{
    DEVICE_CALL(device);
    int64_t time_ns = policy == 0   ? gpu->violation_power_ns
                      : policy == 1 ? gpu->violation_thermal_ns
                                    : ABSENT;
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (time_ns == ABSENT)
        return answer(NOT_SUPPORTED);
    out[0] = (uint64_t)(monotonic_s() * 1e6);
    out[1] = (uint64_t)time_ns;
    return answer(SUCCESS);
}
