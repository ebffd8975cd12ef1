/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes tell with their beats and a person should hear of: a loss that is none, no further
 * steps, disks that are almost full, uploads that do not keep up. People are told when that begins
 * and when it is over; of disks and uploads, when it is over on all nodes. */
#include "rendezvous/rdzv/inside.h"

#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define MIB (UINT64_C(1) << 20)
#define BEHIND_S 1800 /* a checkpoint has waited to be uploaded */
#define STUCK (900 * DT_SECOND)

/* -- the loss --------------------------------------------------------------------------------- */

static void tell_loss(const struct dt_rdzv *r, struct dt_rdzv_actions *out, int64_t step)
{
    const struct dt_loss *l = &r->running.loss;
    switch (l->state) {
    case DT_LOSS_NAN:
        rdzv_tell(r, out, DT_EVENT_LOSS_NAN, NULL, "the loss is %s at step %" PRId64,
                  isnan(l->last) ? "NaN" : "infinite", step);
        return;
    case DT_LOSS_SPIKES:
        rdzv_tell(r, out, DT_EVENT_LOSS_SPIKE, NULL,
                  "the loss is %.4g at step %" PRId64 ", and was about %.4g before", l->last, step,
                  l->mean);
        return;
    case DT_LOSS_USUAL:
        rdzv_tell(r, out, DT_EVENT_LOSS_OVER, NULL, "the loss is %.4g at step %" PRId64, l->last,
                  step);
        return;
    case DT_LOSS_STATES:
        return;
    }
}

/* One node speaks for all, as each has the loss of the whole batch, or of a part like any other. */
static void take_loss(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_member *m,
                      int64_t step)
{
    double loss;
    if (m->first_rank != 0 || !dt_telemetry_get_loss(m->telemetry.loss, &loss) ||
        loss == r->running.loss.last)
        return;
    if (dt_loss_note(&r->running.loss, loss))
        tell_loss(r, out, step);
}

/* -- steps ------------------------------------------------------------------------------------ */

static void take_step(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_beat *b)
{
    char time[32];
    if (b->step < 0 || b->step_age_ms == 0)
        return;
    if (r->now - b->step_age_ms > r->running.stepped)
        r->running.stepped = r->now - b->step_age_ms;
    dt_ms age = r->now - r->running.stepped;
    if ((age > STUCK) == r->running.stuck)
        return;
    r->running.stuck = !r->running.stuck;
    if (r->running.stuck)
        rdzv_tell(r, out, DT_EVENT_NO_PROGRESS, NULL,
                  "no node has made a step for %s; the last one was step %" PRId64,
                  dt_str_from_duration(age, time, sizeof time), r->budget.step);
    else
        rdzv_tell(r, out, DT_EVENT_NO_PROGRESS_OVER, NULL, "step %" PRId64 " is done", b->step);
}

/* -- disks and uploads ------------------------------------------------------------------------ */

/* Something that a node has or not, how many have it, and the events about it. */
struct trouble {
    bool *is;
    size_t *count;
    enum dt_event_kind begins, ends;
};

static struct trouble disk_of(struct dt_rdzv *r, struct dt_member *m)
{
    return (struct trouble){&m->disk_is_low, &r->members.disks_low, DT_EVENT_DISK_LOW,
                            DT_EVENT_DISK_LOW_OVER};
}

static struct trouble upload_of(struct dt_rdzv *r, struct dt_member *m)
{
    return (struct trouble){&m->upload_is_behind, &r->members.uploads_behind,
                            DT_EVENT_UPLOAD_BEHIND, DT_EVENT_UPLOAD_BEHIND_OVER};
}

static void put(struct trouble t, bool has)
{
    *t.count -= *t.is;
    *t.is = has;
    *t.count += has;
}

static void note(const struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_member *m,
                 struct trouble t, bool has, const char *words)
{
    bool had = *t.is;
    put(t, has);
    if (has && !had)
        rdzv_tell(r, out, t.begins, m->name.text, "%s: %s", m->name.text, words);
    else if (had && *t.count == 0)
        rdzv_tell(r, out, t.ends, m->name.text, "%s: %s", m->name.text, words);
}

/* So much more than little has to be free that it does not come and go. */
static bool is_low(const struct dt_telemetry *t, bool was)
{
    int64_t little = dt_disk_little_mib(t->disk_total_mib);
    return t->disk_free_mib < (was ? little + little / 2 : little);
}

static void take_disk(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m)
{
    const struct dt_telemetry *t = &m->telemetry.is;
    char free[32], total[32], words[DT_WHY_MAX];
    if (t->disk_total_mib == 0)
        return;
    snprintf(words, sizeof words, "%s of %s are free on the disk of %s",
             dt_str_from_size((uint64_t)t->disk_free_mib * MIB, free, sizeof free),
             dt_str_from_size((uint64_t)t->disk_total_mib * MIB, total, sizeof total), t->disk);
    note(r, out, m, disk_of(r, m), is_low(t, m->disk_is_low), words);
}

/* Likewise: behind the one that has waited for longest is another, perhaps hardly newer. */
static bool is_behind(const struct dt_telemetry *t, bool was)
{
    return t->upload_behind_s >= (was ? BEHIND_S / 2 : BEHIND_S);
}

static void take_upload(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m)
{
    char time[32], words[DT_WHY_MAX];
    bool behind = is_behind(&m->telemetry.is, m->upload_is_behind);
    if (behind)
        snprintf(
            words, sizeof words, "a checkpoint has waited to be uploaded for %s",
            dt_str_from_duration(m->telemetry.is.upload_behind_s * DT_SECOND, time, sizeof time));
    else
        snprintf(words, sizeof words, "uploads keep up again");
    note(r, out, m, upload_of(r, m), behind, words);
}

void rdzv_watch_gone(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m)
{
    note(r, out, m, disk_of(r, m), false, "is not there any more");
    note(r, out, m, upload_of(r, m), false, "is not there any more");
}

void rdzv_watch_take(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                     const struct dt_beat *b, bool runs)
{
    if (runs)
        take_step(r, out, b);
    if (b->telemetry.number == 0)
        return;
    if (runs)
        take_loss(r, out, m, b->step);
    take_disk(r, out, m);
    take_upload(r, out, m);
}

/* -- after a restart of the server ------------------------------------------------------------ */

static void recall_of_round(struct dt_running *now, enum dt_event_kind kind)
{
    switch (kind) {
    case DT_EVENT_LOSS_NAN:
        dt_loss_recall(&now->loss, DT_LOSS_NAN);
        return;
    case DT_EVENT_LOSS_SPIKE:
        dt_loss_recall(&now->loss, DT_LOSS_SPIKES);
        return;
    case DT_EVENT_LOSS_OVER:
        dt_loss_recall(&now->loss, DT_LOSS_USUAL);
        return;
    case DT_EVENT_NO_PROGRESS:
    case DT_EVENT_NO_PROGRESS_OVER:
        now->stuck = kind == DT_EVENT_NO_PROGRESS;
        return;
    case DT_EVENT_SPARES_EXHAUSTED:
        now->spares = DT_SPARES_NONE;
        return;
    case DT_EVENT_SPARES_SHORT:
        now->spares = DT_SPARES_SOME;
        return;
    case DT_EVENT_SPARES_THERE:
        now->spares = DT_SPARES_ALL;
        return;
    case DT_EVENT_ROUND_ENDED:
    case DT_EVENT_RUN_BEGAN:
        dt_loss_recall(&now->loss, DT_LOSS_USUAL);
        now->stuck = false;
        now->spares = DT_SPARES_ALL;
        return;
    default:
        return;
    }
}

/* M: the node that it is about. */
static void recall_of_node(struct dt_rdzv *r, struct dt_member *m, enum dt_event_kind kind)
{
    bool gone = kind == DT_EVENT_NODE_LEFT || kind == DT_EVENT_NODE_LOST;
    if (gone || kind == DT_EVENT_DISK_LOW)
        put(disk_of(r, m), !gone);
    if (gone || kind == DT_EVENT_UPLOAD_BEHIND)
        put(upload_of(r, m), !gone);
}

static void recall_of_all(struct dt_rdzv *r, enum dt_event_kind kind)
{
    bool began = kind == DT_EVENT_RUN_BEGAN;
    if (!began && kind != DT_EVENT_DISK_LOW_OVER && kind != DT_EVENT_UPLOAD_BEHIND_OVER)
        return;
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (began || kind == DT_EVENT_DISK_LOW_OVER)
            put(disk_of(r, m), false);
        if (began || kind == DT_EVENT_UPLOAD_BEHIND_OVER)
            put(upload_of(r, m), false);
    }
}

void dt_rdzv_recall(struct dt_rdzv *r, const struct dt_event *e)
{
    struct dt_member *m = e->node ? dt_members_find_name(&r->members, e->node) : NULL;
    if (r->state == DT_RUN_RUNNING)
        recall_of_round(&r->running, e->kind);
    recall_of_all(r, e->kind);
    if (m)
        recall_of_node(r, m, e->kind);
}
