/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl: read the options, ask or read files, print. */
#include "base/say.h"
#include "ctl/commands.h"
#include "ctl/connect.h"
#include "ctl/top/top.h"

#include <stdio.h>

#define TEST_TAKES (80 * DT_SECOND)   /* one that hangs has half a minute, as has what it is at */
#define NATIVE_TAKES (15 * DT_SECOND) /* at most, and usually less than a second */

typedef int command_fn(const struct dt_ctl_options *o, struct dt_sync_control *c,
                       struct dt_buf *out, struct dt_err *err);

/* Those that ask a rendezvous. */
static command_fn *const commands[DT_CTL_COMMANDS] = {
    [DT_CTL_STATUS] = dt_ctl_status,         [DT_CTL_LOOK] = dt_ctl_look,
    [DT_CTL_HISTORY] = dt_ctl_history,       [DT_CTL_NODE_LIST] = dt_ctl_node_list,
    [DT_CTL_RUN_LIST] = dt_ctl_run_list,     [DT_CTL_RUN_SAVE] = dt_ctl_run_wish,
    [DT_CTL_RUN_PAUSE] = dt_ctl_run_wish,    [DT_CTL_RUN_RESUME] = dt_ctl_run_wish,
    [DT_CTL_RUN_RESTART] = dt_ctl_run_wish,  [DT_CTL_RUN_STOP] = dt_ctl_run_wish,
    [DT_CTL_NODE_DRAIN] = dt_ctl_node_drain, [DT_CTL_NODE_UNDRAIN] = dt_ctl_node_drain,
    [DT_CTL_EVENTS] = dt_ctl_events,         [DT_CTL_ALERT_TEST] = dt_ctl_alert_test,
};

/* *STATUS stays 0 unless a doctor found something. */
static int ask(const struct dt_ctl_options *o, const struct dt_token *token, struct dt_buf *out,
               int *status, struct dt_err *err)
{
    dt_ms patience = o->timeout + (o->native ? NATIVE_TAKES : 0) +
                     (o->command == DT_CTL_ALERT_TEST ? TEST_TAKES : 0);
    if (o->command == DT_CTL_TOP)
        return dt_ctl_top(o, token, out, err);
    if (o->command == DT_CTL_LOGS)
        return dt_ctl_logs(o, token, err);
    if (o->follow)
        return dt_ctl_events_follow(o, token, err);
    if (o->command == DT_CTL_RUN_WAIT)
        return dt_ctl_run_wait(o, token, out, err);
    if (o->command == DT_CTL_DOCTOR) {
        *status = dt_ctl_doctor(o, token, out);
        return 0;
    }
    struct dt_sync_control *c = dt_ctl_connect(o, token, patience, err);
    int rc = c ? commands[o->command](o, c, out, err) : -1;
    dt_sync_control_close(c);
    return rc;
}

static int ask_with_token(const struct dt_ctl_options *o, struct dt_buf *out, int *status,
                          struct dt_err *err)
{
    struct dt_token token;
    if (!o->token_file)
        return ask(o, NULL, out, status, err);
    int rc = dt_proof_read_token(o->token_file, &token, err);
    if (rc == 0)
        rc = ask(o, &token, out, status, err);
    dt_token_finish(&token);
    return rc;
}

static int carry_out(const struct dt_ctl_options *o, struct dt_buf *out, int *status,
                     struct dt_err *err)
{
    int rc = o->command == DT_CTL_REPORT ? dt_ctl_report(o, out, err)
                                         : ask_with_token(o, out, status, err);
    if (rc == 0 && out->bad)
        rc = dt_err_set(err, DT_E_MEMORY, "no memory for what is to be printed");
    return rc;
}

/* The exit status of having printed OUT: a full disk is no success. */
static int print(const struct dt_buf *out)
{
    bool whole = out->len == 0 || fwrite(out->at, 1, out->len, stdout) == out->len;
    if (whole && fflush(stdout) == 0)
        return 0;
    perror("dtrun-ctl: standard output");
    return 1;
}

/* The exit status of having failed. */
static int say(const struct dt_ctl_options *o, const struct dt_err *err)
{
    bool waited = o->command == DT_CTL_RUN_WAIT && err->code == DT_E_TIMEOUT;
    dt_say("dtrun-ctl", err->text);
    return waited ? DT_CTL_TIMED_OUT : dt_err_exit_status(err);
}

int main(int argc, char **argv)
{
    struct dt_ctl_options options;
    struct dt_opt_result result;
    struct dt_buf out = {0};
    struct dt_err err;
    int status = 0;
    if (dt_ctl_options_read(&options, argc, argv, &result, &err) < 0)
        status = say(&options, &err);
    else if (result.help)
        dt_opt_help(&dt_ctl_program, stdout);
    else if (result.version)
        puts("dtrun-ctl " DT_VERSION);
    else if (carry_out(&options, &out, &status, &err) < 0)
        status = say(&options, &err);
    int failed = print(&out);
    dt_buf_finish(&out);
    dt_ctl_options_finish(&options);
    return status ? status : failed;
}
