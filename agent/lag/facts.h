/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel counts of a worker, its processors and its control group, from which it follows
 * why it is slow: reads, and decides nothing. Numbers only grow, but for MHZ. ROOT stands before
 * every path that is read: "", but for tests. */
#ifndef DT_AGENT_LAG_FACTS_H
#define DT_AGENT_LAG_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct dt_lag_facts {
    bool there;           /* the process is, and could be read */
    int64_t at_ns;        /* CLOCK_MONOTONIC of this reading */
    int64_t waited_ns;    /* ready to run, for a processor: of the thread that did so the longest */
    int64_t throttled_us; /* its control group was, by its limit of processor time */
    int64_t stolen_ms;    /* from its processors, by the host of a virtual machine ... */
    int64_t processor_ms; /* ... of so much time of theirs */
    int64_t heat;         /* how often its processors were slowed down as they were too hot */
    int64_t faults;       /* pages that it had to wait for a disk for */
    int64_t disk_ms;      /* waited for disks; 0 where the kernel does not count it */
    int mhz;              /* of its processors now, the mean; 0: not told */
};

void dt_lag_facts_read(struct dt_lag_facts *f, pid_t pid, const char *root);

/* How long the main thread of PID has run or been ready to, in ns; 0: it cannot be told. */
int64_t dt_lag_ran_ns(pid_t pid, const char *root);

/* Who else runs right now on a processor that PID may use, and has run longest of these. False:
 * nobody does. Of a process that is no worker only its number, its name and its times are read. */
#define DT_LAG_NAME_MAX 48
bool dt_lag_rival(pid_t pid, const char *root, pid_t *rival, char name[DT_LAG_NAME_MAX]);

#endif
