/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the rendezvous machine share among themselves; nobody else includes it. */
#ifndef DT_RENDEZVOUS_RDZV_INSIDE_H
#define DT_RENDEZVOUS_RDZV_INSIDE_H

#include "rendezvous/rdzv/rdzv.h"

/* -- actions.c: what is to be done ------------------------------------------------------------ */

void rdzv_actions_clear(struct dt_rdzv_actions *a);
/* Keeps TEXT for one or many sends. */
size_t rdzv_text(struct dt_rdzv_actions *a, const char *text);
void rdzv_journal(struct dt_rdzv_actions *a);
void rdzv_journal_node(struct dt_rdzv_actions *a, const char *name);
/* A line for the log alone. */
void rdzv_say(struct dt_rdzv_actions *a, enum dt_event_weight weight, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* What happened, for the log and as an event: to NODE (NULL: to none), in the round of R and to no
 * rank, for the caller to say otherwise. NULL: no memory, and A is bad. */
struct dt_rdzv_action *rdzv_tell(const struct dt_rdzv *r, struct dt_rdzv_actions *a,
                                 enum dt_event_kind kind, const char *node, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* The same as an event alone: the line about what follows from it says it in the log. */
struct dt_rdzv_action *rdzv_tell_silently(const struct dt_rdzv *r, struct dt_rdzv_actions *a,
                                          enum dt_event_kind kind, const char *node,
                                          const char *text);
/* NULL: no memory, and A is bad. */
struct dt_rdzv_action *rdzv_send(struct dt_rdzv_actions *a, uint64_t to,
                                 enum dt_message_type message, int round, size_t why);

/* -- phase.c: which state the run is in ------------------------------------------------------- */

/* Enters state TO: nobody else assigns it. What belongs to the state left, and to TO, is zero then.
 * A move that the table does not allow is reported as our bug, and made, as the caller relies on
 * it. */
void rdzv_enter(struct dt_rdzv *r, enum dt_run_state to);
/* As it was before anybody came, but for the numbers of its rounds. */
void rdzv_wipe(struct dt_rdzv *r);

/* -- rounds.c: how rounds and runs end -------------------------------------------------------- */

/* Ends the round that runs: its workers are stopped. TOGETHER: all of them are there, and what they
 * save until they are gone counts; else nothing of it counts from here on. */
void rdzv_fence(struct dt_rdzv *r, struct dt_rdzv_actions *out, bool together, const char *why);
void rdzv_close(struct dt_rdzv *r, struct dt_rdzv_actions *out, enum dt_close_kind kind,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* KIND as a node is told it. An agent whose JOIN does not say "tails" may be one that does not know
 * "stopped", and would take such a CLOSE for garbage, and come again and again. */
enum dt_close_kind rdzv_close_kind(enum dt_close_kind kind, bool tails);
/* M is not there any more, HOW: "went offline (...)", "leaves (...)". Frees M. */
void rdzv_gone(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
               enum dt_evidence evidence, const char *how);
/* No node is left: those which went with the last one were killed with it, and get no strike. */
void rdzv_forgive_lost(struct dt_rdzv *r, struct dt_rdzv_actions *out);
/* A node of the round that runs is no more, or (TOGETHER) goes when its workers are gone: the round
 * is over, and the loss is charged. */
void rdzv_lose_node(struct dt_rdzv *r, struct dt_rdzv_actions *out, enum dt_evidence evidence,
                    bool together, const char *text);
/* M goes when its workers are gone, HOW. */
void rdzv_leaves(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                 const char *how);
/* Workers of M failed in the round that is over: it is to be charged when that is settled. */
void rdzv_note_fault(struct dt_rdzv *r, const struct dt_member *m, const struct dt_result *result);
/* Workers of M failed in the round that runs. */
void rdzv_failed(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                 const struct dt_result *result);
/* Workers of M failed in the round that is over, too: that may be the cause of its failure. */
void rdzv_join_evidence(struct dt_rdzv *r, const struct dt_member *m,
                        const struct dt_result *result);
/* Why the round that ended last failed; "": it did not. */
const char *rdzv_cause(const struct dt_rdzv *r);
/* What follows from the end of the last round, for its history. */
void rdzv_decided(struct dt_rdzv *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* All nodes of the round that ended are back or known to be gone: who pays for it. May close. */
void rdzv_settle_fault(struct dt_rdzv *r, struct dt_rdzv_actions *out);
/* Adds a sentence to what the next world is told. */
void rdzv_news(struct dt_rdzv *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* -- gather.c: when a world is made ----------------------------------------------------------- */

/* Makes a world when it is time, or gives up. */
void rdzv_gather(struct dt_rdzv *r, struct dt_rdzv_actions *out);
bool rdzv_is_ready(const struct dt_member *m);
/* Whether M is kept out, by the name of its host, which an agent that is started anew does not
 * change, or by the one that tells it from others on that host. *WHY (may be NULL): see exclude.h.
 */
bool rdzv_is_out(const struct dt_rdzv *r, const struct dt_member *m, const char **why);
/* The same as dt_exclude_describe(), by either name. */
void rdzv_describe_out(const struct dt_rdzv *r, const struct dt_member *m, char *out, size_t size);
bool rdzv_is_drained(const struct dt_rdzv *r, const struct dt_member *m);
/* How many seats are of nodes that are not back, and whose workers may be alive. */
size_t rdzv_count_awaited(const struct dt_rdzv *r);
/* How many nodes a world has if there are enough. */
size_t rdzv_target(const struct dt_rdzv *r);
/* Whom we wait for, as a sentence; for the log and those who wait. */
void rdzv_describe_wait(const struct dt_rdzv *r, char *out, size_t size);
dt_ms rdzv_gather_next(const struct dt_rdzv *r);

/* -- wishes.c: what a person wants of the run -------------------------------------------------- */

/* Stops what runs, as if a node left, and begins no round. A run that is over, or paused already,
 * stays as it is. */
void rdzv_pause(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *why);
void rdzv_resume(struct dt_rdzv *r, struct dt_rdzv_actions *out);
/* Stops what runs likewise; the run is closed when all workers are gone, or nobody is left. */
void rdzv_stop(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *why);
/* Stops what runs likewise, and the next round begins. Without a round that runs: nothing. */
void rdzv_restart(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *why);
/* Asks the nodes whose workers run to let them save. */
void rdzv_save_now(struct dt_rdzv *r, struct dt_rdzv_actions *out);

/* -- grow.c: when a round ends to take others in ---------------------------------------------- */

/* Ends the round when it is time to take somebody in. */
void rdzv_grow(struct dt_rdzv *r, struct dt_rdzv_actions *out);
/* Whether those who stand by and are not kept out get a seat at `grow_at`. */
bool rdzv_will_grow(const struct dt_rdzv *r);

/* -- world.c: who is in it -------------------------------------------------------------------- */

void rdzv_make_world(struct dt_rdzv *r, struct dt_rdzv_actions *out);
void rdzv_send_world(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m);
/* Tells M that it stands by, and why. */
void rdzv_park(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m);
/* Tells when more or fewer spares stand by than people know. */
void rdzv_note_spares(struct dt_rdzv *r, struct dt_rdzv_actions *out);

/* -- look.c: what all workers of the round do -------------------------------------------------- */

/* Asks all nodes whose workers run, unless they are being asked or were less than a second ago.
 * NATIVE: with the calls of C code, which the last answers may lack. */
void rdzv_look_begin(struct dt_rdzv *r, bool native, struct dt_rdzv_actions *out);
/* M answers. */
void rdzv_look_take(struct dt_rdzv *r, struct dt_member *m, const struct dt_message *f);
/* Ends one that was answered, or waited long enough. */
void rdzv_look_settle(struct dt_rdzv *r);
dt_ms rdzv_look_next(const struct dt_rdzv *r); /* DT_FOREVER: none is under way */
/* Before the round that runs is no more, and what is known of it alone is zeroed. */
void rdzv_look_forget(struct dt_rdzv *r);

/* -- standstill.c: whether the job stands still, and why -------------------------------------- */

/* M says since when its workers have stood still. */
void rdzv_standstill_take(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                          const struct dt_message *f);
/* Last in a step: what it sends is of this round. */
void rdzv_standstill_settle(struct dt_rdzv *r, struct dt_rdzv_actions *out);
dt_ms rdzv_standstill_next(const struct dt_rdzv *r);
/* As rdzv_look_forget(): what members said of that round is void, too. */
void rdzv_standstill_forget(struct dt_rdzv *r);

/* -- straggler.c: which worker holds the others up -------------------------------------------- */

/* M, whose workers run, tells how they share their time. */
void rdzv_straggler_take(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                         const struct dt_own_time *t);
/* As rdzv_look_forget(). */
void rdzv_straggler_forget(struct dt_rdzv *r);

/* -- watch.c: what nodes tell and people should hear of ---------------------------------------- */

/* M says B, of which the telemetry is kept already. RUNS: its workers are of the round that runs.
 */
void rdzv_watch_take(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                     const struct dt_beat *b, bool runs);
/* Before M is freed: what was told of it is over. */
void rdzv_watch_gone(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m);

/* -- rdzv.c ----------------------------------------------------------------------------------- */

/* M was drained, in the exclude table already. */
void rdzv_drain_member(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m);

/* -- agree.c: in what a node differs from the one that came first ----------------------------- */

/* "train.py as ada" */
#define RDZV_OWNER_MAX 90
const char *rdzv_owner(const struct dt_run_spec *spec, char out[RDZV_OWNER_MAX]);

/* Whether the node that says JOIN may be in the run. False: WHY says why not. */
bool rdzv_fits(const struct dt_rdzv *r, const struct dt_message *join, char why[DT_WHY_MAX]);
/* The same, of the token that the run was begun with. */
bool rdzv_shows_key(const struct dt_rdzv *r, const struct dt_message *join, char why[DT_WHY_MAX]);
/* M is let in with SPEC: in what it differs without harm is logged, and to be told. */
void rdzv_note_differences(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                           const struct dt_member *m, const struct dt_run_spec *spec);
/* Nobody knows whose mistake another command is: all nodes are told of the first one, once. */
void rdzv_tell_mixed(struct dt_rdzv *r, struct dt_rdzv_actions *out);

/* -- admit.c: who comes, and who comes back --------------------------------------------------- */

void rdzv_join(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_message *frame);
/* How long a node that is not heard of any more has to come back. */
dt_ms rdzv_patience(const struct dt_rdzv *r);
/* RUNNING: its nodes are not known yet, and come back to their seats. */
void rdzv_await_seats(struct dt_rdzv *r);

#endif
