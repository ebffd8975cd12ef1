/* SPDX-License-Identifier: Apache-2.0 */
/* A dt_zero without a job around it: what dt_zero_create() calls with what the context knows, and
 * what tests call with what they made up. */
#ifndef DT_WORKER_RUNTIME_ZERO_CREATE_H
#define DT_WORKER_RUNTIME_ZERO_CREATE_H

#include "worker_runtime/device/device.h"

#include <dtrun/zero.h>

struct dt_zero_place {
    struct dt_device *device;
    struct dt_coll *group;
    size_t sharing; /* ranks of the group on this host, who hold one copy of shared memory */
    int threads;    /* of the CPU, where a GPU's optimizer is offloaded to it */
    size_t piece;   /* for tests: elements that it takes at a time; 0: as many as suit */
    bool apart;     /* for tests: as if no two ranks shared memory, so that all is gathered */
};

struct dt_zero *dt_zero_create_on(const struct dt_zero_place *place, const struct dt_unit *units,
                                  size_t count, const struct dt_zero_options *o,
                                  struct dt_err *err);

#endif
