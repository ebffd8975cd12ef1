/* SPDX-License-Identifier: Apache-2.0 */
/* What a presence consists of, for its three files:
 *
 *     presence.c  the clock, being away, the end, and what the owner wishes
 *     news.c      what the session calls for, told to the owner
 *     link.c      what becomes of the connection */
#ifndef DT_AGENT_BACKEND_ELASTIC_INSIDE_H
#define DT_AGENT_BACKEND_ELASTIC_INSIDE_H

#include "agent/backend/elastic/control.h"
#include "agent/backend/elastic/presence.h"
#include "agent/backend/elastic/remarks.h"
#include "agent/backend/elastic/session/session.h"
#include "base/loop/ending.h"

/* What the session called for. It is told when the session is through. */
enum dt_news_kind {
    DT_NEWS_NONE,
    DT_NEWS_WORLD,
    DT_NEWS_STOP,
    DT_NEWS_CLOSED,
    DT_NEWS_LOOK,
    DT_NEWS_KEEP,
    DT_NEWS_FINDING,
    DT_NEWS_STRAGGLER
};

struct dt_presence {
    uv_loop_t *loop;
    struct dt_presence_config config;
    struct dt_session session;
    struct dt_control *control; /* NULL once it is over */
    struct dt_remarks remarks;
    bool hosted; /* by an agent */
    bool was_up;
    bool joining; /* a world is wanted */
    bool had_world, in_barrier;
    struct dt_err gave_up;                          /* once it is over: why there is no world */
    uv_timer_t soon;                                /* answers a join then, or ends the parting */
    char refusal[sizeof((struct dt_err *)0)->text]; /* why it does not want us now; "": it was not
                                                       heard to say so */
    struct {
        enum dt_news_kind what;
        struct dt_world world;
        enum dt_stop_how how;
        enum dt_close_kind kind;
        char why[DT_WHY_MAX];
        int64_t look;
        bool native;
        const struct dt_finding_message *finding; /* of the frame that is being heard */
        bool holds_up;
    } news;
    dt_ms lease;      /* as the owner was told; DT_FOREVER: not yet */
    dt_ms since;      /* it was opened */
    dt_ms wanted;     /* since then a world, or that the others are done */
    uv_timer_t tick;  /* the session's, and the end of being away */
    uv_timer_t notes; /* says what is waited for */
    struct {
        bool is; /* asked to close, with remarks that nobody has heard */
        void (*on_closed)(void *arg);
        void *arg;
    } parting;
    struct dt_ending ending;
};

static inline dt_ms dt_presence_now(const struct dt_presence *p)
{
    return (dt_ms)uv_now(p->loop);
}

/* -- presence.c ------------------------------------------------------------------------------- */

/* What is waited for is said now and then, until the rendezvous is there. */
void dt_presence_start_notes(struct dt_presence *p);
/* After each call of the session's from the loop: the next tick, and what it called for is told. */
void dt_presence_settle(struct dt_presence *p);
/* There will never be a world again. Who had one may have a failure to report. */
void dt_presence_give_up(struct dt_presence *p, enum dt_close_kind kind, const struct dt_err *why);
/* Asked to close, it does so now. False: it stays. */
bool dt_presence_part(struct dt_presence *p);

/* -- news.c ----------------------------------------------------------------------------------- */

extern const struct dt_session_ops dt_presence_session_ops;
void dt_presence_tell_news(struct dt_presence *p);

/* -- link.c ----------------------------------------------------------------------------------- */

extern const struct dt_control_events dt_presence_control_events;
/* A reason is told once, however often it is heard. */
void dt_presence_tell_refusal(struct dt_presence *p, const char *why);
/* Those that the rendezvous takes now. */
void dt_presence_tell_remarks(struct dt_presence *p);

#endif
