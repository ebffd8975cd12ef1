/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes are kept out, why, and until when: quarantine by evidence, drain by a person. Pure;
 * one for all runs of a server, since a sick node is sick for all.
 *
 * Hard evidence excludes at once. Soft evidence is a strike: enough of them within an hour exclude.
 * The first exclusion lasts as the policy says, each further one twice as long, up to a day, with a
 * little jitter. Who comes back is on probation for a day: one strike excludes again. The same
 * signature on three different nodes is the program or the fabric, and all three are forgiven.
 * Going offline is a strike; being preempted, drained, or failing as a program does, is none. A
 * node whose workers fail as soon as it has joined a job that ran without it is out at once: see
 * dt_exclude_reject().
 *
 * That exclusion must not leave a job with fewer nodes than it needs is the rendezvous' affair. */
#ifndef DT_RENDEZVOUS_RDZV_EXCLUDE_H
#define DT_RENDEZVOUS_RDZV_EXCLUDE_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "rendezvous/protocol/messages.h"

#define DT_STRIKE_WINDOW (3600 * DT_SECOND)
#define DT_EXCLUDE_MOST (24 * 3600 * DT_SECOND)
#define DT_PROBATION (24 * 3600 * DT_SECOND)
#define DT_STRIKES_KEPT 8 /* a higher limit means this one */
#define DT_STRIKE_NODES 3 /* so many with one signature are forgiven */
/* Of nodes that did something, and apart from them of nodes that a person drained. Beyond, those
 * are forgotten of whom nothing is in force. */
#define DT_NODES_REMEMBERED 65536
/* Once so many are drained, only a node that is there is drained. Whoever reaches a server without
 * a token can invent names, and a person who drains a real node must find room. */
#define DT_DRAINED_UNKNOWN 1000

struct dt_excluded {
    struct dt_map_node in_map;
    struct dt_node in_banned;  /* linked: UNTIL is set */
    struct dt_node in_drained; /* linked: DRAINED is */
    char name[DT_NODE_NAME_MAX];
    bool drained;
    char drained_why[DT_WHY_MAX];
    dt_ms since, until;   /* of the quarantine; until 0, or over: none */
    bool hard;            /* it: no strikes led to it */
    uint64_t all_of;      /* it: the signature that all strikes behind it have; 0: no such */
    dt_ms probation;      /* until; 0: none */
    int bans;             /* so far */
    char why[DT_WHY_MAX]; /* of the quarantine, with its evidence */
    int strikes;          /* those below */
    struct {
        dt_ms at;
        uint64_t signature; /* hash; 0: none */
    } strike[DT_STRIKES_KEPT];
};

/* Of all who are remembered few are out, and those are on one of the lists, or both. */
struct dt_exclude {
    struct dt_map nodes;
    struct dt_list banned, drained;
    size_t drained_count;
    uint64_t jitter; /* state of its random numbers */
};

/* SEED: of the jitter, so that a simulation repeats. */
void dt_exclude_init(struct dt_exclude *x, uint64_t seed);
void dt_exclude_finish(struct dt_exclude *x);

enum dt_exclude_outcome {
    DT_EXCLUDE_NOTHING, /* no strike */
    DT_EXCLUDE_STRIKE,
    DT_EXCLUDE_BANNED,   /* from now on */
    DT_EXCLUDE_FORGIVEN, /* as the same happens everywhere */
    DT_EXCLUDE_NO_MEMORY,
};
/* What NODE did. LIMIT strikes exclude for LENGTH; LIMIT 0: nobody is ever excluded. SIGNATURE: of
 * a crash, what failed; of going offline, the run. After FORGIVEN the records of other nodes have
 * changed too. */
enum dt_exclude_outcome dt_exclude_note(struct dt_exclude *x, const char *node,
                                        enum dt_evidence evidence, const char *signature, int limit,
                                        dt_ms length, dt_ms now);

/* No node of RUN is left: it was killed as a whole, and that those which went offline since SINCE
 * did so is no strike. How many these are; their records have changed. */
size_t dt_exclude_forgive_lost(struct dt_exclude *x, const char *run, dt_ms since, dt_ms now);

/* NODE joined a job that ran well without it, and its workers failed at once, as TEXT says. */
enum dt_exclude_outcome dt_exclude_reject(struct dt_exclude *x, const char *node, const char *text,
                                          dt_ms length, dt_ms now);

/* Whether NODE is out at NOW; *WHY (may be NULL) is good until the next call that changes X. */
bool dt_exclude_is_out(const struct dt_exclude *x, const char *node, dt_ms now, const char **why);
/* How long NODE is out, how to end that, and why, behind "NODE is kept out": `for 9 min ("dtrun-ctl
 * node undrain NODE" ends that): WHY`. "": it is not. */
void dt_exclude_describe(const struct dt_exclude *x, const char *node, dt_ms now, char *out,
                         size_t size);
bool dt_exclude_is_drained(const struct dt_exclude *x, const char *node);
/* Lower is less bad: for who must be taken nevertheless. Drained nodes are worst. */
int64_t dt_exclude_badness(const struct dt_exclude *x, const char *node, dt_ms now);
/* When the next quarantine ends; DT_FOREVER: none. */
dt_ms dt_exclude_next(const struct dt_exclude *x, dt_ms now);

/* -1: no memory. UNDO takes a quarantine back as well, and forgets the node. */
int dt_exclude_drain(struct dt_exclude *x, const char *node, bool undo, const char *why, dt_ms now);

/* A node that is drained or in quarantine, or NULL; good until the next call that changes X. */
const char *dt_exclude_any_out(const struct dt_exclude *x);

const struct dt_excluded *dt_exclude_find(const struct dt_exclude *x, const char *node);

/* For the journal: one node's record as bytes, times relative to NOW; and back, AWAY later. False:
 * no such record. */
void dt_exclude_save(const struct dt_excluded *e, struct dt_buf *out, dt_ms now);
bool dt_exclude_restore(struct dt_exclude *x, struct dt_bytes record, dt_ms now, dt_ms away);

#endif
