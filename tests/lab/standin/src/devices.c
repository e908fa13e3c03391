/* Which GPUs this process may see, in PCI order, and the handles to them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

static struct Device table[MAX_GPUS];
static int visible[MAX_GPUS];
static int visible_count;
static int init_count;

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} PciInfo;

static bool parse_bus(const char *text, unsigned address[4])
{
    return sscanf(text, "%x:%x:%x.%x", &address[0], &address[1], &address[2], &address[3]) >= 3;
}

bool devices_same_bus(const char *a, const char *b)
{
    unsigned left[4] = {0}, right[4] = {0};
    return parse_bus(a, left) && parse_bus(b, right) && memcmp(left, right, sizeof left) == 0;
}

void devices_fill_pci(const Gpu *gpu, const char *bus_id, void *out)
{
    unsigned address[4] = {0};
    PciInfo info = {0};
    parse_bus(bus_id, address);
    info.domain = address[0];
    info.bus = address[1];
    info.device = address[2];
    if (gpu && gpu->pci_device_id != ABSENT)
        info.pci_device_id = (unsigned)gpu->pci_device_id;
    if (gpu && gpu->pci_subsystem_id != ABSENT)
        info.pci_subsystem_id = (unsigned)gpu->pci_subsystem_id;
    snprintf(info.bus_id_legacy, sizeof info.bus_id_legacy, "%04X:%02X:%02X.%X",
             address[0] & 0xffff, address[1] & 0xff, address[2] & 0xff, address[3] & 0xf);
    snprintf(info.bus_id, sizeof info.bus_id, "%08X:%02X:%02X.%X", address[0], address[1],
             address[2], address[3]);
    memcpy(out, &info, sizeof info);
}

static bool may_open(const State *state, const Gpu *gpu)
{
    if (strcmp(state->devices, "off") == 0)
        return true;
    const char *folder = getenv("NVML_STANDIN_DEV");
    char path[4096];
    snprintf(path, sizeof path, "%s/nvidia%lld", folder && *folder ? folder : "/dev",
             (long long)gpu->minor);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    /* A node without a driver behind it answers ENXIO, but only to somebody who may open it. */
    return fd >= 0 || errno == ENXIO;
}

static int pci_order(const void *left, const void *right)
{
    const State *state = state_refresh();
    unsigned a[4] = {0}, b[4] = {0};
    parse_bus(state->gpus[*(const int *)left].pci_bus_id, a);
    parse_bus(state->gpus[*(const int *)right].pci_bus_id, b);
    for (int i = 0; i < 4; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static void enumerate(const State *state)
{
    visible_count = 0;
    for (int gpu = 0; gpu < MAX_GPUS; gpu++) {
        table[gpu].gpu = gpu;
        if (gpu < state->gpu_count && may_open(state, &state->gpus[gpu]))
            visible[visible_count++] = gpu;
    }
    qsort(visible, (size_t)visible_count, sizeof *visible, pci_order);
}

bool devices_ready(void) { return init_count > 0; }
int devices_visible_count(void) { return visible_count; }
nvmlDevice_t devices_handle(int gpu) { return &table[gpu]; }

int devices_visible(int index)
{
    return index >= 0 && index < visible_count ? visible[index] : -1;
}

int devices_position(int gpu)
{
    for (int index = 0; index < visible_count; index++)
        if (visible[index] == gpu)
            return index;
    return -1;
}

int devices_index(const void *handle)
{
    for (int gpu = 0; gpu < MAX_GPUS; gpu++)
        if (handle == &table[gpu])
            return gpu;
    return -1;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    static int slot = -1;
    (void)flags;
    standin_lock();
    nvmlReturn_t result = pass_init(__func__, &slot);
    if (result == SUCCESS && init_count++ == 0)
        enumerate(state_refresh());
    return answer(result);
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void)
{
    SYSTEM_CALL();
    init_count--;
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    SYSTEM_CALL();
    return answer_number(&call, count, visible_count);
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

static nvmlReturn_t answer_handle(const Call *call, int gpu, nvmlReturn_t otherwise, nvmlDevice_t *out)
{
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (gpu < 0)
        return answer(otherwise);
    /* lost 2: off the bus before this process asked, so that there is not even a handle. */
    if (call->state->gpus[gpu].lost == 2)
        return answer(GPU_IS_LOST);
    *out = &table[gpu];
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    SYSTEM_CALL();
    return answer_handle(&call, devices_visible((int)index), INVALID_ARGUMENT, out);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *out)
{
    return nvmlDeviceGetHandleByIndex_v2(index, out);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    SYSTEM_CALL();
    for (int i = 0; uuid && i < visible_count; i++)
        if (strcmp(call.state->gpus[visible[i]].uuid, uuid) == 0)
            return answer_handle(&call, visible[i], NOT_FOUND, out);
    return answer(uuid ? NOT_FOUND : INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *out)
{
    SYSTEM_CALL();
    for (int i = 0; serial && i < visible_count; i++)
        if (strcmp(call.state->gpus[visible[i]].serial, serial) == 0)
            return answer_handle(&call, visible[i], NOT_FOUND, out);
    return answer(serial ? NOT_FOUND : INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *out)
{
    SYSTEM_CALL();
    for (int i = 0; bus_id && i < visible_count; i++)
        if (devices_same_bus(call.state->gpus[visible[i]].pci_bus_id, bus_id))
            return answer_handle(&call, visible[i], NOT_FOUND, out);
    return answer(bus_id ? NOT_FOUND : INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *out)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, out);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, devices_position(call.gpu_index));
}
