/* SPDX-License-Identifier: Apache-2.0 */
/* This folder finds out why a job stands still: which worker keeps the others waiting, and where.
 *
 * The judge: the stances of all workers in, a finding out. Pure. Who waits is never guilty: the
 * minority outside a collective is, or the ones that another worker's wait names. Where evidence
 * does not single anybody out, the finding says what is known and blames nobody. */
#ifndef DT_RENDEZVOUS_HANG_JUDGE_H
#define DT_RENDEZVOUS_HANG_JUDGE_H

#include "rendezvous/protocol/stance.h"

enum dt_hang_class {
    DT_HANG_NONE,       /* the stances explain no hang */
    DT_HANG_OUTSIDE,    /* some ranks are outside the collective in which others wait; or all are */
    DT_HANG_SKIPPED,    /* some have gone past that collective, to another one */
    DT_HANG_MISMATCH,   /* two different collectives at one time */
    DT_HANG_SHAPE,      /* the same collective, called with different sizes or types */
    DT_HANG_LEFT,       /* a rank has left */
    DT_HANG_STOPPED,    /* a rank is stopped */
    DT_HANG_CHILD,      /* a rank's own process is gone or stuck */
    DT_HANG_DISK,       /* a rank waits for a disk */
    DT_HANG_LOCK,       /* a rank waits for a thread of its own */
    DT_HANG_KEY,        /* others wait for a key of the store that one rank should have set */
    DT_HANG_NETWORK,    /* all are inside the same collective: a link or a GPU */
    DT_HANG_STARVED,    /* all wait for their data alike */
    DT_HANG_BUSY,       /* some compile, save or collect garbage: others wait, nobody is guilty */
    DT_HANG_LONG,       /* one has been in one function for long, and does not stand still */
    DT_HANG_UNREADABLE, /* those who are not known to wait could not be looked at */
    DT_HANG_CLASSES,
};
/* "outside", "mismatch", ...: as in verdict.json. */
const char *dt_hang_class_name(enum dt_hang_class c);

#define DT_HANG_SENTENCE_MAX 1024

struct dt_hang_finding {
    enum dt_hang_class class;
    bool guilty; /* GUILTY are to blame; else they are only who the others wait for */
    /* Into the stances: which group is outside, and which waits for it; -1: none. */
    int culprit, waiting;
    /* One line: who, where, since when; where the others are. Holds "rank N" and "FILE:LINE". */
    char sentence[DT_HANG_SENTENCE_MAX];
    char advice[DT_HANG_SENTENCE_MAX]; /* what to try: one line */
};

/* SIZE: of the world; ranks that no stance has are unknown. STILL: so long the job has stood. */
void dt_hang_judge(const struct dt_stances *stances, int size, dt_ms still,
                   struct dt_hang_finding *out);

#endif
