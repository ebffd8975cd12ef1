/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of this host, as NVIDIA's management library knows them. */
#ifndef DT_PREFLIGHT_PROBES_GPUS_H
#define DT_PREFLIGHT_PROBES_GPUS_H

#include "base/nvml.h"
#include "preflight/probes/inside.h"

#define DT_CARDS_MAX 64

/* Bits of the library's reasons for a lower clock. */
#define DT_CARD_SLOWED_BY_HEAT 0x60u
#define DT_CARD_SLOWED_BY_POWER 0x88u

struct dt_card {
    int number;
    char name[64];
    uint64_t memory, used;        /* bytes */
    uint64_t uncorrected;         /* errors of its memory since the driver was loaded */
    bool row_pending, row_failed; /* a bad row of its memory is to be replaced, or cannot be */
    unsigned long long slowed;    /* reasons for a lower clock */
    bool not_kept;                /* without persistence mode */
    int links_up, links_down;     /* of NVLink */
};

struct dt_cards {
    enum dt_nvml_opened opened;
    int status;    /* what starting the library answered */
    int by_driver; /* cards that the driver knows, whether they answer or not */
    size_t count;  /* that answer */
    struct dt_card at[DT_CARDS_MAX];
};

void dt_gpus_judge(const struct dt_cards *g, int workers, struct dt_sheet *sheet);
void dt_gpus_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
