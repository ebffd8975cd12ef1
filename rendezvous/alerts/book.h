/* SPDX-License-Identifier: Apache-2.0 */
/* Which alerts are open, and when people are told of each: when it is raised, and when it is over.
 * What happens again, or comes and goes, is told again after a cooldown. Pure: events and the time
 * in, notices out. */
#ifndef DT_RENDEZVOUS_ALERTS_BOOK_H
#define DT_RENDEZVOUS_ALERTS_BOOK_H

#include "rendezvous/alerts/rule.h"
#include "rendezvous/protocol/messages.h"

#include <stdbool.h>

#define DT_ALERTS_MOST                                                                             \
    256 /* at a time; a further one takes the place of the oldest that is over                     \
         */

enum dt_notice_state { DT_NOTICE_RAISED, DT_NOTICE_OVER, DT_NOTICE_TEST, DT_NOTICE_STATES };

/* What people are told. Strings are good until the book's next call. */
struct dt_notice {
    enum dt_notice_state state;
    const char *rule, *advice;
    enum dt_alert_scope scope;
    enum dt_event_weight weight;
    const char *run, *node;     /* "": it is of none */
    int round, rank;            /* -1: of none */
    const char *words;          /* of the newest event */
    int times;                  /* events that raised it, since people were told last; at least 1 */
    int64_t raised_us, over_us; /* since 1970; over: 0 while it is not */
    bool lasts;                 /* its end will be told */
};

struct dt_alert {
    const struct dt_alert_rule *rule; /* NULL: the place is free */
    char run[DT_RUN_ID_MAX], node[DT_NODE_NAME_MAX], words[DT_WHY_MAX];
    int round, rank;
    bool open;                       /* it is so now ... */
    bool told;                       /* ... and people know that */
    int times;                       /* since they were told last */
    dt_ms came[DT_ALERT_TIMES_MOST]; /* when the last of RULE->times came, newest first */
    int came_len;
    dt_ms opened;  /* when it became so */
    dt_ms told_at; /* when they were told last; -1: never */
    dt_ms touched;
    int64_t raised_us, over_us;
};

struct dt_alert_book {
    dt_ms cooldown;
    enum dt_event_weight least; /* lighter rules are left out */
    void (*on_notice)(void *arg, const struct dt_notice *n);
    /* Whether A, at that place, is open has changed, or what people know of it: before they are
     * told. May be NULL. */
    void (*on_changed)(void *arg, size_t place, const struct dt_alert *a, dt_ms now);
    void *arg;
    struct dt_alert *at; /* of DT_ALERTS_MOST places */
};

/* The first block is the caller's to set before. -1: no memory. */
int dt_alert_book_init(struct dt_alert_book *b);
void dt_alert_book_finish(struct dt_alert_book *b);

void dt_alert_book_take(struct dt_alert_book *b, const struct dt_event *e, dt_ms now);
/* Tells what had to wait for a cooldown. */
void dt_alert_book_tick(struct dt_alert_book *b, dt_ms now);
/* When a tick is wanted; DT_FOREVER: not before the next event. */
dt_ms dt_alert_book_next(const struct dt_alert_book *b);
/* The alerts that people have been told of and whose end they have not been told: start with
 * *CURSOR 0; false: there are no more. The book must not change meanwhile. */
bool dt_alert_book_next_raised(const struct dt_alert_book *b, size_t *cursor, struct dt_notice *n);
/* How many alerts of a rule are open. */
size_t dt_alert_book_count(const struct dt_alert_book *b, const struct dt_alert_rule *rule);

#endif
