/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/best.h"

#include "worker_runtime/ckpt_names.h"
#include "worker_runtime/train/inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

bool dt_best_take(struct dt_ckpt_best *b, int64_t step, double loss, double min_delta)
{
    if (b->validated == step)
        return false;
    bool first = b->step == 0;
    bool best = isfinite(loss) && (first || loss < b->loss);
    bool better = best && (first || b->loss - loss > min_delta);
    b->validated = step;
    b->worse = better ? 0 : b->worse + 1;
    if (best) {
        b->step = step;
        b->loss = loss;
    }
    return best;
}

bool dt_best_matters(const struct dt_config_train *c)
{
    return c->keep_best || c->patience > 0;
}

bool dt_best_ends(const struct dt_config_train *c, const struct dt_ckpt_best *b)
{
    return c->patience > 0 && b->worse >= c->patience;
}

/* -- where a run begins ----------------------------------------------------------------------- */

/* Whether B was found by validations that today's, which are of MARK, cannot be compared with. */
static bool is_of_other(const struct dt_ckpt_best *b, uint64_t mark)
{
    return b->validated > 0 && b->mark && mark && b->mark != mark;
}

/* The step at hand is the first that is compared. */
static void begin_anew(struct dt_trainer *t)
{
    struct dt_ckpt_best *b = &t->state.best;
    if (t->rank == 0 && b->step > 0)
        dt_buf_printf(&t->warnings,
                      "validations are of another data.validation, or measured in another way, "
                      "than those that found step %" PRId64 " the best (loss %.4f): the best is "
                      "sought anew, from step %" PRId64 " on\n",
                      b->step, b->loss, t->state.step);
    *b = (struct dt_ckpt_best){0};
    t->best_lost = true;
}

/* The checkpoint that `best` names, if it is of this history; else none. Where that is the step at
 * hand, as one in the vault may be, which was not judged when it was kept, that checkpoint knows
 * how it was judged: to judge it once more would find it no better than itself. */
static struct dt_ckpt_best find_named(const struct dt_trainer *t)
{
    const char *dir = t->config->train.save_dir;
    struct dt_ckpt_best b = t->state.best;
    int64_t step = dt_ckpt_best(dir);
    struct dt_ckpt_state s;
    char path[PATH_MAX];
    b.step = 0;
    b.validated = 0;
    if (step <= 0 || step > t->state.step ||
        dt_ckpt_peek(dt_ckpt_step_path(dir, step, path), &s, NULL) < 0 || s.best.step != step ||
        is_of_other(&s.best, t->state.best.mark))
        return b;
    s.best.mark = b.mark;
    if (step == t->state.step)
        return s.best;
    b.step = step;
    b.loss = s.best.loss;
    return b;
}

/* Rank 0 looks for all. */
static void look(struct dt_trainer *t)
{
    const char *dir = t->config->train.save_dir;
    struct dt_ckpt_best *b = &t->state.best;
    struct dt_err why = {0};
    int64_t lost = b->step;
    if (!dt_ckpt_is_there(dir, lost))
        *b = find_named(t);
    if (b->step != lost && b->validated != t->state.step)
        dt_buf_printf(&t->warnings,
                      "the checkpoint of step %" PRId64 ", the best so far, is not in %s; the step "
                      "at hand is validated once more\n",
                      lost, dir);
    if (b->step > 0 && dt_ckpt_point_best(dir, b->step, &why) < 0)
        dt_buf_printf(&t->warnings, "%s\n", why.text);
}

int dt_best_begin(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_ckpt_best *b = &t->state.best;
    uint64_t mark = dt_validate_mark(t);
    if (!dt_best_matters(&t->config->train))
        return 0;
    if (is_of_other(b, mark))
        begin_anew(t);
    b->mark = mark;
    int64_t was = b->step;
    if (!t->config->train.keep_best || was == 0)
        return 0;
    if (t->rank == 0)
        look(t);
    if (dt_coll_broadcast(t->world, b, sizeof *b, DT_U8, 0, err) < 0)
        return -1;
    t->best_lost = b->step != was && b->validated != t->state.step;
    t->best_saved = *b;
    return 0;
}

bool dt_best_owes_validation(const struct dt_trainer *t, bool due)
{
    bool judged = t->state.best.validated == t->state.step;
    return t->state.step > 0 && dt_best_matters(&t->config->train) &&
           (t->best_lost || (due && !judged));
}

/* -- beside the steps ------------------------------------------------------------------------- */

bool dt_best_judge(struct dt_trainer *t, double loss)
{
    const struct dt_config_train *c = &t->config->train;
    struct dt_ckpt_best *b = &t->state.best;
    struct dt_err why = {0};
    if (!dt_best_matters(c) || !dt_best_take(b, t->state.step, loss, c->min_delta))
        return false;
    if (!c->keep_best)
        return false;
    /* Its checkpoint may be there: a run that was told to end has saved before it validates. */
    if (t->saving.saved != t->state.step)
        return true;
    t->best_saved = *b;
    if (t->rank == 0 && dt_ckpt_point_best(c->save_dir, b->step, &why) < 0 && t->metrics)
        dt_metrics_warn(t->metrics, why.text);
    return true;
}

void dt_best_save(struct dt_trainer *t)
{
    const struct dt_ckpt_best *b = &t->state.best;
    bool is_best = b->step > 0 && b->step == t->saving.step && t->config->train.keep_best;
    t->best_saving = is_best ? *b : (struct dt_ckpt_best){0};
}

/* While a save went on a later step may have become the best, which is saved next. */
void dt_best_hear(struct dt_trainer *t)
{
    struct dt_ckpt_best *b = &t->state.best, saving = t->best_saving;
    if (t->saving.phase != DT_SAVING_NONE || saving.step == 0)
        return;
    t->best_saving.step = 0;
    if (t->saving.saved == saving.step) {
        t->best_saved = saving;
    } else if (b->step == saving.step) {
        b->step = t->best_saved.step;
        b->loss = t->best_saved.loss;
    }
}

const char *dt_best_say(const struct dt_trainer *t, char *out, size_t size)
{
    const struct dt_ckpt_best *b = &t->state.best;
    const struct dt_config_train *c = &t->config->train;
    char path[PATH_MAX];
    *out = '\0';
    if (!dt_best_matters(c) || b->step == 0)
        return out;
    int n = snprintf(out, size, "; the lowest validation loss was %.4f at step %" PRId64, b->loss,
                     b->step);
    if (!c->keep_best || n < 0 || (size_t)n >= size)
        return out;
    if (dt_ckpt_best(c->save_dir) == b->step)
        snprintf(path, sizeof path, "%s/best", c->save_dir);
    else /* a file system without links */
        dt_ckpt_step_path(c->save_dir, b->step, path);
    snprintf(out + n, size - (size_t)n, ", saved in %s", path);
    return out;
}
