/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl look: where in the program each worker of a run stands, those that do the same on one
 * line. */
#include "base/str.h"
#include "ctl/commands.h"
#include "rendezvous/protocol/stance_text.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* The page, as far as it is not shown as it came. */
struct page {
    int64_t round, size, silent_nodes;
    const char *standstill;
    const struct cJSON *silent;
    struct dt_stances stances; /* of the ranks that were asked for */
};

/* -- which ranks ------------------------------------------------------------------------------ */

/* What A and B have in common; of it LAST is below FIRST where that is nothing. */
static struct dt_rank_range overlap(struct dt_rank_range a, struct dt_rank_range b)
{
    return (struct dt_rank_range){a.first > b.first ? a.first : b.first,
                                  a.last < b.last ? a.last : b.last};
}

/* Adds those of STANCE that stand in RANGE and were asked for. */
static int add_wanted(const struct dt_ctl_options *o, const struct dt_stance *stance,
                      struct dt_rank_range range, struct dt_stances *to, struct dt_err *err)
{
    const struct dt_rank_range all = {0, INT_MAX};
    for (size_t i = 0; i < (o->ranks_len ? o->ranks_len : 1); i++) {
        struct dt_rank_range part = overlap(range, o->ranks_len ? o->ranks[i] : all);
        struct dt_stance_group g = {*stance, &part, 1, part.last - part.first + 1};
        if (part.first <= part.last && dt_stances_merge(to, &(struct dt_stances){&g, 1}, err) < 0)
            return -1;
    }
    return 0;
}

/* All ranks of the world first, so that those that nobody spoke of are there as well. */
static int choose(const struct dt_ctl_options *o, const struct dt_stances *all, int64_t size,
                  struct dt_stances *to, struct dt_err *err)
{
    const struct dt_stance unknown = {.doing = DT_DOING_UNKNOWN, .sequence = -1, .step = -1};
    if (add_wanted(o, &unknown, (struct dt_rank_range){0, (int)size - 1}, to, err) < 0)
        return -1;
    for (size_t i = 0; i < all->len; i++)
        for (size_t k = 0; k < all->at[i].len; k++)
            if (add_wanted(o, &all->at[i].stance, all->at[i].ranges[k], to, err) < 0)
                return -1;
    return 0;
}

/* -- the answer ------------------------------------------------------------------------------- */

static int read_page(const struct dt_ctl_options *o, const struct dt_json *doc, struct page *p,
                     struct dt_err *err)
{
    const struct cJSON *page, *array;
    struct dt_stances all = {0};
    if (dt_json_object(doc, NULL, "page", &page, err) < 0 ||
        dt_json_int(doc, page, "round", 0, INT_MAX, &p->round, err) < 0 ||
        dt_json_int(doc, page, "size", 1, INT_MAX, &p->size, err) < 0 ||
        dt_json_string(doc, page, "standstill", &p->standstill, err) < 0 ||
        dt_json_array(doc, page, "silent", &p->silent, err) < 0 ||
        dt_json_int(doc, page, "silent_nodes", 0, INT_MAX, &p->silent_nodes, err) < 0 ||
        dt_json_array(doc, page, "stances", &array, err) < 0)
        return -1;
    int rc = dt_stances_get_json(&all, doc, array, err);
    if (rc == 0)
        rc = choose(o, &all, p->size, &p->stances, err);
    dt_stances_finish(&all);
    return rc;
}

static int check_ranks(const struct dt_ctl_options *o, const struct page *p, struct dt_err *err)
{
    for (size_t i = 0; i < o->ranks_len; i++)
        if (o->ranks[i].last >= p->size)
            return dt_err_set(err, DT_E_RUNTIME,
                              "run \"%s\" has no rank %d; its ranks are 0 to %" PRId64, o->name,
                              o->ranks[i].last, p->size - 1);
    return 0;
}

/* "no answer from node3 and 2 more nodes": what is printed is not all. */
static int miss_silent(const struct dt_json *doc, const struct page *p, struct dt_err *err)
{
    const struct cJSON *first = dt_json_first(p->silent);
    const char *name;
    char shown[DT_WHY_MAX], more[64] = "";
    if (p->silent_nodes == 0 || !first)
        return 0;
    if (dt_json_string(doc, first, "name", &name, err) < 0)
        return -1;
    if (p->silent_nodes > 1)
        snprintf(more, sizeof more, " and %" PRId64 " more node%s; --json has their names",
                 p->silent_nodes - 1, p->silent_nodes == 2 ? "" : "s");
    return dt_err_set(err, DT_E_RUNTIME, "no answer from %s%s",
                      dt_str_printable(dt_bytes_of(name), shown, sizeof shown), more);
}

/* An older one has not read that this was asked for. */
static int miss_native(const struct dt_ctl_options *o, struct dt_err *err)
{
    return dt_err_set(err, DT_E_RUNTIME,
                      "rendezvous %s is of an older dtrun, which has no calls of C code to tell; "
                      "install this one there",
                      o->endpoint);
}

/* -- what is printed -------------------------------------------------------------------------- */

static void put_text(const struct page *p, struct dt_buf *out)
{
    char shown[2048];
    dt_stances_put_text(&p->stances, out);
    if (*p->standstill)
        dt_buf_printf(out, "%s\n",
                      dt_str_printable(dt_bytes_of(p->standstill), shown, sizeof shown));
}

static void put_json(const struct dt_ctl_options *o, const struct page *p, struct dt_buf *out)
{
    struct dt_json_writer w = {.out = out};
    char *silent = dt_json_text(p->silent);
    out->bad = out->bad || !silent;
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "run", o->name);
    dt_json_put_int(&w, "round", p->round);
    dt_json_put_int(&w, "size", p->size);
    dt_json_put_text(&w, "standstill", p->standstill);
    dt_json_put_raw(&w, "silent", "%s", silent ? silent : "[]");
    dt_json_put_int(&w, "silent_nodes", p->silent_nodes);
    dt_stances_put_json(&p->stances, "stances", &w);
    dt_json_put_end(&w);
    dt_buf_put_u8(out, '\n');
    free(silent);
}

/* -- the command ------------------------------------------------------------------------------ */

static int show(const struct dt_ctl_options *o, const struct dt_message *answer, struct dt_buf *out,
                struct dt_err *err)
{
    struct page p = {0};
    int rc = read_page(o, &answer->doc, &p, err);
    if (rc < 0) {
        if (err->code == DT_E_USAGE) /* it is not the person's JSON */
            err->code = DT_E_PROTOCOL;
        dt_err_wrap(err, "the rendezvous' answer makes no sense");
    } else if ((rc = check_ranks(o, &p, err)) == 0) {
        if (o->json)
            put_json(o, &p, out);
        else
            put_text(&p, out);
        rc = o->native && !answer->stances.native ? miss_native(o, err)
                                                  : miss_silent(&answer->doc, &p, err);
    }
    dt_stances_finish(&p.stances);
    return rc;
}

int dt_ctl_look(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                struct dt_err *err)
{
    struct dt_message answer;
    struct dt_message request = {
        .type = DT_MSG_STANCES, .run = o->name, .stances = {.native = o->native}};
    char why[DT_WHY_MAX];
    if (!dt_sync_control_looks(c))
        return dt_err_set(err, DT_E_RUNTIME,
                          "rendezvous %s is of an older dtrun, which cannot look at workers; "
                          "install this one there",
                          o->endpoint);
    if (dt_sync_control_ask(c, &request, &answer, err) < 0)
        return -1;
    int rc = *answer.why ? dt_err_set(err, DT_E_RUNTIME, "rendezvous %s: %s", o->endpoint,
                                      dt_str_printable(dt_bytes_of(answer.why), why, sizeof why))
                         : show(o, &answer, out, err);
    dt_message_finish(&answer);
    return rc;
}
