/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the rendezvous, on a thread: an answer may take as long as --timeout, and keys are heard
 * meanwhile. One question at a time; all calls come from one thread. */
#ifndef DT_CTL_TOP_FEED_H
#define DT_CTL_TOP_FEED_H

#include "ctl/options.h"
#include "ctl/pages.h"
#include "ctl/top/events.h"

#include <stdbool.h>

struct dt_feed;

enum dt_feed_asked {
    DT_FEED_NEWS, /* status and events */
    DT_FEED_LOOK, /* what workers do */
};

struct dt_feed_question {
    enum dt_feed_asked asked;
    char run[DT_RUN_ID_MAX]; /* NEWS: "" all; LOOK: the one */
    struct dt_rank_range ranks;
    size_t ranks_len; /* LOOK: 1, or 0 for all ranks */
};

struct dt_feed_answer {
    enum dt_feed_asked asked;
    bool failed;                 /* ERR says why; LOOK may have TEXT nevertheless */
    struct dt_err err;           /* of its own */
    struct dt_ctl_pages pages;   /* NEWS */
    struct dt_top_events events; /* NEWS: what happened since the last answer ... */
    bool anew;                   /* ... or, on another connection, all that is kept */
    struct dt_buf text;          /* LOOK */
};

void dt_feed_answer_finish(struct dt_feed_answer *a);

/* The rendezvous that O names. O and TOKEN (NULL: none) are copied. NULL and *err. */
struct dt_feed *dt_feed_open(const struct dt_ctl_options *o, const struct dt_token *token,
                             struct dt_err *err);
/* Does not wait for an answer that is due: the thread is left to the end of the process then, and
 * what it has with it. */
void dt_feed_close(struct dt_feed *f);

/* False: an answer is due already. */
bool dt_feed_ask(struct dt_feed *f, const struct dt_feed_question *q);
bool dt_feed_is_busy(const struct dt_feed *f);

/* Readable when the answer is there. */
int dt_feed_fd(const struct dt_feed *f);
/* The answer is the caller's, to be finished. False: it is not there yet. */
bool dt_feed_take(struct dt_feed *f, struct dt_feed_answer *a);

#endif
