/* SPDX-License-Identifier: Apache-2.0 */
/* One worker process: all that has to be in place between fork and exec. */
#ifndef DT_AGENT_PROCESS_SPAWN_H
#define DT_AGENT_PROCESS_SPAWN_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* What a worker is to inherit as it was when we were started, before we changed it for ourselves.
 */
struct dt_spawn_inherited {
    sigset_t mask;
    struct rlimit files;
};

/* Where a worker may run. Zeroed: anywhere. */
struct dt_spawn_place {
    const cpu_set_t *cpus; /* NULL: anywhere */
    size_t cpus_size;
    const unsigned long *nodes; /* memory is taken from these NUMA nodes; NULL: from anywhere */
    unsigned long nodes_bits;
};

#define DT_SPAWN_KEEP 3 /* its page, and the two files of its vault */

struct dt_spawn {
    const char *path; /* what is executed; argv[0] is free */
    char *const *argv;
    char *const *env;
    int out, err;            /* its descriptors 1 and 2; -1: ours */
    int keep[DT_SPAWN_KEEP]; /* others that it keeps, under their numbers; 0: none */
    struct dt_spawn_place place;
};

/* Which step of a spawn failed, for a sentence. */
enum dt_spawn_step {
    DT_SPAWN_FORK,
    DT_SPAWN_SESSION,
    DT_SPAWN_STREAMS,
    DT_SPAWN_PLACE,
    DT_SPAWN_EXEC
};

/* Forks from a process with one thread, all signals blocked. The child leads a session of its own,
 * is killed when this process dies, and has no descriptor beyond 2 but those it keeps. BEGIN is
 * called in the child before all else, and REFUSE when a step fails; it then exits with 127.
 * Returns its pid, or -1 and errno. */
pid_t dt_spawn_worker(const struct dt_spawn *what, const struct dt_spawn_inherited *inherited,
                      void (*begin)(void *arg),
                      void (*refuse)(void *arg, enum dt_spawn_step step, int errnum), void *arg);

#endif
