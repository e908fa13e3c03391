/* GPM: hardware counters between two samples, Hopper and newer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

typedef struct {
    int gpu; /* -1 until the first nvmlGpmSampleGet */
    double taken_s;
    int64_t instance; /* of MIG; ABSENT: the whole GPU */
} Sample;

typedef struct {
    unsigned id;
    nvmlReturn_t result;
    double value;
    const char *short_name, *long_name, *unit;
} Metric;

typedef struct {
    unsigned version, count;
    Sample *sample1, *sample2;
    Metric metrics[MAX_GPM];
} MetricsGet;

typedef struct {
    unsigned version, supported;
} Support;

enum { STRUCT_VERSION = 1 };

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, Support *out)
{
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (out->version != STRUCT_VERSION)
        return answer(ARGUMENT_VERSION_MISMATCH);
    out->supported = gpu->gpm_supported == 1;
    return answer(SUCCESS);
}

nvmlReturn_t nvmlGpmSampleAlloc(Sample **out)
{
    SYSTEM_CALL();
    if (!out)
        return answer(INVALID_ARGUMENT);
    *out = calloc(1, sizeof **out);
    if (!*out)
        return answer(MEMORY);
    (*out)->gpu = -1;
    return answer(SUCCESS);
}

nvmlReturn_t nvmlGpmSampleFree(Sample *sample)
{
    SYSTEM_CALL();
    free(sample);
    return answer(sample ? SUCCESS : INVALID_ARGUMENT);
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, Sample *sample)
{
    DEVICE_CALL(device);
    if (!sample)
        return answer(INVALID_ARGUMENT);
    if (gpu->gpm_supported != 1 || gpu->mig_mode == 1)
        return answer(NOT_SUPPORTED);
    *sample = (Sample){call.gpu_index, monotonic_s(), ABSENT};
    return answer(SUCCESS);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned instance, Sample *sample)
{
    DEVICE_CALL(device);
    if (!sample || !mig_of_instance(gpu, instance))
        return answer(INVALID_ARGUMENT);
    if (gpu->gpm_supported != 1 || gpu->mig_mode != 1)
        return answer(NOT_SUPPORTED);
    *sample = (Sample){call.gpu_index, monotonic_s(), instance};
    return answer(SUCCESS);
}

static double mib(int64_t bytes) { return (double)bytes / (1 << 20); }

static double all_links(const Gpu *gpu, bool transmit)
{
    int64_t rate = 0;
    for (int link = 0; link < link_count(gpu); link++)
        rate += link_rate(gpu, (unsigned)link, transmit);
    return mib(rate);
}

/* MiB/s, as configured; NaN when this is no traffic metric or the GPU has no such link. */
static double traffic(const Gpu *gpu, unsigned id)
{
    enum { PCIE_TX = 20, PCIE_RX = 21, LINKS_RX = 60, LINKS_TX = 61, LINK_0_RX = 62, LINK_17_TX = 97 };
    if (id == PCIE_TX || id == PCIE_RX) {
        int64_t rate = id == PCIE_TX ? gpu->pcie_tx_bytes_per_s : gpu->pcie_rx_bytes_per_s;
        return rate == ABSENT ? NAN : mib(rate);
    }
    if (id < LINKS_RX || id > LINK_17_TX)
        return NAN;
    if (id == LINKS_RX || id == LINKS_TX)
        return all_links(gpu, id == LINKS_TX); /* 0 without links, as an H200 says (driver 580) */
    if (link_count(gpu) == 0)
        return NAN;
    unsigned link = (id - LINK_0_RX) / 2;
    return (int)link < link_count(gpu) ? mib(link_rate(gpu, link, id % 2)) : NAN;
}

/* Percent that pretend contexts add to a metric. */
static double added(const Activity *activity, unsigned id)
{
    enum { GRAPHICS = 1, SM = 2, OCCUPANCY = 3, ANY_TENSOR = 5, HMMA = 7, DRAM = 10 };
    switch (id) {
    case GRAPHICS: return activity->util;
    case SM: return activity->sm;
    case OCCUPANCY: return activity->sm * 0.5;
    case ANY_TENSOR:
    case HMMA: return activity->tensor;
    case DRAM: return activity->dram;
    default: return 0;
    }
}

/* Metrics of one MIG instance. */
static void fill_instance(const Mig *mig, Metric *metric)
{
    enum { SM = 2, OCCUPANCY = 3, ANY_TENSOR = 5, DRAM = 10 };
    int64_t value = !mig                       ? ABSENT
                    : metric->id == SM         ? mig->sm_percent
                    : metric->id == OCCUPANCY  ? mig->occupancy_percent
                    : metric->id == ANY_TENSOR ? mig->tensor_percent
                    : metric->id == DRAM       ? mig->dram_percent
                                               : ABSENT;
    metric->result = value == ABSENT ? NOT_SUPPORTED : SUCCESS;
    metric->value = value == ABSENT ? 0 : (double)value;
    metric->short_name = metric->long_name = metric->unit = NULL;
}

static void fill(const Call *call, const Gpu *gpu, const Activity *activity, Metric *metric)
{
    const Override *told = NULL;
    for (int i = 0; i < gpu->gpm_count; i++)
        if (gpu->gpm[i].id == metric->id)
            told = &gpu->gpm[i];
    double value = traffic(gpu, metric->id);
    if (isnan(value) && told)
        value = fmin(told->value + added(activity, metric->id), 100);
    else if (told)
        value = told->value;
    metric->result = told && told->error ? told->error : isnan(value) ? NOT_SUPPORTED : SUCCESS;
    metric->value = call->has_garbage ? (double)call->garbage : isnan(value) ? 0 : value;
    metric->short_name = metric->long_name = metric->unit = NULL;
}

static nvmlReturn_t check(const MetricsGet *get)
{
    if (!get || !get->sample1 || !get->sample2 || get->count > MAX_GPM)
        return INVALID_ARGUMENT;
    if (get->version != STRUCT_VERSION)
        return ARGUMENT_VERSION_MISMATCH;
    bool same = get->sample1->gpu >= 0 && get->sample1->gpu == get->sample2->gpu &&
                get->sample1->instance == get->sample2->instance;
    return same ? SUCCESS : INVALID_ARGUMENT;
}

nvmlReturn_t nvmlGpmMetricsGet(MetricsGet *get)
{
    static int slot = -1;
    Call call;
    int of = get && get->sample1 ? get->sample1->gpu : -1;
    nvmlReturn_t result = of >= 0 ? enter_device(&call, __func__, &slot, devices_handle(of))
                                  : enter_system(&call, __func__, &slot);
    if (result != SUCCESS)
        return result;
    result = check(get);
    if (result != SUCCESS)
        return answer(result);
    const Gpu *gpu = call.gpu;
    double span_s = get->sample2->taken_s - get->sample1->taken_s;
    Activity activity;
    activity_mean(gpu, get->sample1->taken_s, get->sample2->taken_s, &activity);
    /* Real hardware gives invalid numbers for samples this close; an error shows the mistake. */
    bool too_close = call.state->gpm_min_interval_ms != ABSENT &&
                     span_s * 1000 < (double)call.state->gpm_min_interval_ms;
    for (unsigned i = 0; i < get->count; i++) {
        if (get->sample1->instance == ABSENT)
            fill(&call, gpu, &activity, &get->metrics[i]);
        else
            fill_instance(mig_of_instance(gpu, get->sample1->instance), &get->metrics[i]);
        if (get->metrics[i].result == SUCCESS && (span_s <= 0 || too_close))
            get->metrics[i].result = NO_DATA;
    }
    return answer(SUCCESS);
}

nvmlReturn_t nvmlGpmQueryIfStreamingEnabled(nvmlDevice_t device, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, gpu->gpm_supported == 1 ? 0 : ABSENT);
}
