/* NVLink state and traffic. Counters are base + rate x age, so every process of a node reads the same. */
#include <stdio.h>
#include <string.h>

#include "standin.h"

int link_count(const Gpu *gpu)
{
    if (gpu->nvlink_count == ABSENT)
        return 0;
    return gpu->nvlink_count < MAX_LINKS ? (int)gpu->nvlink_count : MAX_LINKS;
}

static int64_t link_state(const Gpu *gpu, unsigned link)
{
    return gpu->links[link].state == ABSENT ? 1 : gpu->links[link].state;
}

bool link_active(const Gpu *gpu, unsigned link)
{
    return (int)link < link_count(gpu) && link_state(gpu, link) == 1;
}

int64_t link_rate(const Gpu *gpu, unsigned link, bool transmit)
{
    int64_t own = transmit ? gpu->links[link].tx_bytes_per_s : gpu->links[link].rx_bytes_per_s;
    int64_t all = transmit ? gpu->nvlink_tx_bytes_per_s : gpu->nvlink_rx_bytes_per_s;
    if (!link_active(gpu, link))
        return 0;
    if (own != ABSENT)
        return own;
    return all == ABSENT ? 0 : all / link_count(gpu);
}

int64_t link_bytes(const State *state, const Gpu *gpu, unsigned link, bool transmit)
{
    int64_t base = transmit ? gpu->links[link].tx_bytes : gpu->links[link].rx_bytes;
    double grown = (double)link_rate(gpu, link, transmit) * counters_age_s(state);
    return (base == ABSENT ? 0 : base) + (int64_t)grown;
}

int64_t pcie_bytes(const State *state, const Gpu *gpu, bool transmit)
{
    int64_t base = transmit ? gpu->pcie_tx_bytes : gpu->pcie_rx_bytes;
    int64_t rate = transmit ? gpu->pcie_tx_bytes_per_s : gpu->pcie_rx_bytes_per_s;
    if (base == ABSENT)
        return ABSENT;
    return base + (rate == ABSENT ? 0 : (int64_t)((double)rate * counters_age_s(state)));
}

static bool no_such_link(const Gpu *gpu, unsigned link) { return (int)link >= link_count(gpu); }

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *out)
{
    DEVICE_CALL(device);
    if (no_such_link(gpu, link))
        return answer(link_count(gpu) ? INVALID_ARGUMENT : NOT_SUPPORTED);
    return answer_number(&call, out, link_active(gpu, link) ? 1 : 0);
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *out)
{
    DEVICE_CALL(device);
    if (no_such_link(gpu, link))
        return answer(link_count(gpu) ? INVALID_ARGUMENT : NOT_SUPPORTED);
    int64_t own = gpu->links[link].version;
    return answer_number(&call, out, own == ABSENT ? gpu->nvlink_version : own);
}

/* Capability 5 is "valid"; all others hold for a link that exists. */
nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, unsigned capability,
                                           unsigned *out)
{
    DEVICE_CALL(device);
    (void)capability;
    if (no_such_link(gpu, link))
        return answer(link_count(gpu) ? INVALID_ARGUMENT : NOT_SUPPORTED);
    return answer_number(&call, out, 1);
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, unsigned counter,
                                             uint64_t *out)
{
    DEVICE_CALL(device);
    if (no_such_link(gpu, link) || counter > 4 || !out)
        return answer(link_count(gpu) ? INVALID_ARGUMENT : NOT_SUPPORTED);
    const Link *of = &gpu->links[link];
    int64_t counts[] = {of->replays, of->recoveries, of->crc_flit, of->crc_data, of->ecc_data};
    *out = counts[counter] == ABSENT ? 0 : (uint64_t)counts[counter];
    return answer(SUCCESS);
}

static int64_t remote_type(const Gpu *gpu, unsigned link)
{
    enum { TO_GPU = 0, TO_SWITCH = 2 };
    if (gpu->links[link].remote_type != ABSENT)
        return gpu->links[link].remote_type;
    return gpu->nvlink_switch == 1 ? TO_SWITCH : TO_GPU;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, unsigned *out)
{
    DEVICE_CALL(device);
    if (no_such_link(gpu, link) || !link_active(gpu, link))
        return answer(link_count(gpu) ? INVALID_ARGUMENT : NOT_SUPPORTED);
    return answer_number(&call, out, remote_type(gpu, link));
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, void *out)
{
    DEVICE_CALL(device);
    if (no_such_link(gpu, link) || !out)
        return answer(link_count(gpu) ? INVALID_ARGUMENT : NOT_SUPPORTED);
    if (!link_active(gpu, link) || !*gpu->links[link].remote_pci)
        return answer(NOT_SUPPORTED);
    devices_fill_pci(NULL, gpu->links[link].remote_pci, out);
    return answer(SUCCESS);
}

/* The fabric of a machine with NVSwitches; version word, then the layout of versions 2 and 3. */
typedef struct {
    unsigned version;
    unsigned char cluster[16];
    nvmlReturn_t status;
    unsigned clique;
    unsigned state;
    unsigned health_mask;
    unsigned char health_summary;
} Fabric;

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, Fabric *out)
{
    enum { VERSION_2 = 0x02000024, VERSION_3 = 0x03000028, HEALTHY = 1 };
    DEVICE_CALL(device);
    if (!out)
        return answer(INVALID_ARGUMENT);
    if (out->version != VERSION_2 && out->version != VERSION_3)
        return answer(ARGUMENT_VERSION_MISMATCH);
    if (gpu->fabric_state == ABSENT)
        return answer(NOT_SUPPORTED);
    memset(out->cluster, 0, sizeof out->cluster);
    for (size_t i = 0; i < sizeof out->cluster && i * 2 < strlen(gpu->fabric_cluster); i++)
        sscanf(gpu->fabric_cluster + i * 2, "%2hhx", &out->cluster[i]);
    out->status = gpu->fabric_status == ABSENT ? SUCCESS : (nvmlReturn_t)gpu->fabric_status;
    out->clique = gpu->fabric_clique == ABSENT ? 0 : (unsigned)gpu->fabric_clique;
    out->state = (unsigned)gpu->fabric_state;
    out->health_mask = 0;
    if (out->version == VERSION_3)
        out->health_summary = gpu->fabric_health == ABSENT ? HEALTHY : (unsigned char)gpu->fabric_health;
    return answer(SUCCESS);
}
