/* SPDX-License-Identifier: Apache-2.0 */
/* Coming back on a machine that has not what the run saved last: from the place of uploads. */
#include "base/say.h"
#include "worker_runtime/ckpt/upload/fetch.h"
#include "worker_runtime/ckpt_names.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/train/inside.h"

#include <dtrun/coll.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define LOOK_EVERY_NS 20000000
#define ASK_EVERY_NS 1000000
#define PATIENCE (5 * DT_SECOND)

/* What rank 0 knows, and tells all. */
struct knowledge {
    int64_t disk;   /* the step that was found in save_dir; -1: none */
    int64_t depot;  /* the newest whole one there that was not tried in vain; -1: none */
    int64_t best;   /* the best one, which is there and not on the disk; 0: there is none */
    int32_t silent; /* the depot does not answer, and WHY says so */
    char why[512];
};

static int64_t step_of(const struct dt_found *f)
{
    struct dt_ckpt_state s;
    return f->path[0] && dt_ckpt_peek(f->path, &s, NULL) == 0 ? s.step : -1;
}

/* -- asking ----------------------------------------------------------------------------------- */

struct question {
    struct dt_depot *depot;
    int64_t after; /* the one that was tried last; -1: none was */
    int64_t newest;
    int64_t wanted; /* 0: none is */
    bool has_wanted;
};

static int look_up(void *question, struct dt_err *err)
{
    struct question *q = question;
    struct dt_shelf shelf;
    if (dt_shelf_look(q->depot, NULL, &shelf, err) < 0)
        return -1;
    q->newest = dt_shelf_next(&shelf, q->after);
    for (size_t i = 0; i < shelf.count; i++)
        q->has_wanted |= shelf.at[i].step == q->wanted && shelf.at[i].whole;
    dt_shelf_finish(&shelf);
    return 0;
}

/* A run that can go on from its disk does not wait for a store that is away. */
static void ask(struct dt_trainer *t, int64_t after, struct knowledge *k)
{
    const struct timespec nap = {.tv_nsec = ASK_EVERY_NS};
    struct question q = {
        .depot = t->uploader->depot, .after = after, .newest = -1, .wanted = k->best};
    struct dt_errand *e = &t->uploader->errand;
    struct dt_err why = {0};
    dt_ms until = dt_clock_after(dt_clock_monotonic(), k->disk >= 0 ? PATIENCE : DT_FOREVER);
    int rc = dt_errand_begin(e, look_up, &q, &why);
    while (rc == 0 && (rc = dt_errand_ask(e, &why)) == 0) {
        if (dt_clock_monotonic() > until)
            dt_errand_stop(e);
        nanosleep(&nap, NULL);
    }
    k->depot = q.newest;
    k->best = rc > 0 && q.has_wanted ? k->best : 0;
    k->silent = rc < 0;
    if (k->silent && why.code == DT_E_CANCELED)
        snprintf(k->why, sizeof k->why, "%s has not answered in time", dt_depot_name(q.depot));
    else if (k->silent)
        snprintf(k->why, sizeof k->why, "%s", why.text);
}

/* -- fetching --------------------------------------------------------------------------------- */

/* WHY is the depot's, and tells nothing about the group of ranks, whatever its code is. */
static int agree(struct dt_trainer *t, int rc, struct dt_err *why)
{
    if (rc < 0)
        why->code = DT_E_RUNTIME;
    return dt_agree(t->world, rc, why);
}

/* Until the errands of all ranks are over. They meet again and again meanwhile: a fetch may take
 * longer than a collective may. */
static int await(struct dt_trainer *t, struct dt_err *why)
{
    const struct timespec nap = {.tv_nsec = LOOK_EVERY_NS};
    struct dt_errand *e = &t->uploader->errand;
    double busy = 1;
    int rc = 0;
    while (busy > 0) {
        nanosleep(&nap, NULL);
        int answer = dt_errand_ask(e, why);
        rc = answer < 0 ? -1 : rc;
        busy = answer == 0;
        if (dt_coll_all_reduce(t->world, &busy, 1, DT_F64, DT_SUM, why) < 0)
            return -1;
    }
    return agree(t, rc, why);
}

static int carry_out(struct dt_trainer *t, struct dt_fetch *f,
                     int (*work)(void *fetch, struct dt_err *err), bool mine, struct dt_err *why)
{
    int rc = mine ? dt_errand_begin(&t->uploader->errand, work, f, why) : 0;
    return agree(t, rc, why) < 0 ? -1 : await(t, why);
}

static int fetch(struct dt_trainer *t, int64_t step, struct dt_err *why)
{
    struct dt_fetch f = {.depot = t->uploader->depot,
                         .dir = t->config->train.save_dir,
                         .step = step,
                         .ranks = t->uploader->ranks};
    bool first = t->rank == 0;
    char text[DT_URL_TEXT + 64];
    snprintf(text, sizeof text, "fetching step %" PRId64 " from %s", step, dt_depot_name(f.depot));
    if (first)
        dt_say(DT_TRAIN_PROGRAM, text);
    if (agree(t, first ? dt_fetch_prepare(&f, why) : 0, why) == 0 &&
        carry_out(t, &f, dt_fetch_share, true, why) == 0 &&
        carry_out(t, &f, dt_fetch_settle, first, why) == 0)
        return 0;
    if (first)
        dt_fetch_give_up(&f);
    return -1;
}

/* -- the decision ----------------------------------------------------------------------------- */

/* A run that has nothing on its disk and hears nothing must not begin anew over what it cannot see.
 */
static void go_on_without(struct dt_trainer *t, const struct knowledge *k, struct dt_found *f)
{
    if (k->disk >= 0) {
        dt_buf_printf(&t->warnings,
                      "train.upload_to: %s; whether a newer checkpoint is there is not known, and "
                      "the run goes on from step %" PRId64 " of the disk\n",
                      k->why, k->disk);
        return;
    }
    f->failed = true;
    snprintf(f->why, sizeof f->why,
             "train.upload_to: %.300s; so a checkpoint to go on from may be lost to this run; "
             "--resume none begins anew",
             k->why);
}

static void take(struct dt_trainer *t, int64_t step, struct dt_found *f)
{
    f->failed = false;
    snprintf(f->path, sizeof f->path, "%.*s/step-%08" PRId64, (int)sizeof f->path - 64,
             t->config->train.save_dir, step);
}

/* Fetches what K says; when that cannot be, K is about the one before. 0: the run knows what to go
 * on from. */
static int try(struct dt_trainer *t, struct knowledge *k, struct dt_found *f)
{
    struct dt_err why = {0};
    int64_t step = k->depot;
    if (fetch(t, step, &why) == 0) {
        take(t, step, f);
        k->disk = step;
        return 0;
    }
    if (t->rank == 0) {
        dt_buf_printf(&t->warnings, "step %" PRId64 " is not fetched: %s\n", step, why.text);
        ask(t, step, k);
        if (k->depot < 0 && !k->silent) {
            k->silent = true; /* nothing there is whole */
            snprintf(k->why, sizeof k->why, "%s", why.text);
        }
    }
    return -1;
}

/* The best step that STEP, which is on the disk, tells of; 0: it is there as well, or none is. */
static int64_t find_best(const struct dt_trainer *t, int64_t step)
{
    const char *dir = t->config->train.save_dir;
    struct dt_ckpt_state s;
    char path[PATH_MAX];
    if (!t->config->train.keep_best || step < 0 ||
        dt_ckpt_peek(dt_ckpt_step_path(dir, step, path), &s, NULL) < 0 || s.best.step == 0)
        return 0;
    return dt_ckpt_is_there(dir, s.best.step) ? 0 : s.best.step;
}

/* Without it the run would take another one for the best, and remove this one from the place of
 * uploads. */
static int fetch_best(struct dt_trainer *t, int64_t step, struct dt_err *err)
{
    struct knowledge k = {.disk = step};
    struct dt_err why = {0};
    if (t->rank == 0)
        k.best = find_best(t, step);
    if (k.best)
        ask(t, -1, &k);
    if (dt_coll_broadcast(t->world, &k.best, sizeof k.best, DT_U8, 0, err) < 0)
        return -1;
    if (k.best && fetch(t, k.best, &why) < 0 && t->rank == 0)
        dt_buf_printf(&t->warnings, "step %" PRId64 ", the best so far, is not fetched: %s\n",
                      k.best, why.text);
    return 0;
}

int dt_uploader_restore(struct dt_trainer *t, struct dt_found *f, struct dt_err *err)
{
    struct knowledge k = {.disk = -1, .depot = -1};
    if (!t->uploader || !dt_depot_transfer(t->uploader->depot))
        return 0;
    if (t->rank == 0) {
        k.disk = f->failed ? -1 : step_of(f);
        /* A later world of a job finds on its disk what the one before has saved: it comes back
         * at once. */
        if (k.disk < 0 || dt_context_epoch(t->context) == 0)
            ask(t, -1, &k);
    }
    do {
        if (dt_coll_broadcast(t->world, &k, sizeof k, DT_U8, 0, err) < 0)
            return -1;
    } while (!k.silent && k.depot > k.disk && try(t, &k, f) < 0);
    if (k.silent && t->rank == 0)
        go_on_without(t, &k, f);
    if (k.depot >= 0 && k.depot == k.disk)
        t->uploader->turns.uploaded = t->uploader->turns.tried = k.depot;
    return k.silent ? 0 : fetch_best(t, k.disk, err);
}

int dt_uploader_refuse_others(struct dt_trainer *t, struct dt_err *err)
{
    struct knowledge k = {.disk = 0}; /* as if: nobody waits long for this */
    if (!t->uploader || !dt_depot_transfer(t->uploader->depot))
        return 0;
    t->uploader->anew = true;
    if (t->rank != 0)
        return 0;
    ask(t, -1, &k); /* -1 if it does not answer: dt_send_share() asks again */
    if (dt_shelf_refuse_others(t->uploader->depot, k.depot, 0, err) < 0)
        return dt_err_wrap(err, "train.upload_to");
    return 0;
}
