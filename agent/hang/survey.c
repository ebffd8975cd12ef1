/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/survey.h"

#include "agent/hang/calls.h"
#include "agent/hang/keys.h"
#include "agent/hang/native_calls.h"
#include "agent/hang/posture.h"
#include "agent/hang/recorders.h"
#include "agent/look/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void know_nothing(struct dt_stance *s, enum dt_doing doing, const char *why)
{
    *s = (struct dt_stance){.doing = doing, .sequence = -1, .step = -1};
    snprintf(s->detail, sizeof s->detail, "%.*s", (int)sizeof s->detail - 1, why);
}

/* The two number collectives in their own ways, so a worker that has a flight recorder is known by
 * that alone, and compared with others that have one. */
static void tell_collectives(const struct dt_survey_worker *w, struct dt_stance *s,
                             struct dt_buf *stacks)
{
    struct dt_flight flight;
    if (!w->dump) {
        dt_calls_tell(&w->comms, s);
    } else if (dt_recorders_read(w->dump, &flight)) {
        dt_flight_tell(&flight, s);
        dt_flight_put_text(&flight, stacks);
    }
    dt_calls_put_text(&w->comms, stacks);
}

static void look_at(const struct dt_survey_worker *w, struct dt_keys *keys, struct dt_stance *s,
                    struct dt_buf *stacks)
{
    struct dt_look look;
    struct dt_err err = {0};
    if (dt_look_at(&look, w->pid, &err) < 0) {
        know_nothing(s, DT_DOING_UNKNOWN, err.text);
        dt_buf_printf(stacks, "%s\n", err.text);
    } else {
        dt_posture_of(&look, w->page.seen ? &w->page : NULL, s);
        dt_look_print(&look, stacks);
        dt_keys_tell(keys, &look, s, stacks);
        tell_collectives(w, s, stacks);
    }
    dt_look_finish(&look);
}

/* Where it stood in the moment of the look is but one of these lines. */
static void tell_round(const struct dt_survey_worker *w, struct dt_stance *s)
{
    const char *colon = strrchr(s->where, ':');
    int line = colon ? atoi(colon + 1) : 0;
    if (w->round.last == 0 || line == 0 || s->doing < DT_DOING_DISK)
        return;
    s->first_line = line < w->round.first ? line : w->round.first;
    s->last_line = line > w->round.last ? line : w->round.last;
    if (w->round.first == w->round.last)
        s->first_line = s->last_line = line;
}

static void take_one(const struct dt_survey_worker *w, dt_ms end, struct dt_keys *keys,
                     struct dt_stance *s, struct dt_buf *stacks)
{
    if (!w->pid) {
        know_nothing(s, DT_DOING_LEFT, w->left);
        dt_buf_printf(stacks, "%s\n", w->left);
    } else if (dt_clock_monotonic() >= end) {
        know_nothing(s, DT_DOING_UNKNOWN, "there was no time to look at it");
        dt_buf_printf(stacks, "%s\n", s->detail);
    } else {
        look_at(w, keys, s, stacks);
    }
    tell_round(w, s);
    s->step = w->page.step;
    s->still = w->still;
}

int dt_survey_take(const struct dt_survey_worker *workers, int count, int store_port, bool native,
                   struct dt_stances *out, struct dt_buf *stacks, struct dt_err *err)
{
    dt_ms end = dt_clock_monotonic() + DT_LOOK_TIME_MAX;
    struct dt_keys keys = {.port = store_port};
    struct dt_stance *each = calloc((size_t)count, sizeof *each);
    int rc = each ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for what %d workers do", count);
    for (int i = 0; i < count && rc == 0; i++) {
        dt_buf_printf(stacks, "%s-- rank %d --\n", i ? "\n" : "", workers[i].rank);
        take_one(&workers[i], end, &keys, &each[i], stacks);
    }
    if (native && rc == 0)
        dt_native_calls_tell(workers, count, each);
    for (int i = 0; i < count && rc == 0; i++)
        rc = dt_stances_add(out, &each[i], workers[i].rank, err);
    dt_keys_finish(&keys);
    free(each);
    if (rc < 0)
        return rc;
    return stacks->bad ? dt_err_set(err, DT_E_MEMORY, "no memory for what the workers do") : 0;
}
