/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent knows of its workers, and tells the other nodes. */
#include "agent/inside.h"

#include "base/clock.h"
#include "base/log.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

const struct dt_attempt *agent_round(const struct agent *a)
{
    return a->waits ? NULL : a->attempt;
}

static const struct dt_pages *pages_of(const struct agent *a)
{
    return agent_round(a) ? dt_attempt_pages(agent_round(a)) : NULL;
}

int64_t agent_step(const struct agent *a)
{
    return a->progress ? dt_progress_step(a->progress) : dt_pages_step(pages_of(a));
}

/* Files go to the folder of logs, to those that are uploaded, to where the workers start, and to
 * where these say that they save. */
void agent_watch_host(struct agent *a)
{
    enum { OTHERS = 2 };
    const struct dt_plan *plan = a->plan;
    struct dt_err err;
    char here[PATH_MAX];
    size_t count = 0;
    const char **folders = calloc(plan->upload_count + OTHERS, sizeof *folders);
    if (!folders)
        return;
    if (a->logs.run)
        folders[count++] = a->logs.base;
    if (getcwd(here, sizeof here))
        folders[count++] = here;
    for (size_t i = 0; i < plan->upload_count; i++)
        folders[count++] = plan->uploads[i].dir;
    a->host = dt_host_watch_open(folders, count, getenv("CUDA_VISIBLE_DEVICES"), &err);
    free(folders);
    if (!a->host)
        dt_warn("%s", err.text);
}

static void tell_host(struct agent *a, dt_ms now, struct dt_telemetry *out)
{
    int64_t behind = dt_uploads_wait(a->uploads, now) / DT_SECOND;
    if (a->host && agent_round(a))
        dt_host_watch_add(a->host, dt_attempt_folder(agent_round(a)));
    if (a->host)
        dt_host_watch_tell(a->host, now, out);
    if (behind > out->upload_behind_s)
        out->upload_behind_s = behind;
}

void agent_tell(struct agent *a)
{
    struct dt_beat facts = {.step = agent_step(a)};
    dt_ms now = dt_clock_monotonic();
    dt_pace_note(&a->pace, facts.step, now);
    if (!a->backend->ops->tell)
        return;
    if (agent_round(a))
        dt_attempt_tell(agent_round(a), &facts);
    tell_host(a, now, &facts.telemetry);
    if (facts.step >= 0)
        facts.step_age_ms = dt_pace_age(&a->pace, now) + 1; /* never 0, which is unknown */
    if (dt_pace_is_overdue(&a->pace, now))
        facts.tokens_per_s = 0;
    if (a->phase == AGENT_FINISHED)
        facts.succeeded = a->plan->nproc;
    a->backend->ops->tell(a->backend, &facts);
}

struct dt_hang *agent_hang(const struct agent *a)
{
    return agent_round(a) ? dt_attempt_hang(agent_round(a)) : NULL;
}
