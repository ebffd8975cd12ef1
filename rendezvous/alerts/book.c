/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/alerts/book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dt_alert_book_init(struct dt_alert_book *b)
{
    b->at = calloc(DT_ALERTS_MOST, sizeof *b->at);
    return b->at ? 0 : -1;
}

void dt_alert_book_finish(struct dt_alert_book *b)
{
    free(b->at);
    b->at = NULL;
}

/* -- places ----------------------------------------------------------------------------------- */

static const char *text(const char *s)
{
    return s ? s : "";
}

static bool is_of(const struct dt_alert *a, const struct dt_event *e)
{
    switch (a->rule->scope) {
    case DT_ALERT_OF_SERVER:
        return true;
    case DT_ALERT_OF_RUN:
        return strcmp(a->run, text(e->run)) == 0;
    case DT_ALERT_OF_NODE:
        return strcmp(a->node, text(e->node)) == 0;
    }
    return false;
}

static struct dt_alert *find(struct dt_alert_book *b, const struct dt_alert_rule *rule,
                             const struct dt_event *e)
{
    for (struct dt_alert *a = b->at; a < b->at + DT_ALERTS_MOST; a++)
        if (a->rule == rule && is_of(a, e))
            return a;
    return NULL;
}

/* People know all there is to know of it. */
static bool is_settled(const struct dt_alert *a)
{
    return !a->open && !a->told;
}

/* A free place, else that of the alert of which nothing has been heard for longest: first among
 * those that are over. */
static struct dt_alert *make_room(struct dt_alert_book *b)
{
    struct dt_alert *oldest = b->at;
    for (struct dt_alert *a = b->at; a < b->at + DT_ALERTS_MOST; a++) {
        if (!a->rule)
            return a;
        bool better = is_settled(a) && !is_settled(oldest);
        if (better || (is_settled(a) == is_settled(oldest) && a->touched < oldest->touched))
            oldest = a;
    }
    return oldest;
}

static void note_changed(struct dt_alert_book *b, const struct dt_alert *a, dt_ms now)
{
    if (b->on_changed)
        b->on_changed(b->arg, (size_t)(a - b->at), a, now);
}

static struct dt_alert *find_or_add(struct dt_alert_book *b, const struct dt_alert_rule *rule,
                                    const struct dt_event *e, dt_ms now)
{
    struct dt_alert *a = find(b, rule, e);
    if (a)
        return a;
    a = make_room(b);
    bool was_open = a->open;
    *a = (struct dt_alert){.rule = rule, .told_at = -1};
    if (was_open)
        note_changed(b, a, now);
    return a;
}

/* -- telling ---------------------------------------------------------------------------------- */

static struct dt_notice notice_of(const struct dt_alert *a, enum dt_notice_state state)
{
    return (struct dt_notice){
        .state = state,
        .rule = a->rule->name,
        .advice = a->rule->advice,
        .scope = a->rule->scope,
        .weight = a->rule->weight,
        .run = a->run,
        .node = a->node,
        .round = a->round,
        .rank = a->rank,
        .words = a->words,
        .times = a->times > 0 ? a->times : 1,
        .raised_us = a->raised_us,
        .over_us = a->over_us,
        .lasts = a->rule->ended_by != 0,
    };
}

static void tell(struct dt_alert_book *b, struct dt_alert *a, enum dt_notice_state state, dt_ms now)
{
    struct dt_notice n = notice_of(a, state);
    a->told = state == DT_NOTICE_RAISED && a->rule->ended_by != 0;
    if (state == DT_NOTICE_RAISED)
        a->told_at = now;
    a->times = 0;
    note_changed(b, a, now);
    b->on_notice(b->arg, &n);
}

/* It has happened since people were told last. */
static bool has_news(const struct dt_alert *a)
{
    return a->open && a->times > 0;
}

static dt_ms may_be_told(const struct dt_alert_book *b, const struct dt_alert *a)
{
    dt_ms cool = a->told_at < 0 ? 0 : dt_clock_after(a->told_at, b->cooldown);
    dt_ms lasted = dt_clock_after(a->opened, a->rule->lasting);
    return cool > lasted ? cool : lasted;
}

static void tell_if_due(struct dt_alert_book *b, struct dt_alert *a, dt_ms now)
{
    if (!has_news(a) || now < may_be_told(b, a))
        return;
    a->open = a->rule->ended_by != 0;
    tell(b, a, DT_NOTICE_RAISED, now);
}

/* -- events ----------------------------------------------------------------------------------- */

/* Whether enough of them have come soon enough after each other. */
static bool is_enough(struct dt_alert *a, dt_ms now)
{
    int last = a->rule->times - 1;
    if (a->rule->within == 0 || a->open)
        return true;
    memmove(&a->came[1], &a->came[0], (size_t)last * sizeof a->came[0]);
    a->came[0] = now;
    if (a->came_len <= last)
        a->came_len++;
    return a->came_len > last && now - a->came[last] <= a->rule->within;
}

static void raise_alert(struct dt_alert_book *b, const struct dt_alert_rule *rule,
                        const struct dt_event *e, dt_ms now)
{
    struct dt_alert *a = find_or_add(b, rule, e, now);
    a->touched = now;
    snprintf(a->run, sizeof a->run, "%s", text(e->run));
    snprintf(a->node, sizeof a->node, "%s", text(e->node));
    snprintf(a->words, sizeof a->words, "%s", text(e->words));
    a->round = e->round;
    a->rank = e->rank;
    a->times++;
    if (!is_enough(a, now))
        return;
    a->over_us = 0;
    if (!a->open) {
        a->raised_us = e->at_us;
        a->opened = now;
        a->open = true;
        note_changed(b, a, now);
    }
    tell_if_due(b, a, now);
}

static void end_alert(struct dt_alert_book *b, struct dt_alert *a, const struct dt_event *e,
                      dt_ms now)
{
    if (!a->open)
        return;
    a->open = false;
    a->came_len = 0;
    a->touched = now;
    a->over_us = e->at_us;
    note_changed(b, a, now);
    if (a->told)
        tell(b, a, DT_NOTICE_OVER, now);
    a->times = 0;
}

void dt_alert_book_take(struct dt_alert_book *b, const struct dt_event *e, dt_ms now)
{
    uint64_t kind = UINT64_C(1) << e->kind;
    for (struct dt_alert *a = b->at; a < b->at + DT_ALERTS_MOST; a++)
        if (a->rule && a->rule->ended_by & kind && is_of(a, e))
            end_alert(b, a, e, now);
    for (size_t i = 0; i < dt_alert_rules_len; i++)
        if (dt_alert_rules[i].raised_by == e->kind && dt_alert_rules[i].weight >= b->least)
            raise_alert(b, &dt_alert_rules[i], e, now);
}

void dt_alert_book_tick(struct dt_alert_book *b, dt_ms now)
{
    for (struct dt_alert *a = b->at; a < b->at + DT_ALERTS_MOST; a++)
        if (a->rule)
            tell_if_due(b, a, now);
}

dt_ms dt_alert_book_next(const struct dt_alert_book *b)
{
    dt_ms next = DT_FOREVER;
    for (const struct dt_alert *a = b->at; a < b->at + DT_ALERTS_MOST; a++)
        if (a->rule && has_news(a) && may_be_told(b, a) < next)
            next = may_be_told(b, a);
    return next;
}

bool dt_alert_book_next_raised(const struct dt_alert_book *b, size_t *cursor, struct dt_notice *n)
{
    while (*cursor < DT_ALERTS_MOST) {
        const struct dt_alert *a = &b->at[(*cursor)++];
        if (!a->rule || !a->told)
            continue;
        *n = notice_of(a, DT_NOTICE_RAISED);
        return true;
    }
    return false;
}

size_t dt_alert_book_count(const struct dt_alert_book *b, const struct dt_alert_rule *rule)
{
    size_t n = 0;
    for (const struct dt_alert *a = b->at; a < b->at + DT_ALERTS_MOST; a++)
        n += a->rule == rule && a->open;
    return n;
}
