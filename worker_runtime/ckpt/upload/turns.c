/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/upload/turns.h"

#include <assert.h>

/* What may follow what. */
static const bool may_follow[DT_UPLOAD_PHASES][DT_UPLOAD_PHASES] = {
    [DT_UPLOAD_NONE] = {[DT_UPLOAD_SENDING] = true},
    [DT_UPLOAD_SENDING] = {[DT_UPLOAD_SEALING] = true, [DT_UPLOAD_ENDING] = true},
    [DT_UPLOAD_SEALING] = {[DT_UPLOAD_NONE] = true, [DT_UPLOAD_ENDING] = true},
    [DT_UPLOAD_ENDING] = {[DT_UPLOAD_NONE] = true},
};

static enum dt_upload_act enter(struct dt_upload_turns *t, enum dt_upload_phase to,
                                enum dt_upload_act act)
{
    assert(may_follow[t->phase][to]);
    t->phase = to;
    return act;
}

static bool is_wanted(const struct dt_upload_turns *t, int64_t saved)
{
    return saved >= 0 && saved != t->tried;
}

static bool is_best_wanted(const struct dt_upload_turns *t, int64_t best)
{
    return best > 0 && best != t->uploaded && best != t->uploaded_best &&
           (best != t->tried_best || t->best_next);
}

/* -1: none is. */
static int64_t next(const struct dt_upload_turns *t, int64_t saved, int64_t best)
{
    bool newest = is_wanted(t, saved);
    if (is_best_wanted(t, best) && (t->best_next || !newest))
        return best;
    return newest ? saved : -1;
}

static enum dt_upload_act begin(struct dt_upload_turns *t, const struct dt_upload_facts *f,
                                int64_t step)
{
    t->step = step;
    if (step == f->saved)
        t->tried = step;
    if (step == f->best)
        t->tried_best = step;
    t->best_next = step != f->best;
    return enter(t, DT_UPLOAD_SENDING, DT_UPLOAD_SEND);
}

static enum dt_upload_act end_well(struct dt_upload_turns *t, const struct dt_upload_facts *f)
{
    if (t->step > t->uploaded)
        t->uploaded = t->step;
    if (t->step == t->tried_best || t->step == f->best)
        t->uploaded_best = t->step;
    return enter(t, DT_UPLOAD_NONE, DT_UPLOAD_TELL);
}

enum dt_upload_act dt_upload_turn(struct dt_upload_turns *t, const struct dt_upload_facts *f)
{
    if (f->best == t->uploaded && f->best > 0)
        t->uploaded_best = f->best; /* it may have become the best only then */
    int64_t step = next(t, f->saved, f->best);
    switch (t->phase) {
    case DT_UPLOAD_NONE:
        return step < 0 || f->committing ? DT_UPLOAD_GO_ON : begin(t, f, step);
    case DT_UPLOAD_SENDING:
    case DT_UPLOAD_SEALING:
        if (f->failed > 0)
            return enter(t, DT_UPLOAD_ENDING, DT_UPLOAD_GIVE_UP);
        if (f->busy > 0)
            return DT_UPLOAD_GO_ON;
        if (t->phase == DT_UPLOAD_SENDING)
            return enter(t, DT_UPLOAD_SEALING, DT_UPLOAD_SEAL);
        return end_well(t, f);
    case DT_UPLOAD_ENDING:
        return f->busy > 0 ? DT_UPLOAD_GO_ON : enter(t, DT_UPLOAD_NONE, DT_UPLOAD_GO_ON);
    case DT_UPLOAD_PHASES:
        break;
    }
    return DT_UPLOAD_GO_ON;
}

int64_t dt_upload_newest(const struct dt_upload_turns *t)
{
    bool later = t->uploaded >= 0 && t->step > t->uploaded;
    return later || t->step == t->tried ? t->step : t->uploaded;
}

int64_t dt_upload_owed(const struct dt_upload_turns *t, int64_t saved, int64_t best)
{
    return t->phase != DT_UPLOAD_NONE ? t->step : next(t, saved, best);
}

void dt_upload_newest_first(struct dt_upload_turns *t, int64_t saved)
{
    if (is_wanted(t, saved))
        t->best_next = false;
}
