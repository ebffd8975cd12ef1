/* SPDX-License-Identifier: Apache-2.0 */
/* The control group that this process is in, and its workers when they start, or that another
 * process is in: its limits, and how many processes the kernel has killed in it for want of memory.
 * Version 2, or version 1 where that has the controller. Reads what the kernel shows, and decides
 * nothing. */
#ifndef DT_BASE_CGROUP_H
#define DT_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DT_CGROUP_PATH 512

/* Where a controller shows our group. */
struct dt_cgroup {
    char folder[DT_CGROUP_PATH]; /* empty: it cannot be seen */
    size_t top;                  /* length of the part of FOLDER that is the mount point */
    bool v2;
    const char *root;
};

/* CONTROLLER: "memory" or "pids". ROOT stands before every path that is read: "", but for tests; it
 * is kept. */
void dt_cgroup_find(struct dt_cgroup *g, const char *controller, const char *root);
/* The group of process PID. */
void dt_cgroup_find_of(struct dt_cgroup *g, pid_t pid, const char *controller, const char *root);

/* Processes that the kernel killed for want of memory; -1: it does not tell. */
struct dt_oom_counts {
    int64_t own;   /* of this very group */
    int64_t below; /* of this group and those in it; version 2 only */
    int64_t host;  /* of the whole host */
};

/* G: of "memory". */
struct dt_oom_counts dt_cgroup_oom_counts(const struct dt_cgroup *g);

/* The least limit of this group and those that it is in, in bytes; -1: there is none. */
int64_t dt_cgroup_memory_limit(const struct dt_cgroup *g);

struct dt_cgroup_memory {
    int64_t limit; /* the same */
    int64_t used;  /* in the group that sets it; without a limit, in this one; -1: not told */
};
struct dt_cgroup_memory dt_cgroup_memory(const struct dt_cgroup *g);

/* Bytes that this host has left, or the group where it is in one that has fewer: what a process can
 * have besides what is in use. Pages of files that nobody read lately are not in use. -1: nobody
 * tells. G: of "memory". */
int64_t dt_cgroup_memory_left(const struct dt_cgroup *g);

/* The group that has least room for another process, ours or one that it is in. */
struct dt_cgroup_pids {
    int64_t max, current;
    char folder[DT_CGROUP_PATH];
};

/* G: of "pids". False: there is no limit. */
bool dt_cgroup_pids_limit(const struct dt_cgroup *g, struct dt_cgroup_pids *out);

#endif
