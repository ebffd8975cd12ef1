/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/roll.h"

#include "base/log.h"

#include <stdlib.h>

int dt_roll_init(struct dt_roll *r, size_t count, size_t least, size_t wanted, struct dt_err *err)
{
    *r = (struct dt_roll){
        .count = count, .least = least, .wanted = wanted, .vague = 1, .first = count};
    r->hosts = calloc(count ? count : 1, sizeof *r->hosts);
    return r->hosts ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for %zu hosts", count);
}

void dt_roll_finish(struct dt_roll *r)
{
    free(r->hosts);
    *r = (struct dt_roll){0};
}

static void enter(struct dt_roll_host *h, enum dt_roll_state to)
{
    static const bool moves[DT_ROLL_GONE + 1][DT_ROLL_GONE + 1] = {
        [DT_ROLL_CALLED] = {[DT_ROLL_HERE] = true, [DT_ROLL_GONE] = true},
        [DT_ROLL_HERE] = {[DT_ROLL_AT_WORK] = true, [DT_ROLL_GONE] = true},
        [DT_ROLL_AT_WORK] = {[DT_ROLL_GONE] = true},
    };
    if (!moves[h->state][to]) {
        dt_bug("a host of the fleet goes from state %d to %d", (int)h->state, (int)to);
        return;
    }
    h->state = to;
}

void dt_roll_note_here(struct dt_roll *r, size_t i)
{
    enter(&r->hosts[i], DT_ROLL_HERE);
}

void dt_roll_note_begins(struct dt_roll *r, size_t i)
{
    enter(&r->hosts[i], DT_ROLL_AT_WORK);
    r->hosts[i].worked = true;
}

/* At its work, by itself, and not because we told it to end. */
static bool failed(const struct dt_roll_host *h)
{
    return h->worked && !h->dismissed && !h->cut_off && h->status != 0;
}

void dt_roll_note_left(struct dt_roll *r, size_t i, int status, bool cut_off)
{
    struct dt_roll_host *h = &r->hosts[i];
    enter(h, DT_ROLL_GONE);
    h->status = status;
    h->cut_off = cut_off;
    h->dismissed = r->dismissed || (r->lost && status == r->vague);
    if (failed(h) &&
        (r->first == r->count || (r->hosts[r->first].status == r->vague && status != r->vague)))
        r->first = i;
}

void dt_roll_note_lost(struct dt_roll *r)
{
    r->lost = true;
}

void dt_roll_note_dismissed(struct dt_roll *r)
{
    r->dismissed = true;
}

static size_t count_in(const struct dt_roll *r, enum dt_roll_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++)
        n += r->hosts[i].state == state;
    return n;
}

static size_t count_done(const struct dt_roll *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct dt_roll_host *h = &r->hosts[i];
        n += h->state == DT_ROLL_GONE && h->worked && !h->cut_off && h->status == 0;
    }
    return n;
}

bool dt_roll_is_complete(const struct dt_roll *r)
{
    return count_in(r, DT_ROLL_HERE) == r->count;
}

size_t dt_roll_left_over(const struct dt_roll *r)
{
    return count_in(r, DT_ROLL_AT_WORK) + count_done(r);
}

bool dt_roll_is_short(const struct dt_roll *r)
{
    return dt_roll_left_over(r) < r->least;
}

bool dt_roll_is_empty(const struct dt_roll *r)
{
    return count_in(r, DT_ROLL_GONE) == r->count;
}

int dt_roll_status(const struct dt_roll *r)
{
    if (r->first < r->count)
        return r->hosts[r->first].status;
    return count_done(r) >= r->wanted ? 0 : 1;
}
