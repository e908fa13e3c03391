/* What pretend contexts and listed processes make of a GPU: use, memory, power, energy. */
#include <math.h>
#include <string.h>

#include "standin.h"

static double overlap_s(const Context *context, double from, double to)
{
    double start = context->start_s > from ? context->start_s : from;
    double end = context->end_s < 0 ? context->alive_s : context->end_s;
    end = end < to ? end : to;
    return end > start ? end - start : 0;
}

static bool lives(const Context *context) { return context->end_s < 0; }

static double at_most(double value, double limit) { return value < limit ? value : limit; }

static void clamp(Activity *out)
{
    out->util = at_most(out->util, 100);
    out->sm = at_most(out->sm, 100);
    out->tensor = at_most(out->tensor, 100);
    out->dram = at_most(out->dram, 100);
}

static void add(Activity *sum, const Activity *part, double weight)
{
    sum->util += part->util * weight;
    sum->sm += part->sm * weight;
    sum->tensor += part->tensor * weight;
    sum->dram += part->dram * weight;
    sum->extra_mw += part->extra_mw * weight;
}

void activity_now(const Gpu *gpu, Activity *out)
{
    int count;
    const Context *contexts = pool_scan(&count, false);
    *out = (Activity){0};
    for (int i = 0; i < count; i++) {
        if (!lives(&contexts[i]) || strcmp(contexts[i].uuid, gpu->uuid) != 0)
            continue;
        add(out, &contexts[i].activity, 1);
        out->mem_bytes += contexts[i].activity.mem_bytes;
    }
    clamp(out);
}

void activity_mean(const Gpu *gpu, double from, double to, Activity *out)
{
    int count;
    const Context *contexts = pool_scan(&count, false);
    double span = to - from;
    *out = (Activity){0};
    for (int i = 0; i < count && span > 0; i++)
        if (strcmp(contexts[i].uuid, gpu->uuid) == 0)
            add(out, &contexts[i].activity, overlap_s(&contexts[i], from, to) / span);
    clamp(out);
}

double activity_extra_mj(const Gpu *gpu)
{
    int count;
    const Context *contexts = pool_scan(&count, false);
    double energy = 0;
    for (int i = 0; i < count; i++)
        if (strcmp(contexts[i].uuid, gpu->uuid) == 0)
            energy += contexts[i].activity.extra_mw * overlap_s(&contexts[i], 0, INFINITY);
    return energy;
}

int activity_processes(const Gpu *gpu, char kind, Process *out, int capacity)
{
    int count, found = 0;
    for (int i = 0; i < gpu->process_count && found < capacity; i++)
        if (gpu->processes[i].kind == kind)
            out[found++] = gpu->processes[i];
    const Context *contexts = pool_scan(&count, true);
    for (int i = 0; kind == 'C' && i < count && found < capacity; i++) {
        const Context *context = &contexts[i];
        if (!lives(context) || strcmp(context->uuid, gpu->uuid) != 0)
            continue;
        out[found++] = (Process){context->pid, context->activity.mem_bytes,
                                 (unsigned)context->activity.sm, (unsigned)context->activity.dram, 'C',
                                 NO_INSTANCE, NO_INSTANCE};
    }
    return found;
}

int64_t power_mw(const Gpu *gpu)
{
    Activity activity;
    if (gpu->power_mw == ABSENT)
        return ABSENT;
    activity_now(gpu, &activity);
    return gpu->power_mw + (int64_t)activity.extra_mw;
}

bool counters_live(const State *state) { return state->counters_live != 0; }

double counters_age_s(const State *state)
{
    if (!counters_live(state) || state->epoch_us == ABSENT)
        return 0;
    return monotonic_s() - (double)state->epoch_us / 1e6;
}

int64_t energy_mj(const State *state, const Gpu *gpu)
{
    if (gpu->energy_mj == ABSENT)
        return ABSENT;
    double energy = (double)gpu->energy_mj;
    if (gpu->power_mw != ABSENT)
        energy += (double)gpu->power_mw * counters_age_s(state);
    if (counters_live(state))
        energy += activity_extra_mj(gpu);
    return (int64_t)energy;
}
