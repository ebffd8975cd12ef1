/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/tell.h"

#include "rendezvous/runs/followers.h"
#include "rendezvous/runs/records.h"

#include <inttypes.h>
#include <stdio.h>

/* What all nodes are told as well, or can do without: where an agent of the run hosts it, one
 * console would show both. */
static bool is_told(enum dt_event_kind kind)
{
    switch (kind) {
    case DT_EVENT_RUN_MIXED:
    case DT_EVENT_RUN_ENDED_BADLY:
    case DT_EVENT_ROUND_ENDED:
    case DT_EVENT_WORKER_FAILED:
    case DT_EVENT_BELOW_MIN:
    case DT_EVENT_HANG:
    case DT_EVENT_STRAGGLER:
    case DT_EVENT_NODE_LOST:
    case DT_EVENT_PREFLIGHT_FAILED:
    case DT_EVENT_PREFLIGHT_WARNED:
        return true;
    default:
        return false;
    }
}

static void write_line(const struct dt_log_about *about, enum dt_event_weight weight,
                       const char *words, uint64_t held_back)
{
    static const enum dt_log_level levels[] = {[DT_EVENT_INFO] = DT_LOG_INFO,
                                               [DT_EVENT_WARNING] = DT_LOG_WARN,
                                               [DT_EVENT_ERROR] = DT_LOG_ERROR};
    bool of_run = about->run && *about->run;
    char more[80] = "";
    if (held_back)
        snprintf(more, sizeof more, " (and %" PRIu64 " lines about runs that were left out)",
                 held_back);
    dt_log_about(levels[weight], about, "%s%s%s%s%s", of_run ? "run " : "",
                 of_run ? about->run : "", of_run ? ": " : "", words, more);
}

/* Of which a crowd of nodes, or one that comes again and again, makes more than people can read.
 * All else is rare, and somebody may wait for it. */
static bool is_of_crowds(enum dt_event_kind kind)
{
    switch (kind) {
    case DT_EVENT_RUN_BEGAN: /* a run ends with its last node, and begins again with the next */
    case DT_EVENT_RUN_DESERTED:
    case DT_EVENT_NODE_JOINED:
    case DT_EVENT_NODE_BACK:
    case DT_EVENT_NODE_REFUSED:
    case DT_EVENT_NODE_LEFT:
    case DT_EVENT_NODE_LOST:
    case DT_EVENT_PREFLIGHT_FAILED:
    case DT_EVENT_PREFLIGHT_WARNED:
    case DT_EVENT_CLIENT_REFUSED:
    case DT_EVENT_DISK_LOW: /* of one file system that all nodes share */
    case DT_EVENT_UPLOAD_BEHIND:
        return true;
    default:
        return false;
    }
}

static bool may_pass(struct dt_rdzv_runs *runs, uint64_t *held_back)
{
    return dt_log_limit_pass(&runs->lines, (dt_ms)uv_now(runs->loop), held_back);
}

void dt_rdzv_tell(struct dt_rdzv_runs *runs, const struct dt_event *e, bool silent)
{
    struct dt_event now = *e;
    uint64_t held_back = 0;
    if (is_of_crowds(e->kind) && !may_pass(runs, &held_back))
        return;
    if (silent)
        runs->lines.held_back += held_back; /* the next line says so */
    bool quiet = runs->hosted && is_told(e->kind);
    if (!silent)
        write_line(&(struct dt_log_about){.kind = dt_event_kind_name(e->kind),
                                          .run = e->run,
                                          .round = e->round,
                                          .node = e->node,
                                          .rank = e->rank},
                   quiet ? DT_EVENT_INFO : dt_event_weight(e->kind), e->words, held_back);
    now.at_us = dt_clock_wall_us();
    dt_chronicle_add(&runs->chronicle, &now);
    dt_rdzv_records_event(runs, &now);
    dt_rdzv_followers_tell(runs, &now);
}

void dt_rdzv_tell_of_server(struct dt_rdzv_runs *runs, enum dt_event_kind kind, const char *node,
                            const char *words)
{
    dt_rdzv_tell(
        runs,
        &(struct dt_event){.kind = kind, .round = -1, .rank = -1, .node = node, .words = words},
        false);
}

void dt_rdzv_say(struct dt_rdzv_runs *runs, const char *run, enum dt_event_weight weight,
                 const char *words)
{
    uint64_t held_back;
    struct dt_log_about about = {.run = run, .round = -1, .rank = -1};
    if (may_pass(runs, &held_back))
        write_line(&about, weight, words, held_back);
}
