/* SPDX-License-Identifier: Apache-2.0 */
/* A process of this host, watched for its end. By a pidfd; where the kernel or a sandbox has none
 * (old containers, valgrind), by its entry in /proc, which has to be asked again and again. Both
 * are of the process and not of its number, which another may have by then. */
#ifndef DT_WORKER_RUNTIME_COLL_LIFE_H
#define DT_WORKER_RUNTIME_COLL_LIFE_H

#include <stdbool.h>

enum dt_life_by { DT_LIFE_OF_NOBODY, DT_LIFE_BY_PIDFD, DT_LIFE_BY_STAT };

/* Zeroed: nobody is watched. */
struct dt_life {
    enum dt_life_by by;
    int fd;
};

/* 0, or -1 and errno; ESRCH: there is no such process any more. */
int dt_life_open(struct dt_life *l, int pid);
void dt_life_close(struct dt_life *l);

/* Whether it has ended, be it that nobody has reaped it yet. */
bool dt_life_is_over(const struct dt_life *l);
/* For poll(): readable once it is over; -1: nothing wakes those who wait for it, they have to ask.
 */
int dt_life_wait_fd(const struct dt_life *l);

/* The two in one, of a process that may be over. PID 0: not known, so not over either. */
bool dt_life_was(int pid);

#endif
