/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun-ctl is asked to do: words that say what, and options, before, between or behind them.
 */
#ifndef DT_CTL_OPTIONS_H
#define DT_CTL_OPTIONS_H

#include "base/clock.h"
#include "base/err.h"
#include "base/opt/opt.h"
#include "ctl/since.h"
#include "rendezvous/protocol/stance.h"

#include <stdbool.h>

enum dt_ctl_command {
    DT_CTL_STATUS,
    DT_CTL_TOP,
    DT_CTL_LOOK,
    DT_CTL_LOGS,
    DT_CTL_HISTORY,
    DT_CTL_EVENTS,
    DT_CTL_ALERT_TEST,
    DT_CTL_RUN_LIST,
    DT_CTL_RUN_WAIT,
    DT_CTL_RUN_SAVE,
    DT_CTL_RUN_PAUSE,
    DT_CTL_RUN_RESUME,
    DT_CTL_RUN_RESTART,
    DT_CTL_RUN_STOP,
    DT_CTL_NODE_LIST,
    DT_CTL_NODE_DRAIN,
    DT_CTL_NODE_UNDRAIN,
    DT_CTL_DOCTOR,
    DT_CTL_REPORT,
    DT_CTL_COMMANDS,
};

#define DT_CTL_RENDEZVOUS_ENV "DTRUN_RENDEZVOUS" /* what --endpoint is where nobody gives one */

#define DT_CTL_RANKS_MAX 64 /* ranks, or ranges of them, that one command may name */
#define DT_CTL_FOLDERS_MAX 64
#define DT_CTL_LINES 10 /* of each worker, where the person does not say */

/* LOGS: how many. */
struct dt_ctl_lines {
    bool given;
    int count; /* DT_TAIL_ALL: all */
};

struct dt_ctl_options {
    char *endpoint, *token_file, *run_token_file, *operator_token_file, *why;
    char *output, *metrics, *checkpoints; /* REPORT; NULL: standard output, as the run says */
    dt_ms timeout;                        /* of a connection, and of each answer */
    dt_ms wait;     /* RUN_WAIT: for the end of the run; DT_FOREVER: as long as it takes */
    dt_ms interval; /* TOP; 0: its own */
    bool endpoint_from_env;
    bool json, quiet, quarantined, all, native, follow, once;
    struct dt_ctl_since since;
    struct dt_ctl_lines lines; /* LOGS */
    char *node, *prefix;       /* LOGS: of this node alone; "auto", "never" */
    enum dt_ctl_command command;
    const char *name; /* of a run, node or folder, from argv; "" where none is given */
    const char *folders[DT_CTL_FOLDERS_MAX]; /* REPORT: of the same run on other nodes; from argv */
    size_t folders_len;
    struct dt_rank_range ranks[DT_CTL_RANKS_MAX]; /* LOOK and LOGS: those alone ... */
    size_t ranks_len;                             /* ... or, with 0, all */
};

/* Also read by the generator of man page and completions. */
extern const struct dt_opt_program dt_ctl_program;

/* RESULT says whether --help or --version was asked for; there is no command then. End with
 * dt_ctl_options_finish() also after a failure. */
int dt_ctl_options_read(struct dt_ctl_options *o, int argc, char *const *argv,
                        struct dt_opt_result *result, struct dt_err *err);
void dt_ctl_options_finish(struct dt_ctl_options *o);

#endif
