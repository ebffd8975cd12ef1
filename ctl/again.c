/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/again.h"

#include "base/backoff.h"
#include "base/say.h"
#include "ctl/connect.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define RETRY_MOST (5 * DT_SECOND)

int dt_ctl_print(struct dt_buf *out, struct dt_err *err)
{
    bool whole = out->len == 0 || fwrite(out->at, 1, out->len, stdout) == out->len;
    if (out->bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for what is to be printed");
    dt_buf_clear(out);
    if (whole && fflush(stdout) == 0)
        return 0;
    return dt_err_errno(err, DT_E_CANCELED, errno, "standard output");
}

/* Whether the next connection may do better. */
static bool may_pass(const struct dt_err *err)
{
    return err->code == DT_E_DISCONNECTED || err->code == DT_E_TIMEOUT;
}

static void pause_for(dt_ms time)
{
    struct timespec t = {.tv_sec = (time_t)(time / DT_SECOND),
                         .tv_nsec = (long)(time % DT_SECOND) * 1000000};
    nanosleep(&t, NULL);
}

int dt_ctl_again(const struct dt_ctl_options *o, const struct dt_token *token, dt_ctl_talk_fn *talk,
                 void *arg, struct dt_err *err)
{
    struct dt_backoff backoff = {.first = DT_SECOND / 5, .most = RETRY_MOST};
    bool connected = false, said = false;
    int rc;
    do {
        rc = -1;
        struct dt_sync_control *c = dt_ctl_connect(o, token, o->timeout + DT_CTL_SILENCE, err);
        if (c) {
            if (said)
                dt_say("dtrun-ctl", "the rendezvous is back");
            said = false;
            dt_backoff_reset(&backoff);
            rc = talk(arg, c, connected, err);
            connected = true;
            dt_sync_control_close(c);
        }
        if (rc < 0 && connected && may_pass(err) && !said) {
            dt_say("dtrun-ctl", err->text);
            said = true;
        }
        if (rc < 0 && connected && may_pass(err))
            pause_for(dt_backoff_next(&backoff));
    } while (rc < 0 && connected && may_pass(err));
    return rc;
}
