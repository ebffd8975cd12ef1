/* SPDX-License-Identifier: Apache-2.0 */
/* Whether each GPU multiplies matrices as it should, keeps what is written to its memory, and is as
 * fast as its neighbours. `dtrun-train probe` does the work (worker_runtime/train/trials.h says
 * what it prints): it alone loads what knows CUDA. */
#ifndef DT_PREFLIGHT_PROBES_COMPUTE_H
#define DT_PREFLIGHT_PROBES_COMPUTE_H

#include "preflight/probes/inside.h"

#define DT_COMPUTE_MAX DT_SHEET_SPEEDS
#define DT_COMPUTE_TIME (50 * DT_SECOND) /* for drivers of many GPUs to start, and the work */

enum dt_tried_state {
    DT_TRIED_NOT_OVER, /* or it has never ended */
    DT_TRIED_WELL,
    DT_TRIED_WRONG,   /* it computed or kept what is not so */
    DT_TRIED_FAILED,  /* it failed at work */
    DT_TRIED_REFUSED, /* there was no way in, or no room */
};

struct dt_tried {
    struct dt_speed speed; /* device, id and kind from the beginning */
    char pci[20];
    enum dt_tried_state state;
    char why[168];
};

struct dt_compute {
    size_t count;
    struct dt_tried at[DT_COMPUTE_MAX];
    bool absent, installed; /* no GPU can be used; there is a plugin for GPUs all the same */
    char why[200];          /* ... none can */
    char end[96];           /* how the program ended, where that says more; "": as it should */
};

/* A line of the program's. What is no such line changes nothing. Pure. */
void dt_compute_take(struct dt_compute *c, const char *line, size_t len);

void dt_compute_judge(const struct dt_compute *c, struct dt_sheet *sheet);
void dt_compute_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
