/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts of a fleet are there, and what follows for the whole: when the job may begin, when it
 * has to end, and how it ended. Pure.
 *
 *    CALLED --here--> HERE --begins--> AT_WORK --left--> GONE
 *       +---------------+-----------------left-----------^      */
#ifndef DT_LAUNCHER_FLEET_ROLL_H
#define DT_LAUNCHER_FLEET_ROLL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum dt_roll_state { DT_ROLL_CALLED, DT_ROLL_HERE, DT_ROLL_AT_WORK, DT_ROLL_GONE };

struct dt_roll_host {
    enum dt_roll_state state;
    bool worked;    /* it was AT_WORK */
    bool cut_off;   /* its launch agent ended without that of dtrun there */
    bool dismissed; /* we had told it to end by then, and its status says no more than that */
    int status;
};

struct dt_roll {
    struct dt_roll_host *hosts;
    size_t count;
    size_t least;   /* so many the job needs to go on */
    size_t wanted;  /* so many have to end well */
    int vague;      /* the status that says less than any other; the owner may set another than 1 */
    bool lost;      /* all were told that the job is */
    bool dismissed; /* all were told to end */
    size_t first;   /* whose failure counts; COUNT: nobody's yet */
};

int dt_roll_init(struct dt_roll *r, size_t count, size_t least, size_t wanted, struct dt_err *err);
void dt_roll_finish(struct dt_roll *r);

/* Host I has said hello, or has got its order. */
void dt_roll_note_here(struct dt_roll *r, size_t i);
void dt_roll_note_begins(struct dt_roll *r, size_t i);
/* Host I has left; CUT_OFF: it could not say with which STATUS its part of the job ended. */
void dt_roll_note_left(struct dt_roll *r, size_t i, int status, bool cut_off);
/* All are about to be told that too few are left; they may still say why. */
void dt_roll_note_lost(struct dt_roll *r);
/* All are about to be told to end. */
void dt_roll_note_dismissed(struct dt_roll *r);

/* All are HERE: the job may begin. */
bool dt_roll_is_complete(const struct dt_roll *r);
/* Those that work, or have done their work, are too few to go on: nobody comes any more. */
bool dt_roll_is_short(const struct dt_roll *r);
size_t dt_roll_left_over(const struct dt_roll *r); /* that work, or have done their work */
bool dt_roll_is_empty(const struct dt_roll *r);    /* all are GONE */

/* Of the whole: 0 when as many hosts as WANTED ended well and none failed by itself, else that of
 * the failure that counts. The host that failed first is that one, but one that is VAGUE says less
 * than any other: an agent exits with 1 because another node failed, too. */
int dt_roll_status(const struct dt_roll *r);

#endif
