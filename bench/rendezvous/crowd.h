/* SPDX-License-Identifier: Apache-2.0 */
/* The agents of one elastic job, as many as are wanted, in one process and without workers: each is
 * a connection that speaks the control protocol with one rendezvous, and waits for its answers as
 * an agent does.
 *
 * On their own hosts agents would make their frames, and read what they are told, side by side;
 * here one thread does it for all. So frames are made before the clock starts and looked at after
 * it has stopped: what is measured is the rendezvous. */
#ifndef BENCH_RENDEZVOUS_CROWD_H
#define BENCH_RENDEZVOUS_CROWD_H

#include "base/err.h"
#include "rendezvous/protocol/messages.h"

struct crowd;

struct crowd_counts {
    uint64_t frames_up, frames_down, bytes_up, bytes_down; /* all, greetings too */
};

/* AGENTS of a run that goes on with one less. Not connected yet. */
/* SERVER: "HOST:PORT". */
struct crowd *crowd_open(const char *server, unsigned agents, struct dt_err *err);
void crowd_close(struct crowd *c);

/* All connect, greet, and ask for a world. */
int crowd_connect(struct crowd *c, struct dt_err *err);
/* One goes as a process that dies: its connection closes. */
void crowd_kill_one(struct crowd *c);
/* All who are left have no workers any more: makes the frames with which they ask for a world
 * again, and sends them. */
void crowd_prepare(struct crowd *c);
int crowd_rejoin(struct crowd *c, struct dt_err *err);

/* Reads until the last thing that each who is left heard, but for beats and notes, is of TYPE.
 * *FIRST (may be NULL): when the first did, in dt_clock_monotonic_ns(). */
int crowd_await(struct crowd *c, enum dt_message_type type, int64_t *first, struct dt_err *err);
/* That what they heard last are worlds of one round, with one seat for each. */
int crowd_check_worlds(struct crowd *c, struct dt_err *err);

/* Each sends a beat as soon as its last was echoed. *ECHOED: how many were in that time. */
int crowd_beat(struct crowd *c, double seconds, uint64_t *echoed, struct dt_err *err);

const struct crowd_counts *crowd_counts(const struct crowd *c);

#endif
