/* SPDX-License-Identifier: Apache-2.0 */
/* Whose fault it is that a group is of no use any more: as ranks tell it to each other, in shared
 * memory and in messages, so that all name the one that died and not the one that died of it. */
#ifndef DT_WORKER_RUNTIME_COLL_HOSTS_BLAME_H
#define DT_WORKER_RUNTIME_COLL_HOSTS_BLAME_H

#include "base/err.h"

#include <stdint.h>

#define DT_BLAME_WHY 120

struct dt_hosts_blame {
    int32_t rank; /* of the group; -1: nobody's */
    int32_t code; /* enum dt_err_code */
    char why[DT_BLAME_WHY];
};

#endif
