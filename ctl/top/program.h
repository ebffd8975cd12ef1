/* SPDX-License-Identifier: Apache-2.0 */
/* Another command of dtrun-ctl that has the terminal for a while. */
#ifndef DT_CTL_TOP_PROGRAM_H
#define DT_CTL_TOP_PROGRAM_H

#include "base/err.h"
#include "ctl/options.h"

#define DT_TOP_ARGS_MAX 20

struct dt_top_program {
    const char *argv[DT_TOP_ARGS_MAX]; /* NULL-ended; strings of the options, and ... */
    char timeout[32], ranks[32];
};

/* dtrun-ctl logs --follow, where O says, of these ranks of the run; RANKS NULL: of all. O and RUN
 * outlive P. Pure. */
void dt_top_program_logs(struct dt_top_program *p, const struct dt_ctl_options *o, const char *run,
                         const struct dt_rank_range *ranks);

/* Runs it and waits for its end: Ctrl-C ends that program alone, Ctrl-Z stops both. The terminal
 * must have been left. *STATUS as of waitpid(). Returns the signal that this process got and passed
 * on to the program, which is to end this one now; 0: none. -1 and *err: it could not be started.
 */
int dt_top_program_run(const struct dt_top_program *p, int *status, struct dt_err *err);

#endif
