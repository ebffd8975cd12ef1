/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/bind/gpus.h"

#include "base/log.h"
#include "base/nvml.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 64u /* of one card */

static struct dt_gpu *add(struct dt_gpus *g)
{
    struct dt_gpu *more = realloc(g->at, (g->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    g->at = more;
    g->at[g->count] = (struct dt_gpu){0};
    return &g->at[g->count++];
}

static bool read_uuid(const struct dt_nvml *n, dt_nvml_device device, struct dt_gpu *g)
{
    if (n->uuid(device, g->uuid, sizeof g->uuid) == DT_NVML_OK)
        return true;
    g->uuid[0] = '\0';
    return false;
}

/* Numbers of parts have gaps. */
static int read_parts(const struct dt_nvml *n, dt_nvml_device card, const struct dt_gpu *of,
                      struct dt_gpus *out)
{
    const struct dt_gpu whole = *of; /* the list moves as it grows */
    unsigned count = 0;
    if (!n->parts || !n->part || n->parts(card, &count) != DT_NVML_OK)
        return 0;
    for (unsigned i = 0; i < count && i < PARTS_MAX; i++) {
        dt_nvml_device part;
        if (n->part(card, i, &part) != DT_NVML_OK)
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

static int read_cards(const struct dt_nvml *n, struct dt_gpus *out)
{
    unsigned count = 0;
    if (n->count(&count) != DT_NVML_OK)
        return 0;
    for (unsigned i = 0; i < count && i < DT_NVML_CARDS_MAX; i++) {
        dt_nvml_device card;
        struct dt_nvml_pci pci = {0};
        if (n->device(i, &card) != DT_NVML_OK || n->pci(card, &pci) != DT_NVML_OK)
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
    struct dt_nvml n;
    int rc = 0, status;
    enum dt_nvml_opened how = dt_nvml_open(&n, &status);
    *out = (struct dt_gpus){0};
    if (how == DT_NVML_TOO_OLD)
        dt_warn("libnvidia-ml.so.1 lacks calls we need: no GPU is seen");
    else if (how == DT_NVML_NO_START)
        dt_debug("libnvidia-ml.so.1 is here but does not start (%d): no GPU is seen", status);
    else if (how == DT_NVML_OPEN)
        rc = read_cards(&n, out);
    dt_nvml_close(&n, how);
    if (rc == 0)
        return 0;
    dt_gpus_finish(out);
    return dt_err_set(err, DT_E_MEMORY, "no memory for a list of GPUs");
}
