/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun and its guard say to each other: one struct a packet on a socket pair between two
 * processes of one program. Inside agent/guard only. */
#ifndef DT_AGENT_PROCESS_GUARD_WIRE_H
#define DT_AGENT_PROCESS_GUARD_WIRE_H

#include "agent/process/spawn.h"

#include <stdint.h>

enum dt_guard_order_kind {
    DT_GUARD_GROUP,
    DT_GUARD_LEADER,
    DT_GUARD_REST, /* of a worker that is over: its session */
    DT_GUARD_ALL,
    DT_GUARD_END,
};

struct dt_guard_order {
    enum dt_guard_order_kind kind;
    int index, signum;
};

enum dt_guard_report_kind { DT_GUARD_STARTED, DT_GUARD_REFUSED, DT_GUARD_EXITED };

struct dt_guard_report {
    enum dt_guard_report_kind kind;
    int index;
    int value; /* STARTED: the pid; REFUSED: the step; EXITED: the status */
    int errnum;
    int64_t at_ns;
};

/* The guard's own life, all signals blocked; PIDS has room for two per worker. It starts those of
 * WORKERS that have a path. */
_Noreturn void dt_guard_main(int sock, const struct dt_spawn *workers, pid_t *pids, int count,
                             const struct dt_spawn_inherited *inherited);

#endif
