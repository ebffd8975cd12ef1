/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/aftermath.h"

#include "agent/failure/notice.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>

static void make_notice(struct dt_notice *n, const struct dt_attempt *t, const struct dt_culprit *c)
{
    struct dt_scene scene = dt_attempt_scene(t);
    dt_notice_make(n, &scene, c->local_rank, dt_group_worker(dt_attempt_group(t), c->local_rank));
}

void dt_aftermath_tell(const struct dt_attempt *t, const struct dt_culprit *c, struct dt_backend *b)
{
    struct dt_notice n;
    if (!b->ops->found)
        return;
    make_notice(&n, t, c);
    b->ops->found(b, &n.result);
}

void dt_aftermath_confess(const struct dt_attempt *t, struct dt_backend *b)
{
    struct dt_culprit c;
    struct dt_scene scene = dt_attempt_scene(t);
    if (dt_verdict_find_confession(&scene, dt_attempt_group(t), &c))
        dt_aftermath_tell(t, &c, b);
}

/* Other nodes of a static job might go on waiting for one that ends: they have their own restarts.
 */
bool dt_aftermath_is_futile(struct dt_aftermath *m, const struct dt_attempt *t,
                            const struct dt_verdict *v)
{
    struct dt_notice n;
    char words[DT_VERDICT_SENTENCE];
    make_notice(&n, t, &v->culprit);
    enum dt_futility_answer answer = dt_futility_note(&m->futility, &n.result);
    if (answer == DT_FUTILITY_NOT_KNOWN || m->plan->retry_deterministic || m->plan->max_nodes > 1)
        return false;
    dt_warn("%s; %s", dt_verdict_sentence(v, dt_attempt_group(t), words, sizeof words),
            dt_futility_text(answer));
    return true;
}

static void write_record(const struct dt_aftermath *m, const char *cause, const char *decided,
                         const struct dt_verdict *v)
{
    struct dt_err err;
    if (dt_round_file_write(m->logs, &m->record, cause, decided, v, &err) < 0)
        dt_warn("%s", err.text);
}

void dt_aftermath_begin(struct dt_aftermath *m, const struct dt_world *world, int workers)
{
    m->record = (struct dt_round_record){.round = world->round,
                                         .nodes = world->group_size,
                                         .ranks = world->size,
                                         .first_rank = world->first_rank,
                                         .ranks_here = workers,
                                         .began_us = dt_clock_wall_us(),
                                         .step = -1};
    m->open = true;
    write_record(m, NULL, NULL, NULL);
}

void dt_aftermath_end(struct dt_aftermath *m, int64_t step)
{
    m->record.ended_us = dt_clock_wall_us();
    m->record.step = step;
}

void dt_aftermath_note(struct dt_aftermath *m, const char *cause, const char *decided,
                       const struct dt_verdict *v)
{
    if (!m->open)
        return;
    m->open = false;
    write_record(m, cause, decided, v);
}

int dt_aftermath_deliver(const struct dt_aftermath *m, const struct dt_verdict *v, bool report)
{
    char line[DT_WHY_MAX + 16];
    if (report)
        return dt_verdict_deliver(v, m->plan, *m->cause ? m->cause : NULL);
    if (*m->cause) {
        snprintf(line, sizeof line, "root cause: %s\n", m->cause);
        dt_log_plain(line);
    }
    return 0;
}
