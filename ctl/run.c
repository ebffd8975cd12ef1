/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl run: save, pause, resume. */
#include "ctl/commands.h"
#include "ctl/wish.h"

int dt_ctl_run_pause(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                     struct dt_err *err)
{
    struct dt_message answer, request = {.type = DT_MSG_PAUSE,
                                         .run = o->name,
                                         .wish.undo = o->command == DT_CTL_RUN_RESUME,
                                         .why = o->why};
    if (dt_ctl_wish(o, c, &request, &answer, err) < 0)
        return -1;
    int rc = dt_ctl_put_answer(o, "run", answer.wish.done, answer.why, out, err);
    dt_message_finish(&answer);
    return rc;
}

int dt_ctl_run_save(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                    struct dt_err *err)
{
    struct dt_message answer, request = {.type = DT_MSG_SAVE, .run = o->name};
    if (dt_ctl_wish(o, c, &request, &answer, err) < 0)
        return -1;
    int rc = dt_ctl_put_answer(o, "run", answer.wish.done, answer.why, out, err);
    dt_message_finish(&answer);
    return rc;
}
