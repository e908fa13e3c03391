/* Who runs on a GPU, and how busy each of them kept it. */
#include <time.h>

#include "standin.h"

enum { CAPACITY = MAX_PROCESSES + MAX_CONTEXTS };

typedef struct {
    unsigned pid;
    uint64_t used_bytes;
} ProcessV1;

typedef struct {
    unsigned pid;
    uint64_t used_bytes;
    unsigned gpu_instance, compute_instance;
} ProcessV2;

static uint64_t shown_bytes(const Process *process)
{
    return process->mem_bytes == ABSENT ? UINT64_MAX : (uint64_t)process->mem_bytes;
}

static nvmlReturn_t list(const Call *call, char kind, unsigned *count, void *out, bool first_version)
{
    Process found[CAPACITY];
    if (!count)
        return answer(INVALID_ARGUMENT);
    unsigned capacity = *count;
    unsigned total = (unsigned)activity_processes(call->gpu, kind, found, CAPACITY);
    *count = total;
    if (total == 0)
        return answer(SUCCESS);
    if (!out || capacity < total)
        return answer(INSUFFICIENT_SIZE);
    for (unsigned i = 0; i < total; i++)
        if (first_version)
            ((ProcessV1 *)out)[i] = (ProcessV1){found[i].pid, shown_bytes(&found[i])};
        else
            ((ProcessV2 *)out)[i] = (ProcessV2){found[i].pid, shown_bytes(&found[i]),
                                                found[i].gpu_instance, found[i].compute_instance};
    return answer(SUCCESS);
}

#define LISTING(function, kind, first_version)                                     \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *count, void *out)         \
    {                                                                              \
        DEVICE_CALL(device);                                                       \
        return list(&call, kind, count, out, first_version);                       \
    }

LISTING(nvmlDeviceGetComputeRunningProcesses, 'C', true)
LISTING(nvmlDeviceGetComputeRunningProcesses_v2, 'C', false)
LISTING(nvmlDeviceGetComputeRunningProcesses_v3, 'C', false)
LISTING(nvmlDeviceGetGraphicsRunningProcesses, 'G', true)
LISTING(nvmlDeviceGetGraphicsRunningProcesses_v2, 'G', false)
LISTING(nvmlDeviceGetGraphicsRunningProcesses_v3, 'G', false)
LISTING(nvmlDeviceGetMPSComputeRunningProcesses, 'M', true)
LISTING(nvmlDeviceGetMPSComputeRunningProcesses_v2, 'M', false)
LISTING(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'M', false)

/* Samples are 1/6 s apart, in wall-clock or since-boot microseconds: real drivers differ; or as told. */
static uint64_t last_sample_us(const State *state)
{
    struct timespec now;
    if (state->sample_us != ABSENT)
        return (uint64_t)state->sample_us;
    clock_gettime(state->sample_clock_boot == 1 ? CLOCK_BOOTTIME : CLOCK_REALTIME, &now);
    uint64_t us = (uint64_t)now.tv_sec * 1000000ULL + (uint64_t)now.tv_nsec / 1000;
    return us - us % 166667;
}

static unsigned busy_processes(const Gpu *gpu, Process *out)
{
    Process found[CAPACITY];
    int total = 0;
    for (const char *kind = "CGM"; *kind; kind++)
        total += activity_processes(gpu, *kind, found + total, CAPACITY - total);
    unsigned busy = 0;
    for (int i = 0; i < total; i++)
        if (found[i].sm_percent || found[i].mem_percent || found[i].encoder_percent ||
            found[i].decoder_percent)
            out[busy++] = found[i];
    return busy;
}

/* What is shared by both calls: NOT_FOUND when idle or when there is nothing newer. */
static nvmlReturn_t gather(const Call *call, uint64_t last_seen_us, unsigned capacity, bool has_room,
                           Process *found, unsigned *count)
{
    if (call->gpu->util_gpu == ABSENT || call->gpu->mig_mode == 1)
        return NOT_SUPPORTED;
    unsigned busy = busy_processes(call->gpu, found);
    if (busy == 0 || last_sample_us(call->state) <= last_seen_us)
        return NOT_FOUND;
    *count = busy;
    return has_room && capacity >= busy ? SUCCESS : INSUFFICIENT_SIZE;
}

static unsigned clean(const Call *call, unsigned percent)
{
    return call->has_garbage ? (unsigned)call->garbage : percent;
}

typedef struct {
    unsigned pid;
    uint64_t time_us;
    unsigned sm, memory, encoder, decoder;
} UtilizationSample;

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, UtilizationSample *out,
                                             unsigned *count, unsigned long long last_seen_us)
{
    Process found[CAPACITY];
    DEVICE_CALL(device);
    if (!count)
        return answer(INVALID_ARGUMENT);
    nvmlReturn_t result = gather(&call, last_seen_us, *count, out != NULL, found, count);
    for (unsigned i = 0; result == SUCCESS && i < *count; i++)
        out[i] = (UtilizationSample){found[i].pid, last_sample_us(call.state),
                                     clean(&call, found[i].sm_percent),
                                     clean(&call, found[i].mem_percent),
                                     clean(&call, found[i].encoder_percent),
                                     clean(&call, found[i].decoder_percent)};
    return answer(result);
}

typedef struct {
    uint64_t time_us;
    unsigned pid, sm, memory, encoder, decoder, jpg, ofa;
} UtilizationInfo;

typedef struct {
    unsigned version, count;
    uint64_t last_seen_us;
    UtilizationInfo *entries;
} UtilizationInfos;

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, UtilizationInfos *out)
{
    Process found[CAPACITY];
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (out->version != (sizeof *out | 1u << 24))
        return answer(ARGUMENT_VERSION_MISMATCH);
    nvmlReturn_t result =
        gather(&call, out->last_seen_us, out->count, out->entries != NULL, found, &out->count);
    for (unsigned i = 0; result == SUCCESS && i < out->count; i++)
        out->entries[i] = (UtilizationInfo){.time_us = last_sample_us(call.state),
                                            .pid = found[i].pid,
                                            .sm = clean(&call, found[i].sm_percent),
                                            .memory = clean(&call, found[i].mem_percent),
                                            .encoder = clean(&call, found[i].encoder_percent),
                                            .decoder = clean(&call, found[i].decoder_percent)};
    return answer(result);
}
