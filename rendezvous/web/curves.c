/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/curves.h"

#include "base/clock.h"
#include "base/list.h"
#include "rendezvous/runs/runs.h"
#include "rendezvous/runs/status.h"

#include <stdlib.h>
#include <string.h>

struct one_curve {
    struct dt_map_node in_map;
    char run[DT_RUN_ID_MAX]; /* the key */
    int64_t begun_us;        /* of the run: another one of its name begins anew */
    uint64_t looked;         /* the look at which the run was there */
    struct dt_curve curve;
};

static struct one_curve *find(const struct dt_web_curves *cs, const char *run)
{
    return dt_map_find(&cs->by_run, dt_bytes_of(run));
}

/* NULL: there are too many, or no memory. */
static struct one_curve *find_or_add(struct dt_web_curves *cs, const char *run)
{
    struct one_curve *one = find(cs, run);
    if (one || cs->by_run.count >= DT_WEB_CURVES_MOST)
        return one;
    one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    snprintf(one->run, sizeof one->run, "%s", run);
    if (dt_map_insert(&cs->by_run, one, (uint32_t)strlen(one->run)) < 0) {
        free(one);
        return NULL;
    }
    return one;
}

/* -- looking ---------------------------------------------------------------------------------- */

/* Its time is that of the last step. */
static struct dt_curve_sample sample_of(const struct dt_rdzv *r, dt_ms now, int64_t wall_us)
{
    struct dt_training training;
    dt_rdzv_training(r, &training);
    struct dt_curve_sample s = {
        .step = -1, .loss = training.loss, .tokens_per_s = training.tokens_per_s};
    int64_t age_s = 0;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        struct dt_status_node row = dt_rdzv_status_node(r, m, now);
        if (row.round != r->round || row.step <= s.step)
            continue;
        s.step = row.step;
        age_s = row.step_age_s;
    }
    s.at_s = wall_us / 1000000 - age_s;
    return s;
}

/* Beats are rarer than looks: what was looked at already would make stairs of a line. */
static bool is_new(const struct dt_curve *c, const struct dt_curve_sample *s)
{
    return s->step >= 0 && (c->len == 0 || c->at[c->len - 1].step != s->step);
}

static void look_at(struct dt_web_curves *cs, const struct dt_rdzv *r, dt_ms now)
{
    struct dt_curve_sample s = {.step = -1};
    if (r->state == DT_RUN_RUNNING)
        s = sample_of(r, now, dt_clock_wall_us());
    struct one_curve *one = s.step >= 0 ? find_or_add(cs, r->id) : find(cs, r->id);
    if (!one)
        return;
    one->looked = cs->looks;
    if (one->begun_us != r->beginning.wall_us)
        one->curve = (struct dt_curve){0};
    one->begun_us = r->beginning.wall_us;
    if (is_new(&one->curve, &s))
        dt_curve_add(&one->curve, &s);
}

static void forget(struct dt_web_curves *cs)
{
    size_t cursor = 0;
    for (struct one_curve *one; (one = dt_map_next(&cs->by_run, &cursor));)
        if (one->looked != cs->looks) {
            dt_map_remove(&cs->by_run, dt_bytes_of(one->run));
            free(one);
            cursor = 0; /* the map has changed */
        }
}

static void on_timer(uv_timer_t *t)
{
    struct dt_web_curves *cs = dt_container_of(t, struct dt_web_curves, timer);
    const struct dt_rdzv_runs *runs = dt_rdzv_server_runs(cs->server);
    cs->looks++;
    dt_list_each(&runs->all, n)
        look_at(cs, dt_container_of(n, struct dt_rdzv_run, in_all)->rdzv, (dt_ms)uv_now(t->loop));
    forget(cs);
}

/* -- beginning and end ------------------------------------------------------------------------ */

void dt_web_curves_init(struct dt_web_curves *cs, uv_loop_t *loop,
                        const struct dt_rdzv_server *server)
{
    const uint64_t every = DT_CURVE_EVERY_S * DT_SECOND;
    *cs = (struct dt_web_curves){.server = server};
    dt_map_init(&cs->by_run, offsetof(struct one_curve, run), dt_map_random_seed());
    uv_timer_init(loop, &cs->timer);
    uv_timer_start(&cs->timer, on_timer, every, every);
}

void dt_web_curves_stop(struct dt_web_curves *cs)
{
    if (cs->server)
        uv_timer_stop(&cs->timer);
    cs->server = NULL;
}

void dt_web_curves_finish(struct dt_web_curves *cs)
{
    dt_map_finish(&cs->by_run, free);
}

const struct dt_curve *dt_web_curves_find(const struct dt_web_curves *cs, const char *run)
{
    const struct one_curve *one = find(cs, run);
    return one ? &one->curve : NULL;
}
