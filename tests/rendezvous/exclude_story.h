/* SPDX-License-Identifier: Apache-2.0 */
/* What is noted against nodes, under a policy of three strikes and ten minutes. */
#ifndef DT_TESTS_RENDEZVOUS_EXCLUDE_STORY_H
#define DT_TESTS_RENDEZVOUS_EXCLUDE_STORY_H

#include "rendezvous/rdzv/exclude.h"
#include "tests/lib/check.h"

#define PROGRAM DT_EVIDENCE_PROGRAM
#define CRASH DT_EVIDENCE_CRASH
#define OFFLINE DT_EVIDENCE_OFFLINE
#define PREEMPTED DT_EVIDENCE_PREEMPTED
#define HARDWARE DT_EVIDENCE_HARDWARE

#define MINUTE (60 * DT_SECOND)
#define HOUR (60 * MINUTE)
#define LENGTH (10 * MINUTE)
#define LONGEST_JITTERED (LENGTH + LENGTH / 8)

/* Three strikes, ten minutes. */
static inline enum dt_exclude_outcome note(struct dt_exclude *x, const char *node,
                                           enum dt_evidence evidence, const char *signature,
                                           dt_ms now)
{
    return dt_exclude_note(x, node, evidence, signature, 3, LENGTH, now);
}

static inline bool is_out(const struct dt_exclude *x, const char *node, dt_ms now)
{
    return dt_exclude_is_out(x, node, now, NULL);
}

static inline const char *why_of(const struct dt_exclude *x, const char *node, dt_ms now)
{
    const char *why = "it is not out";
    dt_exclude_is_out(x, node, now, &why);
    return why;
}

static inline int strikes_of(const struct dt_exclude *x, const char *node)
{
    const struct dt_excluded *e = dt_exclude_find(x, node);
    return e ? e->strikes : 0;
}

/* Bans NODE by hard evidence, and returns until when. */
static inline dt_ms ban(struct dt_exclude *x, const char *node, dt_ms now)
{
    CHECK_EQ(note(x, node, HARDWARE, "", now), DT_EXCLUDE_BANNED);
    return dt_exclude_find(x, node)->until;
}

#endif
