/* SPDX-License-Identifier: Apache-2.0 */
/* The last events of a server, numbered 1, 2, ... without end, and those who follow them. Bounded
 * in count and bytes: the oldest go. One thread; no socket, no file, no clock. */
#ifndef DT_RENDEZVOUS_EVENTS_CHRONICLE_H
#define DT_RENDEZVOUS_EVENTS_CHRONICLE_H

#include "base/list.h"
#include "rendezvous/events/event.h"

#include <stddef.h>

#define DT_CHRONICLE_MOST 4096             /* events that are kept */
#define DT_CHRONICLE_MOST_BYTES (2u << 20) /* ... and their bytes, each with its strings */

struct dt_chronicle_follower {
    struct dt_node in_all; /* the chronicle's */
    /* E is good until this returns. Nothing may be added in here; F may unfollow itself. */
    void (*on_event)(struct dt_chronicle_follower *f, const struct dt_event *e);
};

struct dt_chronicle {
    struct dt_chronicle_entry **ring; /* of DT_CHRONICLE_MOST places */
    size_t first, len;                /* the place of the oldest; how many there are */
    size_t bytes;
    uint64_t last; /* the number that was given last; 0: none was */
    struct dt_list followers;
};

/* -1: no memory. Zeroed memory may be finished too. */
int dt_chronicle_init(struct dt_chronicle *c);
void dt_chronicle_finish(struct dt_chronicle *c); /* who followed does so no more */

/* Gives E, whose time is the caller's, the next number, keeps a copy of it and of its strings, and
 * hands it to all who follow. Where memory is out they get it all the same, and it is not kept. */
void dt_chronicle_add(struct dt_chronicle *c, struct dt_event *e);
/* E as it was added before a restart: keeps a copy, and later numbers go on behind its own. Nobody
 * follows yet. False: a number that is not above all others, or no memory. */
bool dt_chronicle_restore(struct dt_chronicle *c, const struct dt_event *e);

/* The oldest event that is kept and newer than NUMBER; NULL: there is none. It is good until the
 * next one is added. One whose number is not NUMBER + 1 says that those between are gone. */
const struct dt_event *dt_chronicle_after(const struct dt_chronicle *c, uint64_t number);

/* The number before that of the server's last start: what is newer happened in this process. 0
 * where no start is kept. */
uint64_t dt_chronicle_before_start(const struct dt_chronicle *c);

/* F is the caller's, and gets all that is added from now on. */
void dt_chronicle_follow(struct dt_chronicle *c, struct dt_chronicle_follower *f);
/* Fine for zeroed memory, and for who does not follow. */
void dt_chronicle_unfollow(struct dt_chronicle_follower *f);

#endif
