/* SPDX-License-Identifier: Apache-2.0 */
/* The folders of runs in a --log-dir that dtrun is to keep in order: which of them is the latest,
 * and which are too old, too many or too large and go.
 *
 * Each agent marks the folder of its run with a file that names this host, and locks that file as
 * long as it lives. Nothing goes but folders with a mark of this host's that nobody has locked. The
 * lock is the agent's and its guards', so that it ends with the last of them. */
#ifndef DT_AGENT_LOG_RUNS_H
#define DT_AGENT_LOG_RUNS_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_LOG_LATEST "latest"
#define DT_LOG_MARK ".dtrun-run"

/* 0: no limit. */
struct dt_log_limits {
    int runs;
    int days;
    uint64_t size; /* bytes of all runs together */
};

static inline bool dt_log_limits_any(const struct dt_log_limits *l)
{
    return l->runs || l->days || l->size;
}

struct dt_log_run {
    char name[NAME_MAX + 1];
    int64_t ended; /* seconds since 1970 of its mark, which an agent touches when it ends */
    uint64_t size;
    bool alive;
    bool goes;
};

/* Sorts them, the latest first, and says which go. The runs that are alive never do, and count. */
void dt_log_runs_choose(struct dt_log_run *runs, size_t count, const struct dt_log_limits *limits,
                        int64_t now);

/* Marks the folder RUN; the descriptor holds the lock. -1 and *err. */
int dt_log_runs_mark(const char *run, struct dt_err *err);

/* The run has ended: notes when, unlocks and closes MARK. */
void dt_log_runs_unmark(int mark);

/* Makes BASE/latest a link to the folder RUN in it, in one step; anything there that is no link is
 * left alone. */
int dt_log_runs_link(const char *base, const char *run, struct dt_err *err);

/* Takes that link away again if it leads to RUN. */
void dt_log_runs_unlink(const char *base, const char *run);

/* Removes what goes by LIMITS. Takes its time, on a large folder. */
void dt_log_runs_tidy(const char *base, const struct dt_log_limits *limits, int64_t now);

/* The same in a thread that nobody waits for: what it has not done when this process ends, the next
 * run does. */
void dt_log_runs_tidy_aside(const char *base, const struct dt_log_limits *limits);

#endif
