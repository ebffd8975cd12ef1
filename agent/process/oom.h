/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the kernel ended a worker for want of memory. A process that it kills so dies of SIGKILL
 * as of anybody's; only counters tell, before and after. */
#ifndef DT_AGENT_PROCESS_OOM_H
#define DT_AGENT_PROCESS_OOM_H

#include "base/cgroup.h"

enum dt_oom_kind {
    DT_OOM_NO,     /* or nobody can tell */
    DT_OOM_KILLED, /* its own group counts a kill */
    DT_OOM_LIKELY, /* one was counted, but in a group inside its own, or somewhere on the host */
    DT_OOM_BESIDE, /* it failed by itself, after the kernel had killed another process here */
};

struct dt_oom {
    enum dt_oom_kind kind;
    int64_t limit; /* of memory, in bytes; -1: none but the host's */
};

/* Of a worker that failed with STATUS, as of waitpid(). OURS: we sent the signal that ended it.
 * Pure. */
enum dt_oom_kind dt_oom_judge(const struct dt_oom_counts *before, const struct dt_oom_counts *now,
                              int status, bool ours);

/* "killed by the kernel: out of memory (limit 80 MiB)"; "" where there is nothing to say. Pure. */
#define DT_OOM_TEXT 160
const char *dt_oom_text(const struct dt_oom *oom, char out[DT_OOM_TEXT]);

/* The counters of one attempt. */
struct dt_oom_watch {
    struct dt_cgroup group;
    struct dt_oom_counts before;
};

/* To be called before the workers start. */
void dt_oom_begin(struct dt_oom_watch *w);

/* To be called as soon as a worker has failed. A kill that explains its end explains no other. */
struct dt_oom dt_oom_look(struct dt_oom_watch *w, int status, bool ours);

#endif
