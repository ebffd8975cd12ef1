/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/saving.h"

#include <dtrun/coll.h>
#include <inttypes.h>

int dt_saving_begin(struct dt_saving *s, struct dt_zero *z, const struct dt_ckpt_state *state,
                    struct dt_err *err)
{
    if (dt_ckpt_begin(s->ckpt, z, state, err) < 0)
        return -1;
    s->phase = DT_SAVING_WRITING;
    s->told_waiting = false;
    s->step = state->step;
    return 0;
}

void dt_saving_tell(struct dt_saving *s, struct dt_saving_news *mine)
{
    int rc = 1; /* 0: not yet; -1: never */
    if (s->phase == DT_SAVING_WRITING)
        rc = dt_ckpt_done(s->ckpt, &s->why);
    else if (s->phase == DT_SAVING_NAMING && !s->failed)
        rc = dt_ckpt_committed(s->ckpt, &s->why); /* of other ranks than 0: yes */
    mine->busy = rc == 0;
    mine->failed = rc < 0 || s->failed;
    mine->waiting = rc == 0 && s->phase == DT_SAVING_NAMING && dt_ckpt_waits(s->ckpt);
    s->failed = false;
}

/* A full disk is full for all: one of their reasons is enough, that of the lowest rank. */
static int give_up(struct dt_saving *s, bool mine, struct dt_coll *g, struct dt_buf *said,
                   struct dt_err *err)
{
    int32_t first = mine ? dt_coll_rank(g) : dt_coll_size(g);
    if (s->phase == DT_SAVING_WRITING)
        dt_ckpt_commit_start(s->ckpt, false, NULL);
    s->phase = DT_SAVING_NONE;
    if (dt_coll_all_reduce(g, &first, 1, DT_I32, DT_MIN, err) < 0 ||
        dt_coll_broadcast(g, s->why.text, sizeof s->why.text, DT_U8, first, err) < 0)
        return -1;
    dt_buf_printf(said, "step %" PRId64 " is not saved: rank %d: %s; training goes on\n", s->step,
                  first, s->why.text);
    return 0;
}

static void say_waiting(struct dt_saving *s, struct dt_buf *said)
{
    if (!s->told_waiting)
        dt_buf_printf(said,
                      "step %" PRId64 " is written and waits, as dtrun does not hear of the "
                      "rendezvous: it becomes the newest checkpoint when that is back, or at the "
                      "next save; training goes on\n",
                      s->step);
    s->told_waiting = true;
}

int dt_saving_hear(struct dt_saving *s, const struct dt_saving_news *mine,
                   const struct dt_saving_news *sum, struct dt_coll *g, struct dt_buf *said,
                   struct dt_err *err)
{
    if (s->phase == DT_SAVING_NONE)
        return 0;
    if (sum->failed > 0)
        return give_up(s, mine->failed > 0, g, said, err);
    if (sum->waiting > 0)
        say_waiting(s, said);
    if (sum->busy > 0)
        return 0;
    if (s->phase == DT_SAVING_WRITING) {
        s->phase = DT_SAVING_NAMING;
        s->failed = dt_ckpt_commit_start(s->ckpt, true, &s->why) < 0;
    } else {
        s->phase = DT_SAVING_NONE;
        s->saved = s->step;
    }
    return 0;
}

int dt_saving_poll(struct dt_saving *s, struct dt_coll *g, struct dt_buf *said, struct dt_err *err)
{
    struct dt_saving_news mine, sum;
    if (s->phase == DT_SAVING_NONE)
        return 0;
    dt_saving_tell(s, &mine);
    sum = mine;
    if (dt_coll_all_reduce(g, &sum, sizeof sum / sizeof(double), DT_F64, DT_SUM, err) < 0)
        return -1;
    return dt_saving_hear(s, &mine, &sum, g, said, err);
}

int dt_saving_finish(struct dt_saving *s, struct dt_coll *g, struct dt_buf *said,
                     struct dt_err *err)
{
    while (s->phase != DT_SAVING_NONE) {
        dt_ckpt_hurry(s->ckpt);
        dt_ckpt_wait(s->ckpt);
        if (dt_saving_poll(s, g, said, err) < 0)
            return -1;
    }
    return 0;
}
