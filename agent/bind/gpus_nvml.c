/* SPDX-License-Identifier: Apache-2.0 */
/* NVML by hand: its header is not everywhere, its binary interface is fixed by version suffixes. */
#include "agent/bind/gpus.h"

#include "base/log.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CARDS_MAX 1024u
#define PARTS_MAX 64u /* of one card */
#define NVML_OK 0

typedef void *nvml_device;

struct nvml_pci { /* nvmlPciInfo_t, version 3 */
    char bus_id_legacy[16];
    unsigned domain, bus, device;
    unsigned device_id, subsystem_id;
    char bus_id[32];
};

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*device)(unsigned, nvml_device *);
    int (*pci)(nvml_device, struct nvml_pci *);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*parts)(nvml_device, unsigned *);             /* NULL: an old driver */
    int (*part)(nvml_device, unsigned, nvml_device *); /* NULL: an old driver */
};

/* Returns whether all that every driver of the last years has is there. */
static bool find_calls(struct nvml *n)
{
    const struct {
        const char *name;
        void *at; /* of a function pointer, which POSIX lets dlsym() fill as a void * */
        bool optional;
    } calls[] = {
        {"nvmlInit_v2", &n->init, false},
        {"nvmlShutdown", &n->shutdown, false},
        {"nvmlDeviceGetCount_v2", &n->count, false},
        {"nvmlDeviceGetHandleByIndex_v2", &n->device, false},
        {"nvmlDeviceGetPciInfo_v3", &n->pci, false},
        {"nvmlDeviceGetUUID", &n->uuid, false},
        {"nvmlDeviceGetMaxMigDeviceCount", &n->parts, true},
        {"nvmlDeviceGetMigDeviceHandleByIndex", &n->part, true},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *call = dlsym(n->library, calls[i].name);
        if (!call && !calls[i].optional)
            return false;
        memcpy(calls[i].at, &call, sizeof call);
    }
    return true;
}

static struct dt_gpu *add(struct dt_gpus *g)
{
    struct dt_gpu *more = realloc(g->at, (g->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    g->at = more;
    g->at[g->count] = (struct dt_gpu){0};
    return &g->at[g->count++];
}

static bool read_uuid(const struct nvml *n, nvml_device device, struct dt_gpu *g)
{
    if (n->uuid(device, g->uuid, sizeof g->uuid) == NVML_OK)
        return true;
    g->uuid[0] = '\0';
    return false;
}

/* Numbers of parts have gaps. */
static int read_parts(const struct nvml *n, nvml_device card, const struct dt_gpu *of,
                      struct dt_gpus *out)
{
    const struct dt_gpu whole = *of; /* the list moves as it grows */
    unsigned count = 0;
    if (!n->parts || !n->part || n->parts(card, &count) != NVML_OK)
        return 0;
    for (unsigned i = 0; i < count && i < PARTS_MAX; i++) {
        nvml_device part;
        if (n->part(card, i, &part) != NVML_OK)
            continue;
        struct dt_gpu *g = add(out);
        if (!g)
            return -1;
        *g = (struct dt_gpu){.number = whole.number, .mig = true, .at = whole.at};
        if (!read_uuid(n, part, g))
            out->count--; /* without it nobody can name it */
    }
    return 0;
}

static int read_cards(const struct nvml *n, struct dt_gpus *out)
{
    unsigned count = 0;
    if (n->count(&count) != NVML_OK)
        return 0;
    for (unsigned i = 0; i < count && i < CARDS_MAX; i++) {
        nvml_device card;
        struct nvml_pci pci = {0};
        if (n->device(i, &card) != NVML_OK || n->pci(card, &pci) != NVML_OK)
            continue; /* not ours to use: a container shows what it was given */
        struct dt_gpu *g = add(out);
        if (!g)
            return -1;
        *g = (struct dt_gpu){
            .number = (int)i,
            .at = {.domain = pci.domain, .bus = (uint8_t)pci.bus, .device = (uint8_t)pci.device},
        };
        read_uuid(n, card, g);
        if (read_parts(n, card, g, out) < 0)
            return -1;
    }
    return 0;
}

int dt_gpus_read(struct dt_gpus *out, struct dt_err *err)
{
    struct nvml n = {.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    int rc = 0, status;
    *out = (struct dt_gpus){0};
    if (!n.library)
        return 0;
    if (!find_calls(&n)) {
        dt_warn("libnvidia-ml.so.1 lacks calls we need: no GPU is seen");
    } else if ((status = n.init()) != NVML_OK) {
        dt_debug("libnvidia-ml.so.1 is here but does not start (%d): no GPU is seen", status);
    } else {
        rc = read_cards(&n, out);
        n.shutdown();
    }
    dlclose(n.library);
    if (rc == 0)
        return 0;
    dt_gpus_finish(out);
    return dt_err_set(err, DT_E_MEMORY, "no memory for a list of GPUs");
}
