/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that stand still or hold the others up, and what is wrong with their host: what is told
 * of them, and asked. And what they print, for people elsewhere. */
#include "agent/inside.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* Whether it is a hang, and why, is for the backend to find out with all nodes. */
bool agent_on_still(void *arg, dt_ms still, bool sure)
{
    struct agent *a = arg;
    return a->backend->ops->still(a->backend, still, sure);
}

/* Once when it begins and once when it is over, however often it is told. */
void agent_on_straggler(void *arg, const char *sentence, bool holds_up)
{
    struct agent *a = arg;
    a->holds_up = holds_up;
    if (strcmp(a->straggler, sentence) == 0)
        return;
    snprintf(a->straggler, sizeof a->straggler, "%s", sentence);
    dt_warn("%s", sentence);
}

static void on_looked(void *arg, const struct dt_stances *stances)
{
    struct agent *a = arg;
    a->backend->ops->looked(a->backend, a->look, stances);
}

/* Where nobody may look, or no worker is left to look at, that is said at once. */
void agent_on_look(void *arg, int64_t look, bool native)
{
    struct agent *a = arg;
    struct dt_err err;
    a->look = look;
    if (!agent_hang(a))
        on_looked(a, &(struct dt_stances){0});
    else if (dt_hang_look(agent_hang(a), native, on_looked, a, &err) < 0)
        dt_warn("%s", err.text);
}

void agent_on_remark(void *arg, bool failed, const char *words)
{
    struct agent *a = arg;
    if (a->backend && a->backend->ops->remark)
        a->backend->ops->remark(a->backend, failed, words);
}

static void on_tailed(void *arg, int64_t id, bool over, const char *page)
{
    struct agent *a = arg;
    a->backend->ops->tailed(a->backend, id, over, page);
}

void agent_on_tail(void *arg, const struct dt_message *m)
{
    struct agent *a = arg;
    struct dt_err err;
    struct dt_tails_config config = {
        .output = a->output, .plan = a->plan, .world = &a->world, .tell = on_tailed, .arg = a};
    if (a->phase == AGENT_ENDING)
        return;
    if (!a->tails && !(a->tails = dt_tails_create(&a->loop, &config, &err)))
        dt_warn("%s", err.text);
    else
        dt_tails_hear(a->tails, m);
}

void agent_on_save(void *arg)
{
    struct agent *a = arg;
    dt_info("a checkpoint is wanted: workers that can are asked for one");
    if (a->attempt)
        dt_attempt_want_save(a->attempt);
}

void agent_on_finding(void *arg, const struct dt_stances *all, const struct dt_hang_finding *f)
{
    const struct agent *a = arg;
    if (agent_hang(a))
        dt_hang_tell(agent_hang(a), all, f);
    else
        dt_warn("%s", f->sentence); /* the workers here are done, and wait for the others */
}
