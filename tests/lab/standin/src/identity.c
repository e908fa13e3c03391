/* Calls whose answers do not change while a driver runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

#define TEXT_GETTER(function, text)                                                \
    nvmlReturn_t function(nvmlDevice_t device, char *out, unsigned length)         \
    {                                                                              \
        DEVICE_CALL(device);                                                       \
        return answer_text(text, out, length);                                     \
    }

#define NUMBER_GETTER(function, member)                                            \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *out)                      \
    {                                                                              \
        DEVICE_CALL(device);                                                       \
        return answer_number(&call, out, gpu->member);                             \
    }

TEXT_GETTER(nvmlDeviceGetName, call.mig ? call.mig->name : gpu->name)
TEXT_GETTER(nvmlDeviceGetUUID, call.mig ? call.mig->uuid : gpu->uuid)
TEXT_GETTER(nvmlDeviceGetSerial, gpu->serial)
TEXT_GETTER(nvmlDeviceGetVbiosVersion, gpu->vbios)
TEXT_GETTER(nvmlDeviceGetBoardPartNumber, gpu->part_number)
NUMBER_GETTER(nvmlDeviceGetMinorNumber, minor)
NUMBER_GETTER(nvmlDeviceGetBrand, brand)
NUMBER_GETTER(nvmlDeviceGetArchitecture, architecture)
NUMBER_GETTER(nvmlDeviceGetModuleId, module_id)
NUMBER_GETTER(nvmlDeviceGetNumaNodeId, numa_node)
NUMBER_GETTER(nvmlDeviceGetNumGpuCores, cores)
NUMBER_GETTER(nvmlDeviceGetMemoryBusWidth, memory_bus_bits)
NUMBER_GETTER(nvmlDeviceGetPersistenceMode, persistence_mode)
NUMBER_GETTER(nvmlDeviceGetComputeMode, compute_mode)
NUMBER_GETTER(nvmlDeviceGetDisplayActive, display_active)
NUMBER_GETTER(nvmlDeviceGetDisplayMode, display_mode)
NUMBER_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, pcie_gen_max)
NUMBER_GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, pcie_gen_gpu_max)
NUMBER_GETTER(nvmlDeviceGetMaxPcieLinkWidth, pcie_width_max)

static nvmlReturn_t answer_pair(const Call *call, int64_t value, unsigned *current, unsigned *other)
{
    if (!current || !other)
        return answer(INVALID_ARGUMENT);
    if (value == ABSENT)
        return answer(NOT_SUPPORTED);
    *current = (unsigned)(call->has_garbage ? call->garbage : value);
    *other = (unsigned)value;
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    DEVICE_CALL(device);
    return answer_pair(&call, gpu->mig_mode, current, pending);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    DEVICE_CALL(device);
    return answer_pair(&call, gpu->ecc_mode, current, pending);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    DEVICE_CALL(device);
    if (!major || !minor)
        return answer(INVALID_ARGUMENT);
    if (gpu->cc_major == ABSENT || gpu->cc_minor == ABSENT)
        return answer(NOT_SUPPORTED);
    *major = (int)gpu->cc_major;
    *minor = (int)gpu->cc_minor;
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, void *out)
{
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    devices_fill_pci(gpu, gpu->pci_bus_id, out);
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, void *out)
{
    return nvmlDeviceGetPciInfo_v3(device, out);
}

nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, (call.gpu_index + 1) * 0x100);
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned length)
{
    SYSTEM_CALL();
    return answer_text(call.state->driver_version, out, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned length)
{
    SYSTEM_CALL();
    return answer_text(call.state->nvml_version, out, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    SYSTEM_CALL();
    return answer_number(&call, (unsigned *)out, call.state->cuda_version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out)
{
    return nvmlSystemGetCudaDriverVersion_v2(out);
}

nvmlReturn_t nvmlSystemGetHicVersion(unsigned *count, void *entries)
{
    SYSTEM_CALL();
    (void)entries;
    return answer_number(&call, count, 0);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *out, unsigned length)
{
    char path[64], text[1024] = {0};
    SYSTEM_CALL();
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return answer(NOT_FOUND);
    (void)!fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return answer_text(text, out, length);
}

const char *nvmlErrorString(nvmlReturn_t code)
{
    switch (code) {
    case SUCCESS: return "The operation was successful";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case 13: return "Function Not Found";
    case GPU_IS_LOST: return "GPU is lost";
    case 18: return "RM has detected an NVML/RM version mismatch.";
    case ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

static int64_t common_ancestor(const State *state, int a, int b)
{
    int64_t told = state->gpus[a].topology[b];
    if (a == b)
        return 0;
    if (told != ABSENT)
        return told;
    /* NODE below one NUMA node, SYSTEM across two. */
    return state->gpus[a].numa_node == state->gpus[b].numa_node ? 40 : 50;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t two, unsigned *out)
{
    DEVICE_CALL(one);
    int other = devices_index(two);
    if (other < 0)
        return answer(INVALID_ARGUMENT);
    return answer_number(&call, out, common_ancestor(call.state, call.gpu_index, other));
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t two, int what, unsigned *out)
{
    enum { NVLINK = 2, OK = 0, P2P_NOT_SUPPORTED = 5 };
    DEVICE_CALL(one);
    int other = devices_index(two);
    if (other < 0)
        return answer(INVALID_ARGUMENT);
    bool linked = link_count(gpu) > 0 && link_count(&call.state->gpus[other]) > 0;
    return answer_number(&call, out, what == NVLINK && !linked ? P2P_NOT_SUPPORTED : OK);
}

/* CPUs of a NUMA node: 64 per node, so that masks of two nodes never overlap. */
static nvmlReturn_t answer_affinity(const Gpu *gpu, unsigned size, uint64_t *out, bool of_memory)
{
    if (!out || size == 0)
        return answer(INVALID_ARGUMENT);
    if (gpu->numa_node == ABSENT)
        return answer(NOT_SUPPORTED);
    memset(out, 0, size * sizeof *out);
    if (of_memory)
        out[0] = 1ULL << gpu->numa_node;
    else if (gpu->numa_node < size)
        out[gpu->numa_node] = UINT64_MAX;
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned size, uint64_t *out)
{
    DEVICE_CALL(device);
    return answer_affinity(gpu, size, out, false);
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned size, uint64_t *out,
                                                 unsigned scope)
{
    (void)scope;
    DEVICE_CALL(device);
    return answer_affinity(gpu, size, out, false);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned size, uint64_t *out,
                                         unsigned scope)
{
    (void)scope;
    DEVICE_CALL(device);
    return answer_affinity(gpu, size, out, true);
}
