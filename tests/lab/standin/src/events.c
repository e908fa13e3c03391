/* Xid and other events: the state file queues them, a set sees those younger than its registration. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

#include "standin.h"

typedef struct {
    uint64_t types[MAX_GPUS];
    uint64_t seen[MAX_GPUS]; /* highest event.SEQUENCE that this GPU has delivered */
} EventSet;

typedef struct {
    nvmlDevice_t device;
    uint64_t type, data;
    unsigned gpu_instance, compute_instance;
} EventData;

nvmlReturn_t nvmlEventSetCreate(EventSet **out)
{
    SYSTEM_CALL();
    if (!out)
        return answer(INVALID_ARGUMENT);
    *out = calloc(1, sizeof **out);
    return answer(*out ? SUCCESS : MEMORY);
}

nvmlReturn_t nvmlEventSetFree(EventSet *set)
{
    SYSTEM_CALL();
    free(set);
    return answer(set ? SUCCESS : INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, uint64_t *out)
{
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    *out = gpu->event_types == ABSENT ? 0 : (uint64_t)gpu->event_types;
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, EventSet *set)
{
    DEVICE_CALL(device);
    if (!set)
        return answer(INVALID_ARGUMENT);
    uint64_t supported = gpu->event_types == ABSENT ? 0 : (uint64_t)gpu->event_types;
    if (types & ~supported)
        return answer(NOT_SUPPORTED);
    set->types[call.gpu_index] |= types;
    for (int i = 0; i < call.state->event_count; i++) {
        const Event *event = &call.state->events[i];
        if (event->gpu == call.gpu_index && event->sequence > set->seen[call.gpu_index])
            set->seen[call.gpu_index] = event->sequence;
    }
    return answer(SUCCESS);
}

static const Event *next_event(const State *state, EventSet *set)
{
    const Event *next = NULL;
    for (int i = 0; i < state->event_count; i++) {
        const Event *event = &state->events[i];
        bool wanted = event->gpu >= 0 && event->gpu < MAX_GPUS &&
                      (set->types[event->gpu] & event->type) && event->sequence > set->seen[event->gpu];
        if (wanted && (!next || event->sequence < next->sequence))
            next = event;
    }
    return next;
}

nvmlReturn_t nvmlEventSetWait_v2(EventSet *set, EventData *out, unsigned timeout_ms)
{
    SYSTEM_CALL();
    if (!set || !out)
        return answer(INVALID_ARGUMENT);
    for (double deadline_s = monotonic_s() + timeout_ms / 1000.0;;) {
        const Event *event = next_event(state_refresh(), set);
        if (event) {
            set->seen[event->gpu] = event->sequence;
            *out = (EventData){devices_handle(event->gpu), event->type, event->data, UINT32_MAX,
                               UINT32_MAX};
            return answer(SUCCESS);
        }
        if (monotonic_s() >= deadline_s)
            return answer(TIMEOUT);
        standin_unlock();
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        standin_lock();
    }
}

nvmlReturn_t nvmlEventSetWait(EventSet *set, EventData *out, unsigned timeout_ms)
{
    return nvmlEventSetWait_v2(set, out, timeout_ms);
}
