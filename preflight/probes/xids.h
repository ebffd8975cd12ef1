/* SPDX-License-Identifier: Apache-2.0 */
/* What NVIDIA's driver has told the kernel's log of GPUs since this host was started: Xids. */
#ifndef DT_PREFLIGHT_PROBES_XIDS_H
#define DT_PREFLIGHT_PROBES_XIDS_H

#include "base/kernel_record.h"
#include "preflight/probes/inside.h"

struct dt_xids {
    bool readable;                /* the log is, for this user */
    int broken;                   /* records of a GPU that has failed */
    struct dt_kernel_record last; /* of these */
};

/* Takes the records of TEXT, one a line. Pure. */
void dt_xids_take(struct dt_xids *x, const char *text);

void dt_xids_judge(const struct dt_xids *x, struct dt_sheet *sheet);
void dt_xids_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
