/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl run: save, pause, resume, restart, stop. */
#include "ctl/commands.h"
#include "ctl/wish.h"

static enum dt_message_type type_of(enum dt_ctl_command c)
{
    return c == DT_CTL_RUN_SAVE      ? DT_MSG_SAVE
           : c == DT_CTL_RUN_RESTART ? DT_MSG_RESTART_RUN
           : c == DT_CTL_RUN_STOP    ? DT_MSG_STOP_RUN
                                     : DT_MSG_PAUSE;
}

int dt_ctl_run_wish(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                    struct dt_err *err)
{
    struct dt_message answer, request = {.type = type_of(o->command),
                                         .run = o->name,
                                         .wish.undo = o->command == DT_CTL_RUN_RESUME,
                                         .why = o->why};
    if (dt_ctl_wish(o, c, &request, &answer, err) < 0)
        return -1;
    int rc = dt_ctl_put_answer(o, "run", answer.wish.done, answer.why, out, err);
    dt_message_finish(&answer);
    return rc;
}
