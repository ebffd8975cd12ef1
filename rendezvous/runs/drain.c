/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/drain.h"

#include "rendezvous/runs/records.h"
#include "rendezvous/runs/tell.h"

#include <stdio.h>
#include <string.h>

static dt_ms now_of(const struct dt_rdzv_runs *runs)
{
    return (dt_ms)uv_now(runs->loop);
}

static bool is_here(const struct dt_rdzv_runs *runs, const char *node)
{
    dt_list_each(&runs->all, n)
    {
        if (dt_rdzv_has_node(dt_container_of(n, struct dt_rdzv_run, in_all)->rdzv, node))
            return true;
    }
    return false;
}

/* Appends which job has to stop without NODE. */
static void warn_of_shortage(const struct dt_rdzv_runs *runs, const char *node, char *text,
                             size_t size)
{
    size_t left, used = strlen(text);
    dt_list_each(&runs->all, n)
    {
        const struct dt_rdzv *r = dt_container_of(n, struct dt_rdzv_run, in_all)->rdzv;
        if (!dt_rdzv_has_node(r, node) || !dt_rdzv_is_short(r, &left))
            continue;
        snprintf(text + used, size - used,
                 "; run %.80s stops: it needs %d nodes and has %zu left, and it ends unless others "
                 "come within %d s",
                 r->id, r->spec.min_nodes, left, dt_clock_seconds(r->spec.join_timeout));
        return;
    }
}

static void warn_of_disk(bool recorded, char *text, size_t size)
{
    size_t used = strlen(text);
    if (!recorded)
        snprintf(text + used, size - used,
                 "; the rendezvous could not write this to its disk, so its restart would undo it: "
                 "see its log");
}

/* What no run tells. */
static void tell(struct dt_rdzv_runs *runs, enum dt_event_kind kind, const char *node,
                 const char *what, const char *why)
{
    char words[DT_WHY_MAX];
    snprintf(words, sizeof words, "%s %s%s%.200s%s", node, what, *why ? " (" : "", why,
             *why ? ")" : "");
    dt_rdzv_tell_of_server(runs, kind, node, words);
}

static bool drain(struct dt_rdzv_runs *runs, const char *node, const char *why, char *text,
                  size_t size)
{
    struct dt_exclude *x = &runs->exclude;
    bool here = is_here(runs, node);
    if (!here && !dt_exclude_is_drained(x, node) && x->drained_count >= DT_DRAINED_UNKNOWN) {
        snprintf(text, size,
                 "%zu nodes are drained already, and none of that name is here; let some back with "
                 "node undrain, or all with node undrain --all",
                 x->drained_count);
        return false;
    }
    if (dt_exclude_drain(x, node, false, *why ? why : "by hand", now_of(runs)) < 0) {
        snprintf(text, size, "the rendezvous has no memory for one more node");
        return false;
    }
    bool recorded = dt_rdzv_records_node(runs, node);
    dt_rdzv_runs_tell_of_node(runs, node);
    if (!here)
        tell(runs, DT_EVENT_NODE_DRAINED, node, "is drained", why);
    snprintf(text, size, "%s is drained%s; undo it with: dtrun-ctl node undrain %s", node,
             here ? ""
                  : ", though no node of that name is here now", /* perhaps a slip of the pen */
             node);
    warn_of_disk(recorded, text, size);
    warn_of_shortage(runs, node, text, size);
    return true;
}

static void undrain(struct dt_rdzv_runs *runs, const char *node, char *text, size_t size)
{
    bool was_out = dt_exclude_is_out(&runs->exclude, node, now_of(runs), NULL);
    dt_exclude_drain(&runs->exclude, node, true, NULL, now_of(runs));
    bool recorded = dt_rdzv_records_node(runs, node);
    dt_rdzv_runs_tell_of_node(runs, node);
    if (was_out)
        tell(runs, DT_EVENT_NODE_UNDRAINED, node, "may be given a seat again", "");
    snprintf(text, size, was_out ? "%s may be given a seat again" : "%s was not kept out", node);
    warn_of_disk(recorded, text, size);
}

static void undrain_all(struct dt_rdzv_runs *runs, char *text, size_t size)
{
    const char *out;
    size_t count = 0;
    bool recorded = true;
    while ((out = dt_exclude_any_out(&runs->exclude))) {
        char node[DT_NODE_NAME_MAX];
        snprintf(node, sizeof node, "%s", out);
        bool was_out = dt_exclude_is_out(&runs->exclude, node, now_of(runs), NULL);
        count += was_out;
        if (was_out)
            tell(runs, DT_EVENT_NODE_UNDRAINED, node, "may be given a seat again", "");
        dt_exclude_drain(&runs->exclude, node, true, NULL, now_of(runs));
        recorded &= dt_rdzv_records_node(runs, node);
    }
    dt_rdzv_runs_tell_of_node(runs, "");
    snprintf(text, size, "nodes that may be given a seat again: %zu", count);
    warn_of_disk(recorded, text, size);
}

/* Whoever drains a node stops what runs there. */
static bool is_guarded(const struct dt_rdzv_runs *runs, const char *node)
{
    dt_list_each(&runs->all, n)
    {
        const struct dt_rdzv *r = dt_container_of(n, struct dt_rdzv_run, in_all)->rdzv;
        if (*r->key && dt_rdzv_has_node(r, node))
            return true;
    }
    return false;
}

bool dt_rdzv_drain(struct dt_rdzv_runs *runs, const struct dt_asker *who,
                   const struct dt_message *m, char *text, size_t size)
{
    const char *node = m->drain.node;
    char why[DT_WHY_MAX];
    bool done = true;
    bool guarded = !m->drain.undo && is_guarded(runs, node);
    if (!dt_authority_over_nodes(runs->operator_key, who, guarded, text, size))
        return false;
    if (!m->drain.undo)
        done = drain(runs, node, dt_authority_reason(m, why, sizeof why), text, size);
    else if (*node)
        undrain(runs, node, text, size);
    else
        undrain_all(runs, text, size);
    return done;
}
