/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl status: for each run a sentence that says how it is, and below it its nodes, those in
 * the same state on one line. */
#include "base/str.h"
#include "ctl/commands.h"
#include "ctl/fold.h"
#include "ctl/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text of the server's on its way to a terminal. */
static void put_shown(struct dt_buf *out, const char *text)
{
    char shown[2 * DT_WHY_MAX];
    dt_buf_put_str(out, dt_str_printable(dt_bytes_of(text), shown, sizeof shown));
}

/* Nothing where there is no TEXT. */
static void put_words(struct dt_buf *out, const char *in_front, const char *text)
{
    if (!*text)
        return;
    dt_buf_put_str(out, in_front);
    put_shown(out, text);
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* -- a run ------------------------------------------------------------------------------------ */

const char *dt_ctl_run_state(const struct dt_status_run *r)
{
    return *r->ended ? r->ended : r->paused ? "paused" : r->state;
}

/* "run llama: running, round 4, 4 of 2:4 nodes, restarts 1 of 3" */
static void put_verdict(const struct dt_status_run *r, struct dt_buf *out)
{
    dt_buf_put_str(out, "run ");
    put_shown(out, r->id);
    dt_buf_put_str(out, ": ");
    put_shown(out, dt_ctl_run_state(r));
    dt_buf_printf(out, ", round %d, %d of %d", r->round, r->nodes, r->spec.min_nodes);
    if (r->spec.max_nodes != r->spec.min_nodes)
        dt_buf_printf(out, ":%d", r->spec.max_nodes);
    dt_buf_printf(out, " node%s, restarts %d of %d\n", plural(r->spec.max_nodes), r->restarts,
                  r->spec.max_restarts);
    if (*r->why) {
        dt_buf_put_str(out, "  ");
        put_shown(out, r->why);
        dt_buf_put_u8(out, '\n');
    }
}

static void put_particulars(const struct dt_status_run *r, struct dt_buf *out)
{
    char time[32];
    dt_buf_printf(out, "  for %s", dt_str_from_duration(r->since_s * DT_SECOND, time, sizeof time));
    if (r->world)
        dt_buf_printf(out, ", %d worker%s", r->world, plural(r->world));
    if (*r->master) {
        dt_buf_put_str(out, ", master ");
        put_shown(out, r->master);
    }
    if (r->losses)
        dt_buf_printf(out, ", %d node%s lost so far", r->losses, plural(r->losses));
    dt_buf_put_u8(out, '\n');
}

/* "begun by ada on node0, 2026-11-23 06:45:12Z: train.py, the scheduler's job 17", as far as that
 * is known. */
static void put_beginning(const struct dt_status_run *r, struct dt_buf *out)
{
    char when[DT_CLOCK_TEXT];
    if (!*r->spec.user && !*r->begun_on && !r->begun_s)
        return; /* an older rendezvous does not say */
    dt_buf_put_str(out, "  begun");
    put_words(out, " by ", r->spec.user);
    put_words(out, " on ", r->begun_on);
    if (r->begun_s) {
        dt_clock_format_seconds(r->begun_s, when);
        dt_buf_printf(out, ", %s", when);
    }
    put_words(out, ": ", r->spec.script);
    put_words(out, ", the scheduler's job ", r->spec.job);
    put_words(out, ", ", r->own_token ? "with a token of its own" : "");
    dt_buf_put_u8(out, '\n');
}

void dt_ctl_put_run(const struct dt_status_run *r, struct dt_buf *out)
{
    put_verdict(r, out);
    put_particulars(r, out);
    put_beginning(r, out);
}

/* -- its nodes -------------------------------------------------------------------------------- */

static bool are_alike(const struct dt_status_node *a, const struct dt_status_node *b)
{
    return a->workers == b->workers && strcmp(a->doing, b->doing) == 0 &&
           strcmp(a->state, b->state) == 0;
}

static int by_likeness(const void *a, const void *b)
{
    const struct dt_status_node *x = *(struct dt_status_node *const *)a,
                                *y = *(struct dt_status_node *const *)b;
    int order = strcmp(x->doing, y->doing);
    if (order == 0)
        order = strcmp(x->state, y->state);
    return order ? order : (x->workers > y->workers) - (x->workers < y->workers);
}

/* "1190-1200 (3 s ago)", "1200", or "-" where nobody says. Of several the oldest one is told. */
static void add_steps(struct dt_ctl_table *t, const struct dt_status_node *const *alike, size_t n)
{
    int64_t low = -1, high = -1, oldest = 0;
    char steps[64], time[32], age[48] = "";
    for (size_t i = 0; i < n; i++) {
        if (alike[i]->step >= 0 && (low < 0 || alike[i]->step < low))
            low = alike[i]->step;
        if (alike[i]->step > high)
            high = alike[i]->step;
        if (alike[i]->step_age_s > oldest)
            oldest = alike[i]->step_age_s;
    }
    snprintf(steps, sizeof steps, low == high ? "%" PRId64 : "%" PRId64 "-%" PRId64, low, high);
    if (oldest > 0)
        snprintf(age, sizeof age, " (%s ago)",
                 dt_str_from_duration(oldest * DT_SECOND, time, sizeof time));
    if (high < 0)
        dt_ctl_table_add(t, "-");
    else
        dt_ctl_table_printf(t, "%s%s", steps, age);
}

/* Of all of them together. */
static void add_tokens(struct dt_ctl_table *t, const struct dt_status_node *const *alike, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)alike[i]->tokens_per_s;
    if (sum > 0)
        dt_ctl_table_printf(t, "%.0f", sum);
    else
        dt_ctl_table_add(t, "-");
}

/* A column for what hardly anybody tells is there where somebody does. */
static bool tell_tokens(const struct dt_status_node *const *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (nodes[i]->tokens_per_s > 0)
            return true;
    return false;
}

static void add_heard(struct dt_ctl_table *t, const struct dt_status_node *const *alike, size_t n)
{
    char time[32];
    int64_t oldest = 0;
    for (size_t i = 0; i < n; i++)
        if (alike[i]->beat_age_s > oldest)
            oldest = alike[i]->beat_age_s;
    dt_ctl_table_printf(t, "%s ago", dt_str_from_duration(oldest * DT_SECOND, time, sizeof time));
}

/* NAMES: room for N. */
static void add_alike(struct dt_ctl_table *t, const struct dt_status_node *const *alike, size_t n,
                      bool tokens, const char **names)
{
    struct dt_buf folded = {0};
    for (size_t i = 0; i < n; i++)
        names[i] = alike[i]->name;
    dt_ctl_fold(names, n, &folded);
    dt_ctl_table_printf(t, "%zu", n);
    dt_ctl_table_add(t, alike[0]->doing);
    dt_ctl_table_add(t, alike[0]->state);
    dt_ctl_table_printf(t, "%d", alike[0]->workers);
    add_steps(t, alike, n);
    if (tokens)
        add_tokens(t, alike, n);
    add_heard(t, alike, n);
    dt_ctl_table_add(t, dt_buf_cstr(&folded));
    dt_buf_finish(&folded);
}

#define TOKENS_COLUMN 5

static int put_nodes(const char *run, const struct dt_ctl_rows *rows, struct dt_buf *out,
                     struct dt_err *err)
{
    static const char *const headings[] = {"NODES", "DOING",    "STATE", "WORKERS",
                                           "STEP",  "TOKENS/S", "HEARD", "NAMES"};
    const struct dt_status_node *nodes = rows->at;
    const struct dt_status_node **of_run = calloc(rows->len + 1, sizeof *of_run);
    const char **names = calloc(rows->len + 1, sizeof *names);
    struct dt_ctl_table t = {0};
    size_t count = 0;
    if (of_run && names) {
        for (size_t i = 0; i < rows->len; i++)
            if (strcmp(nodes[i].run, run) == 0)
                of_run[count++] = &nodes[i];
        qsort(of_run, count, sizeof *of_run, by_likeness);
        bool tokens = tell_tokens(of_run, count);
        t.columns = sizeof headings / sizeof *headings - !tokens;
        for (size_t i = 0; i < sizeof headings / sizeof *headings && count; i++)
            if (tokens || i != TOKENS_COLUMN)
                dt_ctl_table_add(&t, headings[i]);
        for (size_t i = 0, n; i < count; i += n) {
            for (n = 1; i + n < count && are_alike(of_run[i], of_run[i + n]); n++)
                ;
            add_alike(&t, of_run + i, n, tokens, names);
        }
        dt_ctl_table_put(&t, 2, out);
    }
    int rc = of_run && names ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for so many nodes");
    free(of_run);
    free(names);
    return rc;
}

/* -- the command ------------------------------------------------------------------------------ */

static int put_text(const struct dt_ctl_pages *p, struct dt_buf *out, struct dt_err *err)
{
    const struct dt_status_run *runs = p->runs.at;
    for (size_t i = 0; i < p->runs.len; i++) {
        dt_ctl_put_run(&runs[i], out);
        if (put_nodes(runs[i].id, &p->nodes, out, err) < 0)
            return -1;
    }
    if (p->runs.len == 0)
        dt_buf_put_str(out, "no runs\n");
    dt_ctl_put_excluded(p, out);
    return 0;
}

static void put_json(const struct dt_ctl_pages *p, struct dt_buf *out)
{
    dt_buf_put_str(out, "{\"server\":{");
    dt_fields_put(out, &p->server, dt_status_server_fields);
    dt_buf_put_u8(out, '}');
    dt_ctl_put_rows(out, "runs", dt_status_run_fields, &p->runs, sizeof(struct dt_status_run));
    dt_ctl_put_rows(out, "nodes", dt_status_node_fields, &p->nodes, sizeof(struct dt_status_node));
    dt_ctl_put_rows(out, "excluded", dt_status_excluded_fields, &p->excluded,
                    sizeof(struct dt_status_excluded));
    dt_buf_put_str(out, "}\n");
}

int dt_ctl_no_run(const struct dt_ctl_options *o, struct dt_err *err)
{
    return dt_err_set(err, DT_E_RUNTIME,
                      "rendezvous %s knows no run \"%s\"; \"dtrun-ctl status\" lists those it does",
                      o->endpoint, o->name);
}

int dt_ctl_status(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                  struct dt_err *err)
{
    struct dt_ctl_pages pages;
    int rc = dt_ctl_pages_fetch(c, o->name, &pages, err);
    if (rc == 0 && *o->name && pages.runs.len == 0)
        rc = dt_ctl_no_run(o, err);
    else if (rc == 0 && o->json)
        put_json(&pages, out);
    else if (rc == 0)
        rc = put_text(&pages, out, err);
    dt_ctl_pages_finish(&pages);
    return rc;
}
