/* MIG: the instances of a GPU, each with a handle of its own that only a few calls take. */
#include <string.h>

#include "standin.h"

static struct Device table[MAX_GPUS * MAX_MIGS];

int mig_place(const void *handle)
{
    for (int place = 0; place < MAX_GPUS * MAX_MIGS; place++)
        if (handle == &table[place])
            return place;
    return -1;
}

bool mig_knows(const char *function)
{
    static const char *const known[] = {
        "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceIsMigDeviceHandle", "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetComputeInstanceId", "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"};
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], function) == 0)
            return true;
    return false;
}

const Mig *mig_of_instance(const Gpu *gpu, int64_t gpu_instance)
{
    for (int i = 0; i < MAX_MIGS; i++)
        if (*gpu->migs[i].uuid && gpu->migs[i].gpu_instance == gpu_instance)
            return &gpu->migs[i];
    return NULL;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, call.mig != NULL);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *out)
{
    enum { SLICES = 7 };
    DEVICE_CALL(device);
    return answer_number(&call, out, gpu->mig_mode == ABSENT ? 0 : SLICES);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                 nvmlDevice_t *out)
{
    DEVICE_CALL(device);
    if (gpu->mig_mode == ABSENT)
        return answer(NOT_SUPPORTED);
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (gpu->mig_mode != 1 || index >= MAX_MIGS || !*gpu->migs[index].uuid)
        return answer(NOT_FOUND);
    *out = &table[call.gpu_index * MAX_MIGS + (int)index];
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *out)
{
    DEVICE_CALL(device);
    if (!out || !call.mig)
        return answer(INVALID_ARGUMENT);
    *out = devices_handle(call.gpu_index);
    return answer(SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, call.mig ? call.mig->gpu_instance : ABSENT);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *out)
{
    DEVICE_CALL(device);
    return answer_number(&call, out, call.mig ? call.mig->compute_instance : ABSENT);
}
