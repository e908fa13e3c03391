/* The doorway of every call: one lock, counting, and whatever the state file injects. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The real driver serialises slow calls on one lock, so injected latency adds up over threads. */
static pthread_mutex_t driver = PTHREAD_MUTEX_INITIALIZER;

void standin_lock(void) { pthread_mutex_lock(&lock); }
void standin_unlock(void) { pthread_mutex_unlock(&lock); }

typedef struct {
    nvmlReturn_t error;
    int64_t latency_ms;
    bool hang, hang_holds_driver;
    bool has_garbage;
    int64_t garbage;
} Fate;

static bool matches(const Rule *rule, const char *function, int gpu)
{
    return (strcmp(rule->function, "*") == 0 || strcmp(rule->function, function) == 0) &&
           (rule->gpu < 0 || rule->gpu == gpu);
}

static Fate decide(State *state, const char *function, int gpu)
{
    Fate fate = {0};
    fate.hang_holds_driver = state->hang_holds_driver == 1;
    for (int r = 0; r < state->rule_count; r++) {
        Rule *rule = &state->rules[r];
        if (!matches(rule, function, gpu))
            continue;
        if (rule->kind == RULE_ERROR)
            fate.error = (nvmlReturn_t)rule->value;
        else if (rule->kind == RULE_LATENCY)
            fate.latency_ms = rule->value;
        else if (rule->kind == RULE_HANG)
            fate.hang = fate.hang || ++rule->calls >= rule->value;
        else {
            fate.has_garbage = true;
            fate.garbage = rule->value;
        }
    }
    return fate;
}

static void hang_forever(void)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    for (;;)
        pause();
}

static void suffer(const Fate *fate)
{
    if (fate->hang) {
        if (fate->hang_holds_driver)
            pthread_mutex_lock(&driver);
        hang_forever();
    }
    pthread_mutex_lock(&driver);
    if (fate->latency_ms > 0) {
        struct timespec wait = {fate->latency_ms / 1000, (fate->latency_ms % 1000) * 1000000L};
        while (nanosleep(&wait, &wait) != 0)
            continue;
    }
    pthread_mutex_unlock(&driver);
}

/* Lock held before and after; without it in between, so that a hang stops only its own thread. */
static nvmlReturn_t pass(Call *call, const char *function, int *slot, int gpu)
{
    State *state = state_refresh();
    if (*slot < 0)
        *slot = counts_slot(function);
    counts_add(state, *slot, gpu);
    if (!state)
        return SUCCESS;
    Fate fate = decide(state, function, gpu);
    standin_unlock();
    suffer(&fate);
    standin_lock();
    call->has_garbage = fate.has_garbage;
    call->garbage = fate.garbage;
    return fate.error;
}

nvmlReturn_t pass_init(const char *function, int *slot)
{
    Call call = {0};
    nvmlReturn_t result = pass(&call, function, slot, -1);
    if (result == SUCCESS && !state_refresh())
        result = DRIVER_NOT_LOADED;
    return result;
}

nvmlReturn_t enter_system(Call *call, const char *function, int *slot)
{
    *call = (Call){.gpu_index = -1, .function = function};
    standin_lock();
    nvmlReturn_t result = pass(call, function, slot, -1);
    if (result == SUCCESS && !devices_ready())
        result = UNINITIALIZED;
    call->state = state_refresh();
    if (result != SUCCESS)
        standin_unlock();
    return result;
}

nvmlReturn_t enter_device(Call *call, const char *function, int *slot, const void *device)
{
    int gpu = devices_index(device);
    int place = gpu < 0 ? mig_place(device) : -1;
    if (place >= 0)
        gpu = place / MAX_MIGS;
    *call = (Call){.gpu_index = gpu, .function = function};
    standin_lock();
    nvmlReturn_t result = pass(call, function, slot, gpu);
    const State *state = state_refresh();
    if (result == SUCCESS && !devices_ready())
        result = UNINITIALIZED;
    else if (result == SUCCESS && gpu < 0)
        result = INVALID_ARGUMENT;
    else if (result == SUCCESS && (gpu >= state->gpu_count || state->gpus[gpu].lost > 0))
        result = GPU_IS_LOST;
    else if (result == SUCCESS && place >= 0 && !mig_knows(function))
        result = NOT_SUPPORTED;
    else if (result == SUCCESS && place >= 0 && !*state->gpus[gpu].migs[place % MAX_MIGS].uuid)
        result = INVALID_ARGUMENT;
    if (result != SUCCESS) {
        standin_unlock();
        return result;
    }
    call->state = state;
    call->gpu = &state->gpus[gpu];
    call->mig = place < 0 ? NULL : &call->gpu->migs[place % MAX_MIGS];
    return SUCCESS;
}

nvmlReturn_t answer(nvmlReturn_t result)
{
    standin_unlock();
    return result;
}

nvmlReturn_t answer_number(const Call *call, unsigned *out, int64_t value)
{
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (value == ABSENT)
        return answer(NOT_SUPPORTED);
    *out = (unsigned)(call->has_garbage ? call->garbage : value);
    return answer(SUCCESS);
}

nvmlReturn_t answer_text(const char *text, char *out, unsigned length)
{
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (!*text)
        return answer(NOT_SUPPORTED);
    if (strlen(text) >= length)
        return answer(INSUFFICIENT_SIZE);
    memcpy(out, text, strlen(text) + 1);
    return answer(SUCCESS);
}
