/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun-ctl does, but for a report over a connection that is greeted. Each appends what it
 * found to OUT; -1 and *err where that is not what was asked for, and OUT may hold something
 * nevertheless. */
#ifndef DT_CTL_COMMANDS_H
#define DT_CTL_COMMANDS_H

#include "ctl/options.h"
#include "ctl/pages.h"
#include "rendezvous/protocol/sync_control.h"

int dt_ctl_status(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                  struct dt_err *err);
int dt_ctl_look(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                struct dt_err *err);
/* Over connections of its own, and printed at once: what workers of a run have printed, and
 * (--follow) what they print next. */
int dt_ctl_logs(const struct dt_ctl_options *o, const struct dt_token *token, struct dt_err *err);
int dt_ctl_history(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                   struct dt_err *err);
/* Those that there are ... */
int dt_ctl_alert_test(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                      struct dt_err *err);
int dt_ctl_events(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                  struct dt_err *err);
/* ... or (--follow) also what happens next, printed at once, over connections of its own: until
 * the process is interrupted, or for a reason that stays. */
int dt_ctl_events_follow(const struct dt_ctl_options *o, const struct dt_token *token,
                         struct dt_err *err);
int dt_ctl_node_list(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                     struct dt_err *err);
int dt_ctl_node_drain(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                      struct dt_err *err); /* and undrain */

int dt_ctl_run_list(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                    struct dt_err *err);
int dt_ctl_run_wish(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                    struct dt_err *err); /* save, pause, resume, restart, stop */
/* Over connections of its own. -1: the run did not end well, or (DT_E_TIMEOUT) has not ended in
 * time, or it is not known. */
int dt_ctl_run_wait(const struct dt_ctl_options *o, const struct dt_token *token,
                    struct dt_buf *out, struct dt_err *err);
#define DT_CTL_TIMED_OUT 124 /* the exit status then, which is that of timeout(1) */

/* The exit status. What is wrong is a remark in OUT, and also that nobody can be asked. */
int dt_ctl_doctor(const struct dt_ctl_options *o, const struct dt_token *token, struct dt_buf *out);

/* Of files; to the file that is asked for, else to OUT. */
int dt_ctl_report(const struct dt_ctl_options *o, struct dt_buf *out, struct dt_err *err);

/* Says that the rendezvous knows no run of that name: -1. */
int dt_ctl_no_run(const struct dt_ctl_options *o, struct dt_err *err);

/* Tells what the rendezvous answered to a wish about WHAT, "node" or "run": with --json always,
 * else where it is DONE. -1: it is not. */
int dt_ctl_put_answer(const struct dt_ctl_options *o, const char *what, bool done, const char *why,
                      struct dt_buf *out, struct dt_err *err);

/* A line with NAME alone, for programs: what a terminal might obey is shown as \xNN. */
void dt_ctl_put_name(const char *name, struct dt_buf *out);
/* The word for people: how it ended says more than that it did. */
const char *dt_ctl_run_state(const struct dt_status_run *r);
/* Lines about a run, for a terminal: how it is, why, since when, and whose it is. */
void dt_ctl_put_run(const struct dt_status_run *r, struct dt_buf *out);

/* What status and node list both show: who is kept out, or watched. Nothing where nobody is. */
void dt_ctl_put_excluded(const struct dt_ctl_pages *p, struct dt_buf *out);

#endif
