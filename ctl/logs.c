/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl logs: what workers of a run have printed; with --follow also what they print next. */
#include "base/say.h"
#include "base/str.h"
#include "ctl/again.h"
#include "ctl/comeback.h"
#include "ctl/commands.h"
#include "ctl/connect.h"
#include "ctl/logbook.h"
#include "ctl/wish.h"

#include <string.h>

#define COME_BACK (15 * DT_SECOND) /* nodes are back within, at a rendezvous that was away */

struct reading {
    const struct dt_ctl_options *o;
    struct dt_logbook book;
    struct dt_buf out;
    struct dt_ctl_comeback run;
};

/* -- one answer ------------------------------------------------------------------------------- */

/* What is to be known beside the lines comes behind those before it. */
static int show(struct reading *r, struct dt_buf *notes, struct dt_err *err)
{
    if (!r->book.sort && dt_ctl_print(&r->out, err) < 0)
        return -1;
    if (notes->bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for what is to be said");
    dt_say_lines("dtrun-ctl", dt_buf_cstr(notes));
    return 0;
}

static int take_page(struct reading *r, const struct dt_message *m, struct dt_err *err)
{
    const struct cJSON *page;
    struct dt_buf notes = {0};
    int rc = dt_json_object(&m->doc, NULL, "page", &page, err);
    if (rc == 0)
        rc = dt_logbook_take(&r->book, &m->doc, page, &r->out, &notes, err);
    if (rc < 0 && err->code == DT_E_USAGE) { /* it is not the person's JSON */
        err->code = DT_E_PROTOCOL;
        dt_err_wrap(err, "what the rendezvous tells makes no sense");
    }
    if (rc == 0)
        rc = show(r, &notes, err);
    dt_buf_finish(&notes);
    return rc;
}

/* Nothing comes after M. */
static int take_end(struct reading *r, const struct dt_message *m, struct dt_err *err)
{
    char why[DT_WHY_MAX];
    dt_str_printable(dt_bytes_of(m->why), why, sizeof why);
    dt_logbook_end(&r->book, &r->out);
    if (!m->logs.done) {
        bool waits = dt_ctl_comeback_may(&r->run, COME_BACK, dt_clock_monotonic());
        return dt_err_set(err, waits ? DT_E_DISCONNECTED : DT_E_RUNTIME, "rendezvous %s: %s",
                          r->o->endpoint, why);
    }
    if (dt_ctl_print(&r->out, err) < 0)
        return -1;
    if (*why)
        dt_say("dtrun-ctl", why);
    else if (!r->book.began)
        dt_say("dtrun-ctl", "these workers have printed nothing yet");
    return 0;
}

/* *OVER: it was the last. */
static int take(struct reading *r, struct dt_sync_control *c, const struct dt_message *m,
                bool *over, struct dt_err *err)
{
    struct dt_message more = {
        .type = DT_MSG_MORE, .run = r->o->name, .round = -1, .more.id = m->logs.from};
    *over = m->logs.over;
    if (m->logs.over)
        return take_end(r, m, err);
    if (m->logs.json && take_page(r, m, err) < 0)
        return -1;
    if (!m->logs.json && *m->why)
        dt_say("dtrun-ctl", m->why);
    if (!m->logs.json && !m->logs.asks)
        return 0;
    return dt_sync_control_say(c, &more, err);
}

/* -- one connection --------------------------------------------------------------------------- */

static int ask(struct reading *r, struct dt_sync_control *c, bool again, struct dt_message *answer,
               struct dt_err *err)
{
    const struct dt_ctl_options *o = r->o;
    struct dt_rank_set ranks = {.len = o->ranks_len};
    struct dt_buf text = {0};
    memcpy(ranks.at, o->ranks, o->ranks_len * sizeof *o->ranks);
    dt_rank_set_put(&ranks, &text);
    struct dt_message m = {.type = DT_MSG_LOGS, .run = o->name};
    m.logs.ranks = dt_buf_cstr(&text);
    m.logs.node = o->node;
    m.logs.lines = again ? DT_TAIL_ALL : o->lines.given ? o->lines.count : DT_CTL_LINES;
    m.logs.follow = o->follow;
    int rc = text.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a question")
                      : dt_ctl_wish(o, c, &m, answer, err);
    dt_buf_finish(&text);
    return rc;
}

static int read_all(struct reading *r, struct dt_sync_control *c, bool again, struct dt_err *err)
{
    struct dt_message m;
    bool over = false;
    int rc = ask(r, c, again, &m, err);
    while (rc == 0 && !over) {
        rc = take(r, c, &m, &over, err);
        dt_message_finish(&m);
        if (!over)
            dt_ctl_comeback_seen(&r->run);
        if (rc == 0 && !over)
            rc = dt_sync_control_hear(c, DT_MSG_LOGS, &m, err);
    }
    if (!over)
        dt_ctl_comeback_away(&r->run);
    return rc;
}

/* A daemon comes back; what an agent served does not. */
static int talk(void *arg, struct dt_sync_control *c, bool again, struct dt_err *err)
{
    struct reading *r = arg;
    if (!dt_sync_control_logs(c))
        return dt_err_set(err, DT_E_RUNTIME,
                          "rendezvous %s is of an older dtrun, which cannot show what workers "
                          "print; install this one there",
                          r->o->endpoint);
    int rc = read_all(r, c, again, err);
    if (rc < 0 && err->code == DT_E_DISCONNECTED && dt_sync_control_is_hosted(c)) {
        struct dt_err cause = *err;
        dt_err_set(err, DT_E_RUNTIME, "%.350s; an agent of the job served it, and is gone",
                   cause.text);
    }
    return rc;
}

static int once(struct reading *r, const struct dt_token *token, struct dt_err *err)
{
    const struct dt_ctl_options *o = r->o;
    struct dt_sync_control *c = dt_ctl_connect(o, token, o->timeout + DT_CTL_SILENCE, err);
    int rc = c ? talk(r, c, false, err) : -1;
    dt_sync_control_close(c);
    return rc;
}

int dt_ctl_logs(const struct dt_ctl_options *o, const struct dt_token *token, struct dt_err *err)
{
    bool never = o->prefix && strcmp(o->prefix, "never") == 0;
    bool one = o->ranks_len == 1 && o->ranks[0].first == o->ranks[0].last;
    struct reading r = {.o = o,
                        .book = {.prefix = !never && !one, .sort = !o->follow, .json = o->json}};
    struct dt_err print_err;
    int rc = o->follow ? dt_ctl_again(o, token, talk, &r, err) : once(&r, token, err);
    dt_logbook_end(&r.book, &r.out);
    if (dt_ctl_print(&r.out, &print_err) < 0 && rc == 0) {
        *err = print_err;
        rc = -1;
    }
    dt_logbook_finish(&r.book);
    dt_buf_finish(&r.out);
    return rc;
}
