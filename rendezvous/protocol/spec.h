/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of a run agree on, described once, and the limits that all programs share. Pure.
 *
 * DT_RUN_SPEC has a row for each member. The struct is made of these rows, and so is all that
 * carries or shows a member: the message JOIN (messages.c), the record in the journal
 * (rdzv/record.c), --print-config, the check of what dtrun's options say, and the sentence about a
 * node that comes with another value than the first. One more number of a run is one more row here,
 * and one more option in launcher/options.c. */
#ifndef DT_RENDEZVOUS_PROTOCOL_SPEC_H
#define DT_RENDEZVOUS_PROTOCOL_SPEC_H

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "rendezvous/protocol/fields.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a rendezvous listens if nobody says otherwise. */
#define DT_RENDEZVOUS_PORT 29400
#define DT_RENDEZVOUS_LOOPBACK "127.0.0.1:" DT_STR_OF(DT_RENDEZVOUS_PORT)

/* Bytes, with the NUL. */
#define DT_NODE_NAME_MAX 128
#define DT_NODE_ADDR_MAX 256
#define DT_RUN_ID_MAX 256
#define DT_RUN_ID_OF_NOBODY "none" /* of each job that nobody named, as with torchrun */
#define DT_ROLE_MAX 64
#define DT_BOOT_MAX 48 /* of the id of a boot */

/* What may be asked of a rendezvous. What lies beyond would be a mistake, or malice: a server that
 * looks at a run every microsecond, or remembers for years whoever once said a word. */
#define DT_NODES_MOST (1 << 16)      /* in a world, and at a server */
#define DT_NODES_WISHED_MOST 1000000 /* as --nnodes and --spares have them: "however many come" */
#define DT_WORKERS_MOST (1 << 14)    /* of a node: an int counts those of the largest world */
#define DT_RANKS_MOST (DT_NODES_MOST * DT_WORKERS_MOST) /* of a world */
#define DT_RESTARTS_MOST (1 << 30)       /* of a job, whatever an agent says there were */
#define DT_STEPS_MOST DT_FIELD_WHOLE_MAX /* beyond that a step is no step */
#define DT_BEAT_LEAST ((dt_ms)10)
#define DT_BEAT_MOST (60 * DT_SECOND)
#define DT_BEATS_MOST 1000
#define DT_RECONNECT_GRACE_MOST (3600 * DT_SECOND)

/* ROW(kind, member, least, most, columns of struct dt_spec_look), or LATER() of the same.
 *
 *     NUMBER  int         TRUTH  bool         TEXT  char[most + 1]
 *     TIME    dt_ms       HASH   uint64_t
 *
 * The journal has the values without names, so a row stays where it is, and a new one goes to the
 * end. It is LATER: agents and records of older versions lack it, and then it is 0, false or "". */
/* clang-format off */
#define DT_RUN_SPEC(ROW, LATER)                                                                                       \
    ROW(NUMBER, min_nodes,       1,  DT_NODES_WISHED_MOST)                                                            \
    ROW(NUMBER, max_nodes,       1,  DT_NODES_WISHED_MOST)                                                            \
    /* Admitted beyond the world; all surplus parks anyway. */                                                        \
    ROW(NUMBER, spares,          0,  DT_NODES_WISHED_MOST,     .option = "spares", .label = "spares")                 \
    /* The world has min_nodes nodes, and the rest are spares. */                                                     \
    ROW(TRUTH,  fixed_world,     0,  1,                        .option = "spare-policy", .label = "spare policy",     \
                                                               .words = {"extra", "fixed"})                           \
    /* Seats anew in each round, by name. */                                                                          \
    ROW(TRUTH,  torchrun_ranks,  0,  1,                        .option = "rank-policy", .label = "rank policy",       \
                                                               .words = {"stable", "torchrun"})                       \
    /* Of the whole job. */                                                                                           \
    ROW(NUMBER, max_restarts,    0,  INT_MAX,                  .option = "max-restarts")                              \
    ROW(NUMBER, max_node_losses, -1, INT_MAX,                  .option = "max-node-losses", .label = "node losses",   \
                                                               .words = {"unlimited"})                                \
    /* Failed rounds in a row without a step until the job ends; 0: it never does. */                                 \
    ROW(NUMBER, no_progress,     0,  INT_MAX,                  .option = "no-progress-cycles",                        \
                                                               .label = "cycles without progress")                    \
    /* 0: nobody is excluded. */                                                                                      \
    ROW(NUMBER, strikes,         0,  INT_MAX,                  .option = "quarantine-after",                          \
                                                               .label = "strikes until quarantine")                   \
    /* The length of the first one. */                                                                                \
    ROW(TIME,   quarantine,      0,  DT_FIELD_FOREVER,         .option = "quarantine-time", .label = "quarantine")    \
    ROW(TIME,   join_timeout,    0,  DT_FIELD_FOREVER)                                                                \
    ROW(TIME,   last_call,       0,  DT_FIELD_FOREVER,         .label = "last call")                                  \
    /* keep_alive_interval, and keep_alive_max_attempt: how many may be missed. */                                    \
    ROW(TIME,   beat,            DT_BEAT_LEAST, DT_BEAT_MOST,  .label = "heartbeat")                                  \
    ROW(NUMBER, beats,           1,  DT_BEATS_MOST,            .label = "heartbeats that may be missed")              \
    /* For a closed connection to come back. */                                                                       \
    ROW(TIME,   reconnect_grace, 0,  DT_RECONNECT_GRACE_MOST,  .option = "reconnect-grace",                           \
                                                               .label = "time to reconnect")                          \
    /* From STOP until the workers of a node are surely gone. */                                                      \
    ROW(TIME,   stop_bound,      0,  DT_FIELD_FOREVER,         .label = "workers are gone within")                    \
    /* 0: at once. */                                                                                                 \
    ROW(TIME,   grow_interval,   0,  DT_FIELD_FOREVER,         .option = "grow-interval", .label = "grow interval")   \
    /* Healthy for so long: the budget is full again. */                                                              \
    ROW(TIME,   restart_reset,   0,  DT_FIELD_FOREVER,         .option = "restart-reset",                             \
                                                               .label = "restarts are full again after",              \
                                                               .words = {"never"})                                    \
    /* Of what the workers are, and the same for people: "train.py", "-m pkg.train". "": unknown. */                  \
    ROW(HASH,   command,         0,  0)                                                                               \
    /* The scheduler's id of the job; "" where there is none. */                                                      \
    ROW(TEXT,   job,             0,  DT_ROLE_MAX - 1)                                                                 \
    LATER(TEXT, script,          0,  DT_NODE_NAME_MAX - 1)                                                            \
    /* Whose agent it is, as all hosts know the user; "": unknown. */                                                 \
    LATER(TEXT, user,            0,  DT_ROLE_MAX - 1)                                                                 \
    /* --allow-mixed-nodes: other commands and users are meant to be there. */                                        \
    LATER(TRUTH, mixed,          0,  1,                        .label = "mixed nodes")                                \
    /* What can only fail again is started again, too. */                                                             \
    LATER(TRUTH, retry_deterministic, 0, 1,                    .option = "retry-deterministic")                       \
    /* A new row goes here. */
/* clang-format on */

#define DT_SPEC_NUMBER(member, most) int member;
#define DT_SPEC_TIME(member, most) dt_ms member;
#define DT_SPEC_TRUTH(member, most) bool member;
#define DT_SPEC_HASH(member, most) uint64_t member;
#define DT_SPEC_TEXT(member, most) char member[(most) + 1];
#define DT_SPEC_MEMBER(kind, member, least, most, ...) DT_SPEC_##kind(member, most)

/* The first node to come sets it. */
struct dt_run_spec {
    DT_RUN_SPEC(DT_SPEC_MEMBER, DT_SPEC_MEMBER)
};

/* How people meet a member. */
struct dt_spec_look {
    const char *option;   /* that says it; a node that says something else is named in the log */
    const char *label;    /* of its line in --print-config; NULL: it has none of its own */
    const char *words[2]; /* of false and true, or of the least number; NULL: "no", "yes", digits */
};

/* A row each; {0} ends the fields. */
extern const struct dt_field dt_spec_fields[];
extern const struct dt_spec_look dt_spec_looks[];

/* The member of ROW as people read it. Not of a HASH. */
const char *dt_spec_text(const struct dt_run_spec *spec, size_t row, char *out, size_t size);

bool dt_spec_is_same(const struct dt_run_spec *a, const struct dt_run_spec *b, size_t row);

/* -1: the member of *ROW is beyond its limits, as *err says: "2 h is too much; give 0 s to 1 h". */
int dt_spec_check(const struct dt_run_spec *spec, size_t *row, struct dt_err *err);

#endif
