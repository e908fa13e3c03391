/* nvmlDeviceGetFieldValues: a batch of values, each with its own type, time and return code. */
#include <string.h>
#include <time.h>

#include "standin.h"

enum ValueType { UINT = 1, ULLONG = 3 };
enum { ALL_LINKS = 0xFFFFFFFF };

typedef struct {
    uint32_t id, scope;
    int64_t timestamp_us, latency_us;
    uint32_t type;
    nvmlReturn_t result;
    union {
        double real;
        uint64_t wide;
    } value;
} FieldValue;

typedef struct {
    enum ValueType type;
    int64_t value;
} Answer;

static Answer of(enum ValueType type, int64_t value) { return (Answer){type, value}; }

static Answer ecc_and_rows(const Gpu *gpu, unsigned id)
{
    switch (id) {
    case 1:
    case 2: return of(UINT, gpu->ecc_mode);
    case 3: return of(ULLONG, gpu->ecc_sbe_volatile);
    case 4: return of(ULLONG, gpu->ecc_dbe_volatile);
    case 5: return of(ULLONG, gpu->ecc_sbe_aggregate);
    case 6: return of(ULLONG, gpu->ecc_dbe_aggregate);
    case 29: return of(ULLONG, gpu->retired_sbe);
    case 30: return of(ULLONG, gpu->retired_dbe);
    case 31: return of(UINT, gpu->retired_pending);
    case 142: return of(UINT, gpu->remapped_correctable);
    case 143: return of(UINT, gpu->remapped_uncorrectable);
    case 144: return of(UINT, gpu->remapped_pending);
    case 145: return of(UINT, gpu->remapped_failure);
    case 230: return of(UINT, gpu->recovery_action);
    default: return of(UINT, ABSENT);
    }
}

static Answer power_and_time(const State *state, const Gpu *gpu, unsigned id)
{
    switch (id) {
    case 74: return of(ULLONG, gpu->violation_power_ns);
    case 75: return of(ULLONG, gpu->violation_thermal_ns);
    case 82: return of(UINT, gpu->temp_mem_c);
    case 83: return of(ULLONG, energy_mj(state, gpu));
    case 185:
    case 186: return of(UINT, power_mw(gpu));
    case 187: return of(UINT, gpu->power_min_limit_mw);
    case 188: return of(UINT, gpu->power_max_limit_mw);
    case 189: return of(UINT, gpu->power_default_limit_mw);
    case 190:
    case 192: return of(UINT, gpu->power_limit_mw);
    case 269: return of(ULLONG, gpu->slowdown_sw_thermal_ns);
    case 270: return of(ULLONG, gpu->slowdown_hw_thermal_ns);
    case 271: return of(ULLONG, gpu->slowdown_hw_brake_ns);
    default: return of(UINT, ABSENT);
    }
}

static Answer pcie(const State *state, const Gpu *gpu, unsigned id)
{
    switch (id) {
    case 94: return of(UINT, gpu->pcie_replays);
    case 197: return of(ULLONG, pcie_bytes(state, gpu, true));
    case 198: return of(ULLONG, pcie_bytes(state, gpu, false));
    default: return of(UINT, ABSENT);
    }
}

static int64_t throughput_kib(const State *state, const Gpu *gpu, unsigned scope, bool transmit)
{
    int64_t bytes = 0;
    if (link_count(gpu) == 0 || (scope != ALL_LINKS && (int)scope >= link_count(gpu)))
        return ABSENT;
    for (int link = 0; link < link_count(gpu); link++)
        if (scope == ALL_LINKS || (int)scope == link)
            bytes += link_bytes(state, gpu, (unsigned)link, transmit);
    return bytes / 1024;
}

static int64_t total_errors(const Gpu *gpu, unsigned id)
{
    int64_t sum = 0;
    for (int l = 0; l < link_count(gpu); l++) {
        const Link *link = &gpu->links[l];
        int64_t count = id == 38   ? link->crc_flit
                        : id == 45 ? link->crc_data
                        : id == 52 ? link->replays
                        : id == 59 ? link->recoveries
                                   : link->ecc_data;
        sum += count == ABSENT ? 0 : count;
    }
    return link_count(gpu) ? sum : ABSENT;
}

static int64_t or_else(int64_t value, int64_t otherwise)
{
    return value == ABSENT ? otherwise : value;
}

static Answer one_link(const Gpu *gpu, unsigned id, unsigned scope)
{
    if ((int)scope >= link_count(gpu))
        return of(UINT, ABSENT);
    const Link *link = &gpu->links[scope];
    switch (id) {
    case 161: return of(ULLONG, or_else(link->replays, 0));
    case 162: return of(ULLONG, or_else(link->recoveries, 0));
    case 163: return of(ULLONG, or_else(link->crc_flit, 0));
    case 164: return of(UINT, link_active(gpu, scope) ? or_else(link->speed_mbps, gpu->nvlink_speed_mbps) : 0);
    case 165: return of(UINT, or_else(link->state, 1));
    case 166: return of(UINT, or_else(link->version, gpu->nvlink_version));
    case 167: return of(UINT, 0);
    default: return of(UINT, ABSENT);
    }
}

static Answer nvlink(const State *state, const Gpu *gpu, unsigned id, unsigned scope)
{
    switch (id) {
    case 38:
    case 45:
    case 52:
    case 59:
    case 160: return of(ULLONG, total_errors(gpu, id));
    case 90: return of(UINT, gpu->nvlink_speed_mbps);
    case 91: return of(UINT, link_count(gpu));
    case 138: return of(ULLONG, throughput_kib(state, gpu, scope, true));
    case 139: return of(ULLONG, throughput_kib(state, gpu, scope, false));
    case 147: return of(UINT, gpu->nvlink_switch == 1 ? link_count(gpu) : 0);
    default: return one_link(gpu, id, scope);
    }
}

static const Override *overridden(const Gpu *gpu, unsigned id, unsigned scope)
{
    const Override *any = NULL;
    for (int i = 0; i < gpu->field_count; i++) {
        const Override *told = &gpu->fields[i];
        if (told->id == id && !told->any_scope && told->scope == scope)
            return told;
        if (told->id == id && told->any_scope)
            any = told;
    }
    return any;
}

static Answer look_up(const State *state, const Gpu *gpu, unsigned id, unsigned scope)
{
    bool old_driver = state->field_id_max != ABSENT && id > state->field_id_max;
    Answer found = old_driver ? of(UINT, ABSENT) : ecc_and_rows(gpu, id);
    if (old_driver)
        return found;
    if (found.value == ABSENT)
        found = power_and_time(state, gpu, id);
    if (found.value == ABSENT)
        found = pcie(state, gpu, id);
    if (found.value == ABSENT)
        found = nvlink(state, gpu, id, scope);
    return found;
}

static void fill(const Call *call, FieldValue *field)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const Override *told = overridden(call->gpu, field->id, field->scope);
    Answer found = look_up(call->state, call->gpu, field->id, field->scope);
    field->timestamp_us = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
    field->latency_us = 0;
    field->type = found.type;
    field->result = found.value == ABSENT ? NOT_SUPPORTED : SUCCESS;
    field->value.wide = found.value == ABSENT ? 0 : (uint64_t)found.value;
    if (told) {
        field->result = told->error;
        field->value.wide = (uint64_t)(int64_t)told->value;
    }
    if (call->has_garbage && field->result == SUCCESS)
        field->value.wide = (uint64_t)call->garbage;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, FieldValue *values)
{
    DEVICE_CALL(device);
    if (count <= 0 || !values)
        return answer(INVALID_ARGUMENT);
    for (int i = 0; i < count; i++)
        fill(&call, &values[i]);
    return answer(SUCCESS);
}
