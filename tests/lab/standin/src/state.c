/* Reads the state file: one "key value" a line, again whenever its inode, size or mtime changes. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "standin.h"

typedef struct {
    const char *name;
    size_t offset;
} Member;

#define MEMBER_OF(type, name) {#name, offsetof(type, name)},
#define NUMBER(name) MEMBER_OF(State, name)
static const Member global_numbers[] = {GLOBAL_NUMBERS(NUMBER){NULL, 0}};
static const Member global_strings[] = {GLOBAL_STRINGS(NUMBER){NULL, 0}};
#undef NUMBER
#define NUMBER(name) MEMBER_OF(Gpu, name)
static const Member gpu_numbers[] = {GPU_NUMBERS(NUMBER){NULL, 0}};
static const Member gpu_strings[] = {GPU_STRINGS(NUMBER){NULL, 0}};
#undef NUMBER
#define NUMBER(name) MEMBER_OF(Link, name)
static const Member link_numbers[] = {LINK_NUMBERS(NUMBER){NULL, 0}};
#undef NUMBER
#define NUMBER(name) MEMBER_OF(Mig, name)
static const Member mig_numbers[] = {MIG_NUMBERS(NUMBER){NULL, 0}};
static const Member mig_strings[] = {MIG_STRINGS(NUMBER){NULL, 0}};
#undef NUMBER

static const Member *find(const Member *members, const char *name)
{
    for (; members->name; members++)
        if (strcmp(members->name, name) == 0)
            return members;
    return NULL;
}

static bool put_number(const Member *members, void *base, const char *name, const char *value)
{
    const Member *member = find(members, name);
    if (!member)
        return false;
    int64_t *slot = (int64_t *)((char *)base + member->offset);
    *slot = strcmp(value, "n/a") == 0 ? ABSENT : (int64_t)strtoll(value, NULL, 0);
    return true;
}

static bool put_string(const Member *members, void *base, const char *name, const char *value,
                       size_t size)
{
    const Member *member = find(members, name);
    if (!member)
        return false;
    snprintf((char *)base + member->offset, size, "%s", value);
    return true;
}

static void clear_numbers(const Member *members, void *base)
{
    for (; members->name; members++)
        *(int64_t *)((char *)base + members->offset) = ABSENT;
}

static void clear(State *state)
{
    memset(state, 0, sizeof *state);
    clear_numbers(global_numbers, state);
    for (int g = 0; g < MAX_GPUS; g++) {
        Gpu *gpu = &state->gpus[g];
        clear_numbers(gpu_numbers, gpu);
        for (int l = 0; l < MAX_LINKS; l++)
            clear_numbers(link_numbers, &gpu->links[l]);
        for (int m = 0; m < MAX_MIGS; m++)
            clear_numbers(mig_numbers, &gpu->migs[m]);
        for (int other = 0; other < MAX_GPUS; other++)
            gpu->topology[other] = ABSENT;
    }
}

/* "field.ID[.SCOPE]", "field_error.ID[.SCOPE]", "gpm.ID", "gpm_error.ID": key is past the first dot. */
static bool put_override(Override *list, int *count, const char *key, const char *value, bool error)
{
    char *rest;
    unsigned id = (unsigned)strtoul(key, &rest, 10);
    bool any_scope = *rest != '.';
    if (*count >= MAX_FIELDS || (any_scope && *rest))
        return false;
    unsigned scope = any_scope ? 0 : (unsigned)strtoul(rest + 1, NULL, 0);
    Override *entry = &list[(*count)++];
    *entry = (Override){id, scope, any_scope, 0, SUCCESS};
    if (error)
        entry->error = atoi(value);
    else
        entry->value = strtod(value, NULL);
    return true;
}

static bool put_process(Gpu *gpu, const char *pid, const char *value)
{
    char mem[32] = "0", kind = 'C';
    unsigned sm = 0, dram = 0, instance = NO_INSTANCE, part = NO_INSTANCE, enc = 0, dec = 0;
    if (gpu->process_count >= MAX_PROCESSES ||
        sscanf(value, "%31s %u %u %c %u %u %u %u", mem, &sm, &dram, &kind, &instance, &part, &enc,
               &dec) < 1)
        return false;
    Process *process = &gpu->processes[gpu->process_count++];
    process->pid = (unsigned)strtoul(pid, NULL, 10);
    process->mem_bytes = strcmp(mem, "n/a") == 0 ? ABSENT : strtoll(mem, NULL, 0);
    process->sm_percent = sm;
    process->mem_percent = dram;
    process->kind = kind;
    process->gpu_instance = instance;
    process->compute_instance = part;
    process->encoder_percent = enc;
    process->decoder_percent = dec;
    return true;
}

/* "LINK.KEY" and "INSTANCE.KEY": key is past "link." or "mig.". */
static bool put_link(Gpu *gpu, const char *key, const char *value)
{
    char *part;
    long link = strtol(key, &part, 10);
    if (link < 0 || link >= MAX_LINKS || *part++ != '.')
        return false;
    if (strcmp(part, "remote_pci") == 0) {
        snprintf(gpu->links[link].remote_pci, TEXT, "%s", value);
        return true;
    }
    return put_number(link_numbers, &gpu->links[link], part, value);
}

static bool put_mig(Gpu *gpu, const char *key, const char *value)
{
    char *part;
    long mig = strtol(key, &part, 10);
    if (mig < 0 || mig >= MAX_MIGS || *part++ != '.')
        return false;
    return put_string(mig_strings, &gpu->migs[mig], part, value, TEXT) ||
           put_number(mig_numbers, &gpu->migs[mig], part, value);
}

static bool put_gpu(State *state, const char *key, const char *value)
{
    char *name;
    long index = strtol(key, &name, 10);
    if (index < 0 || index >= MAX_GPUS || *name++ != '.')
        return false;
    Gpu *gpu = &state->gpus[index];
    if (strncmp(name, "link.", 5) == 0)
        return put_link(gpu, name + 5, value);
    if (strncmp(name, "mig.", 4) == 0)
        return put_mig(gpu, name + 4, value);
    if (strncmp(name, "field.", 6) == 0)
        return put_override(gpu->fields, &gpu->field_count, name + 6, value, false);
    if (strncmp(name, "field_error.", 12) == 0)
        return put_override(gpu->fields, &gpu->field_count, name + 12, value, true);
    if (strncmp(name, "gpm.", 4) == 0)
        return put_override(gpu->gpm, &gpu->gpm_count, name + 4, value, false);
    if (strncmp(name, "gpm_error.", 10) == 0)
        return put_override(gpu->gpm, &gpu->gpm_count, name + 10, value, true);
    if (strncmp(name, "process.", 8) == 0)
        return put_process(gpu, name + 8, value);
    if (strncmp(name, "topology.", 9) == 0) {
        long other = strtol(name + 9, NULL, 10);
        if (other < 0 || other >= MAX_GPUS)
            return false;
        gpu->topology[other] = strtoll(value, NULL, 10);
        return true;
    }
    return put_string(gpu_strings, gpu, name, value, TEXT) ||
           put_number(gpu_numbers, gpu, name, value);
}

/* "inject.KIND.FUNCTION[.GPU] VALUE" */
static bool put_rule(State *state, const char *key, const char *value)
{
    static const char *const kinds[] = {"error.", "latency_ms.", "hang.", "garbage."};
    for (int kind = 0; kind < 4; kind++) {
        size_t length = strlen(kinds[kind]);
        if (strncmp(key, kinds[kind], length) != 0 || state->rule_count >= MAX_RULES)
            continue;
        Rule *rule = &state->rules[state->rule_count++];
        rule->kind = (enum RuleKind)kind;
        snprintf(rule->function, TEXT, "%s", key + length);
        char *dot = strchr(rule->function, '.');
        rule->gpu = dot ? atoi(dot + 1) : -1;
        if (dot)
            *dot = 0;
        rule->value = strtoll(value, NULL, 0);
        return true;
    }
    return false;
}

static bool put_event(State *state, const char *key, const char *value)
{
    unsigned long long type, data;
    int gpu;
    if (state->event_count >= MAX_EVENTS || sscanf(value, "%d %lli %lli", &gpu, &type, &data) != 3)
        return false;
    state->events[state->event_count++] = (Event){strtoull(key, NULL, 10), gpu, type, data};
    return true;
}

static bool state_set(State *state, const char *key, const char *value)
{
    if (strncmp(key, "gpu.", 4) == 0)
        return put_gpu(state, key + 4, value);
    if (strncmp(key, "inject.", 7) == 0)
        return put_rule(state, key + 7, value);
    if (strncmp(key, "event.", 6) == 0)
        return put_event(state, key + 6, value);
    return put_string(global_strings, state, key, value, sizeof state->devices) ||
           put_number(global_numbers, state, key, value);
}

const char *state_path(void)
{
    const char *path = getenv("NVML_STANDIN_STATE");
    return path && *path ? path : "/var/lib/nvml-standin/state";
}

static bool state_read(State *state, FILE *file)
{
    char *line = NULL;
    size_t size = 0;
    clear(state);
    for (ssize_t length; (length = getline(&line, &size, file)) > 0;) {
        line[strcspn(line, "\n")] = 0;
        char *value = strchr(line, ' ');
        if (!*line || *line == '#')
            continue;
        if (value)
            *value++ = 0;
        if (!value || !state_set(state, line, value))
            fprintf(stderr, "nvml-standin: cannot use line '%s' of %s\n", line, state_path());
    }
    free(line);
    return true;
}

State *state_refresh(void)
{
    static State *current;
    static struct stat known;
    struct stat now;
    if (stat(state_path(), &now) != 0)
        return current;
    if (current && now.st_ino == known.st_ino && now.st_size == known.st_size &&
        now.st_mtim.tv_sec == known.st_mtim.tv_sec && now.st_mtim.tv_nsec == known.st_mtim.tv_nsec)
        return current;
    FILE *file = fopen(state_path(), "re");
    if (!file)
        return current;
    if (!current)
        current = malloc(sizeof *current);
    if (current) {
        fstat(fileno(file), &known);
        state_read(current, file);
    }
    fclose(file);
    return current;
}
