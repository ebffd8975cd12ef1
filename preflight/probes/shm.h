/* SPDX-License-Identifier: Apache-2.0 */
/* /dev/shm, in which workers of one host and the processes of a data loader share memory. */
#ifndef DT_PREFLIGHT_PROBES_SHM_H
#define DT_PREFLIGHT_PROBES_SHM_H

#include "preflight/probes/inside.h"

struct dt_shm_state {
    bool there, in_memory;
    uint64_t size, free;
};

void dt_shm_judge(const struct dt_shm_state *shm, int workers, struct dt_sheet *sheet);
void dt_shm_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
