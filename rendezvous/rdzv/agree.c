/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/inside.h"

#include <stdio.h>

#define SCRIPT_MAX 50

/* -- whose job it is -------------------------------------------------------------------------- */

/* A user, or a scheduler's job, that one of the two does not know is no other one. */
static bool is_known_to_differ(const char *its, const char *ours)
{
    return *its && *ours && strcmp(its, ours) != 0;
}

static bool is_other_job(const struct dt_rdzv *r, const struct dt_run_spec *spec)
{
    return spec->command != r->spec.command || is_known_to_differ(spec->user, r->spec.user);
}

static bool may_differ(const struct dt_rdzv *r, const struct dt_run_spec *spec)
{
    return spec->mixed && r->spec.mixed;
}

/* The end of a path is what tells scripts apart, so a long one loses its beginning. */
static const char *tail_of(const char *path)
{
    size_t len = strlen(path);
    const char *tail = len > SCRIPT_MAX ? path + len - SCRIPT_MAX : path;
    while (((unsigned char)*tail & 0xc0) == 0x80) /* inside a character */
        tail++;
    return tail;
}

const char *rdzv_owner(const struct dt_run_spec *spec, char out[RDZV_OWNER_MAX])
{
    const char *tail = tail_of(spec->script);
    snprintf(out, RDZV_OWNER_MAX, "%s%.*s%s%.30s", tail == spec->script ? "" : "...", SCRIPT_MAX,
             *spec->script ? tail : "another command", *spec->user ? " as " : "", spec->user);
    return out;
}

/* -- does it fit ------------------------------------------------------------------------------ */

bool rdzv_shows_key(const struct dt_rdzv *r, const struct dt_message *join, char why[DT_WHY_MAX])
{
    const char *name = join->join.node.name, *key = join->key ?: "";
    if (!r->begun || strcmp(key, r->key) == 0)
        return true;
    if (!*r->key)
        snprintf(
            why, DT_WHY_MAX,
            "%.60s has a --run-token-file, but run \"%.80s\" was begun without one; give it to "
            "all nodes of a job or to none, and another job another --rdzv-id",
            name, r->id);
    else
        snprintf(why, DT_WHY_MAX,
                 "run \"%.80s\" has a token of its own, and %.60s %s; give all nodes of a job the "
                 "same --run-token-file, and another job another --rdzv-id",
                 r->id, name, *key ? "has another one" : "has none");
    return false;
}

bool rdzv_fits(const struct dt_rdzv *r, const struct dt_message *join, char why[DT_WHY_MAX])
{
    const struct dt_run_spec *spec = &join->join.spec;
    const char *name = join->join.node.name;
    char its[RDZV_OWNER_MAX], ours[RDZV_OWNER_MAX];
    if (spec->min_nodes > spec->max_nodes)
        snprintf(why, DT_WHY_MAX, "%.60s asks for at least %d nodes and at most %d", name,
                 spec->min_nodes, spec->max_nodes);
    else if (!rdzv_shows_key(r, join, why))
        return false;
    else if (!r->begun)
        return true;
    else if (spec->min_nodes != r->spec.min_nodes || spec->max_nodes != r->spec.max_nodes)
        snprintf(why, DT_WHY_MAX,
                 "%.60s asks for --nnodes %d:%d, but run \"%.80s\" has %d:%d; give all nodes the "
                 "same, or another job another --rdzv-id",
                 name, spec->min_nodes, spec->max_nodes, r->id, r->spec.min_nodes,
                 r->spec.max_nodes);
    else if (is_known_to_differ(spec->job, r->spec.job))
        snprintf(why, DT_WHY_MAX,
                 "run \"%.80s\" belongs to the scheduler's job %s, and %.60s comes from job %.60s; "
                 "give each job an --rdzv-id of its own",
                 r->id, r->spec.job, name, spec->job);
    else if (r->shared && is_other_job(r, spec) && !may_differ(r, spec))
        snprintf(why, DT_WHY_MAX,
                 "%.40s runs %s, but run \"%.60s\" runs %s; give each job an --rdzv-id "
                 "of its own, or all nodes --allow-mixed-nodes if they are one job",
                 name, rdzv_owner(spec, its), r->id, rdzv_owner(&r->spec, ours));
    else
        return true;
    return false;
}

/* -- one job under two names ------------------------------------------------------------------ */

static bool awaits_first_world(const struct dt_rdzv *r)
{
    return r->begun && r->state == DT_RUN_GATHERING && !r->had_world && r->members.count > 0 &&
           r->members.count < (size_t)r->spec.min_nodes;
}

bool dt_rdzv_may_be_one(const struct dt_rdzv *a, const struct dt_rdzv *b)
{
    return awaits_first_world(a) && awaits_first_world(b) &&
           a->spec.min_nodes == b->spec.min_nodes && a->spec.max_nodes == b->spec.max_nodes &&
           !is_known_to_differ(a->spec.job, b->spec.job) && !is_other_job(a, &b->spec) &&
           a->members.count + b->members.count <= (size_t)a->spec.max_nodes;
}

/* -- what is said of it ----------------------------------------------------------------------- */

/* What the first node's options said holds for the run, and whoever gave M others should know. */
static void warn_of_options(const struct dt_rdzv *r, struct dt_rdzv_actions *out,
                            const struct dt_member *m, const struct dt_run_spec *spec)
{
    struct dt_buf its = {0}, ours = {0};
    char text[32];
    for (size_t row = 0; dt_spec_fields[row].name; row++) {
        const char *option = dt_spec_looks[row].option, *comma = its.len > 0 ? ", " : "";
        if (!option || dt_spec_is_same(spec, &r->spec, row))
            continue;
        dt_buf_printf(&its, "%s--%s %s", comma, option, dt_spec_text(spec, row, text, sizeof text));
        dt_buf_printf(&ours, "%s%s", comma, dt_spec_text(&r->spec, row, text, sizeof text));
    }
    if (its.len > 0)
        rdzv_say(out, DT_EVENT_WARNING,
                 "%s asks for %s; the run has %s, from the node that came first", m->name.text,
                 dt_buf_cstr(&its), dt_buf_cstr(&ours));
    dt_buf_finish(&its);
    dt_buf_finish(&ours);
}

static void warn_of_other_job(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                              const struct dt_member *m, const struct dt_run_spec *spec)
{
    char text[DT_WHY_MAX], its[RDZV_OWNER_MAX], ours[RDZV_OWNER_MAX];
    snprintf(text, sizeof text,
             "%.40s runs %s, but run \"%.60s\" runs %s; if these are two jobs, give "
             "each an --rdzv-id of its own",
             m->name.text, rdzv_owner(spec, its), r->id, rdzv_owner(&r->spec, ours));
    rdzv_tell(r, out, DT_EVENT_RUN_MIXED, m->name.text, "%s", text);
    if (!*r->mixed)
        snprintf(r->mixed, sizeof r->mixed, "%s", text);
}

void rdzv_note_differences(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                           const struct dt_member *m, const struct dt_run_spec *spec)
{
    warn_of_options(r, out, m, spec);
    if (is_other_job(r, spec) && !may_differ(r, spec))
        warn_of_other_job(r, out, m, spec);
    r->mixed_untold = *r->mixed != '\0';
}

void rdzv_tell_mixed(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    if (!r->mixed_untold)
        return;
    r->mixed_untold = false;
    size_t text = rdzv_text(out, r->mixed);
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (!m->told_mixed)
            rdzv_send(out, m->id, DT_MSG_NOTE, r->round, text);
        m->told_mixed = true;
    }
}
