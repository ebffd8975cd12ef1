/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/looks.h"

#include "base/json_write.h"
#include "rendezvous/protocol/stance_frame.h"

#include <stdio.h>

#define SILENT_MOST 200 /* nodes that are named */

static void refuse(const struct dt_rdzv_run *run, struct dt_rdzv_conn *c, const char *why)
{
    struct dt_message answer = {.type = DT_MSG_STANCES, .run = run ? run->id : "", .why = why};
    dt_rdzv_conn_send(c, &answer);
}

/* -- the page --------------------------------------------------------------------------------- */

/* Names those who did not answer, and returns how many there are. */
static int64_t put_silent(const struct dt_rdzv *r, struct dt_json_writer *w)
{
    int64_t count = 0;
    dt_json_put_array(w, "silent");
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (!dt_rdzv_look_lacks(r, m))
            continue;
        if (++count > SILENT_MOST)
            continue;
        dt_json_put_object(w, NULL);
        dt_json_put_text(w, "name", m->name.text);
        dt_json_put_end(w);
    }
    dt_json_put_end(w);
    return count;
}

/* See docs/protocol.md. */
static void put_page(const struct dt_rdzv *r, struct dt_buf *out)
{
    const char *standstill = dt_rdzv_standstill(r);
    struct dt_json_writer w = {.out = out};
    dt_json_put_object(&w, NULL);
    dt_json_put_int(&w, "round", r->round);
    dt_json_put_int(&w, "size", r->size);
    dt_json_put_text(&w, "standstill", standstill ? standstill : "");
    int64_t silent = put_silent(r, &w);
    dt_json_put_int(&w, "silent_nodes", silent);
    dt_buf_put_u8(out, ',');
    dt_stance_frame_put(&dt_rdzv_look(r)->stances, -1, -1, out);
    dt_json_put_end(&w);
}

/* -- those who wait --------------------------------------------------------------------------- */

bool dt_rdzv_looks_take(struct dt_rdzv_run *run, struct dt_rdzv_conn *c, const struct dt_message *m)
{
    char why[DT_WHY_MAX];
    if (!run)
        snprintf(why, sizeof why, "there is no run \"%.100s\"; \"dtrun-ctl status\" lists the runs",
                 m->run);
    else if (run->rdzv->state != DT_RUN_RUNNING)
        snprintf(why, sizeof why, "run \"%.100s\" is %s, so no workers run", m->run,
                 dt_run_state_name(run->rdzv->state));
    if (!run || run->rdzv->state != DT_RUN_RUNNING) {
        refuse(run, c, why);
        return false;
    }
    dt_list_remove(&c->in_lookers);
    dt_list_append(&run->lookers, &c->in_lookers);
    c->wants_native = m->stances.native;
    return true;
}

/* Whether C waits for more than the look that is there. */
static bool lacks_native(const struct dt_rdzv_run *run, const struct dt_rdzv_conn *c)
{
    const struct dt_round_look *look = dt_rdzv_look(run->rdzv);
    return look && c->wants_native && !look->native;
}

static void answer(const struct dt_rdzv_run *run, struct dt_rdzv_conn *c, const char *page)
{
    struct dt_message m = {.type = DT_MSG_STANCES, .run = run->id};
    m.stances.native = dt_rdzv_look(run->rdzv)->native;
    m.stances.json = page;
    dt_rdzv_conn_send(c, &m);
}

/* PAGE NULL: WHY says why there is none. Those who wait for more wait on. */
static void answer_all(struct dt_rdzv_run *run, const char *page, const char *why)
{
    dt_list_each(&run->lookers, n)
    {
        struct dt_rdzv_conn *c = dt_container_of(n, struct dt_rdzv_conn, in_lookers);
        if (page && lacks_native(run, c))
            continue;
        dt_list_remove(&c->in_lookers);
        if (page)
            answer(run, c, page);
        else
            refuse(run, c, why);
    }
}

void dt_rdzv_looks_settle(struct dt_rdzv_run *run)
{
    struct dt_buf page = {0};
    bool runs_on = run->rdzv->state == DT_RUN_RUNNING;
    if (dt_list_empty(&run->lookers) || (runs_on && !dt_rdzv_look(run->rdzv)))
        return;
    if (runs_on)
        put_page(run->rdzv, &page);
    const char *text = runs_on ? dt_buf_cstr(&page) : NULL;
    answer_all(run, page.bad ? NULL : text,
               page.bad ? "the rendezvous has no memory for the answer"
                        : "the round ended while its workers were looked at; ask again");
    dt_buf_finish(&page);
}

bool dt_rdzv_looks_lack_native(const struct dt_rdzv_run *run)
{
    dt_list_each(&run->lookers, n) if (lacks_native(run, dt_container_of(n, struct dt_rdzv_conn,
                                                                         in_lookers))) return true;
    return false;
}

void dt_rdzv_looks_end(struct dt_rdzv_run *run)
{
    answer_all(run, NULL, "the run ended while its workers were looked at");
}
