/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/uploader.h"

#include "base/str.h"
#include "worker_runtime/train/inside.h"

#include <dtrun/coll.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* A launcher that was told to end gives workers 30 s, and they have saved before. */
#define PATIENCE_WHEN_TOLD (10 * DT_SECOND)
#define LOOK_EVERY_NS 20000000

/* -- one -------------------------------------------------------------------------------------- */

int dt_uploader_open(struct dt_trainer *t, int hosts, struct dt_err *err)
{
    const struct dt_config_train *c = &t->config->train;
    if (!c->upload_to && !c->upload_cmd)
        return 0;
    struct dt_uploader *u = calloc(1, sizeof *u);
    if (!u)
        return dt_err_set(err, DT_E_MEMORY, "no memory for uploads");
    t->uploader = u;
    u->turns.uploaded = u->turns.tried = -1;
    u->ranks = (struct dt_share_ranks){t->rank, t->ranks, hosts};
    struct dt_depot_options o = {.url = c->upload_to,
                                 .command = c->upload_cmd,
                                 .bandwidth = (uint64_t)c->upload_bandwidth / (uint64_t)t->ranks,
                                 .stop = &u->errand.stop};
    if (c->upload_bandwidth && !o.bandwidth)
        o.bandwidth = 1;
    u->depot = dt_depot_open(&o, err);
    if (u->depot)
        return 0;
    err->code = DT_E_RUNTIME; /* whatever did not answer: it tells nothing about the ranks */
    return dt_err_wrap(err, "train.upload_to");
}

void dt_uploader_close(struct dt_uploader *u)
{
    if (!u)
        return;
    dt_errand_finish(&u->errand);
    dt_depot_close(u->depot);
    dt_buf_finish(&u->send.warnings);
    free(u);
}

/* -- beside the steps ------------------------------------------------------------------------- */

void dt_uploader_tell(struct dt_trainer *t, struct dt_uploading_news *mine)
{
    struct dt_uploader *u = t->uploader;
    if (!u)
        return;
    int rc = dt_errand_ask(&u->errand, &u->why);
    mine->busy = rc == 0;
    mine->failed = rc < 0 || u->failed;
    mine->late = u->late;
    u->failed = false;
}

/* The best step that is on the disk; 0: there is none. */
static int64_t best_of(const struct dt_trainer *t)
{
    return t->config->train.keep_best ? t->best_saved.step : 0;
}

/* When the time is over, none is owed but what is under way. */
static int64_t owed(const struct dt_trainer *t)
{
    const struct dt_uploader *u = t->uploader;
    return u->over ? dt_upload_owed(&u->turns, -1, 0)
                   : dt_upload_owed(&u->turns, t->saving.saved, best_of(t));
}

/* What cannot even begin on this rank is told with what fails. */
static void begin(struct dt_uploader *u, int (*work)(void *arg, struct dt_err *err))
{
    u->failed = dt_errand_begin(&u->errand, work, &u->send, &u->why) < 0;
}

static void send_share(struct dt_trainer *t)
{
    struct dt_uploader *u = t->uploader;
    const struct dt_config_train *c = &t->config->train;
    u->begun = dt_clock_monotonic();
    u->send = (struct dt_send){.depot = u->depot,
                               .dir = c->save_dir,
                               .step = u->turns.step,
                               .newest = dt_upload_newest(&u->turns),
                               .ranks = u->ranks,
                               .keep_last = c->upload_keep_last,
                               .best = best_of(t),
                               .anew = u->anew,
                               .job_mark = t->keeper.job_mark,
                               .may_commit = dt_ckpt_ask_page,
                               .may_commit_arg = t->page,
                               .stop = &u->errand.stop};
    if (t->rank == 0)
        dt_ckpt_pin(t->saving.ckpt, u->turns.step);
    begin(u, dt_send_share);
}

static void tell_done(struct dt_trainer *t)
{
    struct dt_uploader *u = t->uploader;
    char took[32];
    if (t->metrics && u->send.warnings.len)
        dt_metrics_warn(t->metrics, dt_buf_cstr(&u->send.warnings));
    dt_buf_finish(&u->send.warnings);
    dt_str_from_duration(dt_clock_monotonic() - u->begun, took, sizeof took);
    bool awaited = u->turns.step == t->saving.saved || u->turns.step == best_of(t);
    if (t->metrics && (u->missed || (u->waiting && awaited)))
        dt_metrics_say(t->metrics, "step %" PRId64 " is uploaded to %s, in %s", u->turns.step,
                       dt_depot_name(u->depot), took);
    u->missed = false;
}

static void warn(struct dt_trainer *t, int rank)
{
    const struct dt_uploader *u = t->uploader;
    struct dt_buf said = {0};
    int64_t step = u->turns.step;
    if (u->over && u->turns.uploaded != t->saving.saved)
        step = t->saving.saved; /* nor is that one there, then */
    if (!t->metrics)
        return;
    dt_buf_printf(&said,
                  "step %" PRId64 " is not uploaded to %s: rank %d: %s; it is safe in "
                  "%s/step-%08" PRId64 ", and %s\n",
                  step, dt_depot_name(u->depot), rank, u->why.text, t->config->train.save_dir, step,
                  u->waiting ? "the next start of this run uploads it"
                             : "the next checkpoint is uploaded anew; training goes on");
    dt_metrics_warn(t->metrics, dt_buf_cstr(&said));
    dt_buf_finish(&said);
}

/* One of the reasons is enough, that of the lowest rank. */
static int give_up(struct dt_trainer *t, bool mine, struct dt_err *err)
{
    struct dt_uploader *u = t->uploader;
    int32_t first = mine ? t->rank : t->ranks;
    dt_errand_stop(&u->errand);
    u->missed = true;
    if (dt_coll_all_reduce(t->world, &first, 1, DT_I32, DT_MIN, err) < 0 ||
        dt_coll_broadcast(t->world, u->why.text, sizeof u->why.text, DT_U8, first, err) < 0)
        return -1;
    warn(t, first);
    return 0;
}

/* Since what is saved is newer than what is uploaded; anew with each upload that succeeds. */
static void note_behind(const struct dt_trainer *t)
{
    struct dt_uploader *u = t->uploader;
    bool behind = t->saving.saved > u->turns.uploaded;
    if (!behind || u->uploaded != u->turns.uploaded)
        u->behind_ns = 0;
    if (behind && u->behind_ns == 0)
        u->behind_ns = dt_clock_monotonic_ns();
    u->uploaded = u->turns.uploaded;
    dt_page_upload_waits(t->page, u->behind_ns);
}

int dt_uploader_hear(struct dt_trainer *t, const struct dt_uploading_news *mine,
                     const struct dt_uploading_news *all, struct dt_err *err)
{
    struct dt_uploader *u = t->uploader;
    if (!u)
        return 0;
    note_behind(t);
    u->over = u->over || all->late > 0;
    struct dt_upload_facts f = {.saved = u->over ? -1 : t->saving.saved,
                                .best = u->over ? 0 : best_of(t),
                                .committing = t->saving.phase == DT_SAVING_NAMING,
                                .busy = all->busy,
                                .failed = all->failed + (all->busy > 0 ? all->late : 0)};
    switch (dt_upload_turn(&u->turns, &f)) {
    case DT_UPLOAD_SEND:
        send_share(t);
        break;
    case DT_UPLOAD_SEAL:
        u->anew = false; /* from here on what is there may be its own */
        if (t->rank == 0)
            begin(u, dt_send_seal);
        break;
    case DT_UPLOAD_TELL:
        tell_done(t);
        break;
    case DT_UPLOAD_GIVE_UP:
        return give_up(t, mine->failed > 0 || mine->late > 0, err);
    case DT_UPLOAD_GO_ON:
        break;
    }
    if (t->rank == 0 && u->turns.phase == DT_UPLOAD_NONE && t->saving.ckpt)
        dt_ckpt_pin(t->saving.ckpt, -1);
    return 0;
}

/* -- at the end ------------------------------------------------------------------------------- */

static void say_waiting(struct dt_trainer *t, dt_ms patience)
{
    char most[32];
    dt_str_from_duration(patience, most, sizeof most);
    if (t->metrics)
        dt_metrics_say(t->metrics, "waiting until step %" PRId64 " is uploaded to %s, %s at most",
                       owed(t), dt_depot_name(t->uploader->depot), most);
}

/* Each rank goes by its own clock, and the first whose time is over tells the others. */
static void look_at_clock(struct dt_trainer *t, dt_ms *until)
{
    struct dt_uploader *u = t->uploader;
    dt_ms now = dt_clock_monotonic();
    if (t->options->stop && *t->options->stop && *until > now + PATIENCE_WHEN_TOLD)
        *until = now + PATIENCE_WHEN_TOLD;
    if (u->late || now < *until)
        return;
    u->late = true;
    dt_err_set(&u->why, DT_E_TIMEOUT, "the time to wait for it at the end of a run is over");
}

int dt_uploader_finish(struct dt_trainer *t, bool done, struct dt_err *err)
{
    struct dt_uploader *u = t->uploader;
    const struct timespec nap = {.tv_nsec = LOOK_EVERY_NS};
    dt_ms patience = done ? t->config->train.upload_timeout_ms : PATIENCE_WHEN_TOLD;
    dt_ms until = dt_clock_monotonic() + patience;
    if (!u || owed(t) < 0)
        return 0;
    u->waiting = true;
    dt_upload_newest_first(&u->turns, t->saving.saved);
    say_waiting(t, patience);
    dt_page_section(t->page, "upload");
    while (owed(t) >= 0) {
        struct dt_uploading_news mine = {0}, all;
        nanosleep(&nap, NULL);
        look_at_clock(t, &until);
        dt_uploader_tell(t, &mine);
        all = mine;
        if (dt_coll_all_reduce(t->world, &all, sizeof all / sizeof(double), DT_F64, DT_SUM, err) <
                0 ||
            dt_uploader_hear(t, &mine, &all, err) < 0)
            return -1;
    }
    return 0;
}
