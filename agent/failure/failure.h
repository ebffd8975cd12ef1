/* SPDX-License-Identifier: Apache-2.0 */
/* How workers failed: what each one left in its error file, which of them was the first, and the
 * report that people and scripts look for on standard error. Pure but for reading the files. */
#ifndef DT_AGENT_FAILURE_FAILURE_H
#define DT_AGENT_FAILURE_FAILURE_H

#include "agent/failure/cause.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DT_FAILURE_REMARK 512

struct dt_failure {
    int local_rank, rank;
    pid_t pid;
    int exit_code;    /* negative: the signal that ended it */
    int64_t died_ns;  /* monotonic, as soon as the kernel told: orders failures of one second */
    int64_t time;     /* seconds since 1970: of the error file, else when we saw it */
    bool has_file;    /* an error file was there and made sense */
    char *error_file; /* its path, or NULL: shown as <N/A>. Kept if it made no sense: go and look */
    char *message;    /* as the "traceback" line shows it, later lines indented: from the file, the
                       * signal, the last output, or a fixed hint; REMARK is its last line */
    char remark[DT_FAILURE_REMARK]; /* what kernel and disk tell of it; empty: nothing */
    struct dt_cause cause;          /* why, as far as it can be told */
};

/* Completes F (local_rank, rank, pid, exit_code, died_ns, remark are set): looks at ERROR_FILE
 * (NULL: there is none) and, when that tells nothing, at the LAST output of the worker's standard
 * error, where it takes a Python traceback, or the last lines. NOW: seconds since 1970, when it was
 * seen to have ended: error files hold whole seconds of the same clock and are compared with it.
 * -1: no memory.
 */
int dt_failure_complete(struct dt_failure *f, const char *error_file, struct dt_bytes last,
                        int64_t now, struct dt_err *err);
void dt_failure_finish(struct dt_failure *f);

/* The one that failed first, among those that did not fail because another one did: strength before
 * time. COUNT is not 0. */
size_t dt_failure_root(const struct dt_failure *failures, size_t count);

/* The block that starts at the line with "ChildFailedError:", whole lines. Failures are numbered as
 * they come; torchrun has them by local rank. HOST is the fully qualified name. */
void dt_failure_report(const struct dt_failure *failures, size_t count, const char *title,
                       const char *host, struct dt_buf *out);

/* Appends what an event's raw_error is made of: the error file, or {"message": what is known}. */
int dt_failure_json(const struct dt_failure *f, struct dt_buf *out, struct dt_err *err);

/* Leaves the root failure in PATH (our own TORCHELASTIC_ERROR_FILE) for who started us: its file
 * with "errorCode" added, replacing what is there. Nothing is done where it has no file. */
int dt_failure_propagate(const struct dt_failure *root, const char *path, struct dt_err *err);

/* Leaves in PATH, in the same form, what ended the agent itself; NOW: seconds since 1970. */
int dt_failure_leave_own(const char *message, int64_t now, const char *path, struct dt_err *err);

#endif
