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

enum dt_upload_act dt_upload_turn(struct dt_upload_turns *t, const struct dt_upload_facts *f)
{
    switch (t->phase) {
    case DT_UPLOAD_NONE:
        if (!is_wanted(t, f->saved) || f->committing)
            return DT_UPLOAD_GO_ON;
        t->step = t->tried = f->saved;
        return enter(t, DT_UPLOAD_SENDING, DT_UPLOAD_SEND);
    case DT_UPLOAD_SENDING:
    case DT_UPLOAD_SEALING:
        if (f->failed > 0)
            return enter(t, DT_UPLOAD_ENDING, DT_UPLOAD_GIVE_UP);
        if (f->busy > 0)
            return DT_UPLOAD_GO_ON;
        if (t->phase == DT_UPLOAD_SENDING)
            return enter(t, DT_UPLOAD_SEALING, DT_UPLOAD_SEAL);
        t->uploaded = t->step;
        return enter(t, DT_UPLOAD_NONE, DT_UPLOAD_TELL);
    case DT_UPLOAD_ENDING:
        return f->busy > 0 ? DT_UPLOAD_GO_ON : enter(t, DT_UPLOAD_NONE, DT_UPLOAD_GO_ON);
    case DT_UPLOAD_PHASES:
        break;
    }
    return DT_UPLOAD_GO_ON;
}

bool dt_upload_is_owed(const struct dt_upload_turns *t, int64_t saved)
{
    return t->phase != DT_UPLOAD_NONE || is_wanted(t, saved);
}
