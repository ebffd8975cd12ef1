/* SPDX-License-Identifier: Apache-2.0 */
/* What the communicators of this process do, kept on the worker's progress page. NCCL calls from
 * several threads at once, and so may any of these be called. Opening and closing take a lock; all
 * else is a handful of stores and takes none.
 *
 * There may be nobody to tell: no page, one that another process writes to, or no place left. Then
 * nothing is kept, and nobody is told why: this runs inside somebody's training. In a child that
 * was forked nothing is kept either. */
#ifndef DT_WORKER_RUNTIME_TELEMETRY_NCCL_PROFILER_LEDGER_H
#define DT_WORKER_RUNTIME_TELEMETRY_NCCL_PROFILER_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

struct dt_ledger_comm;

/* What NCCL tells of a call; NULL where it does not. Its text needs to last for the call only. */
struct dt_ledger_call {
    const char *function, *datatype;
    uint64_t count;
};

/* A communicator begins. ENDS: dt_ledger_comm_channel_ended() will be called. RANKS 0: not known.
 * NULL: there is nobody to tell; each of the functions below takes that. */
struct dt_ledger_comm *dt_ledger_comm_open(const char *name, uint64_t id, int rank, int ranks,
                                           bool ends);
void dt_ledger_comm_close(struct dt_ledger_comm *c);

/* Whether anybody is told anything: NCCL need not call us otherwise. */
bool dt_ledger_is_kept(void);

/* Where it is known with the first call only. */
void dt_ledger_comm_name(struct dt_ledger_comm *c, const char *name, uint64_t id, int rank);

/* This rank enters a collective. Its number, from 1; 0: nobody was told. */
uint64_t dt_ledger_comm_enter(struct dt_ledger_comm *c, const struct dt_ledger_call *call);

/* It sends to PEER or receives from it. */
void dt_ledger_comm_exchange(struct dt_ledger_comm *c, const struct dt_ledger_call *call, int peer);

/* The GPU works at collective NUMBER on so many channels, and is done with one of them. The last of
 * them ends it. */
void dt_ledger_comm_expect(struct dt_ledger_comm *c, uint64_t number, unsigned channels);
void dt_ledger_comm_channel_ended(struct dt_ledger_comm *c, uint64_t number);

/* A communicator as a small number, for handles; and back. */
int dt_ledger_comm_index(const struct dt_ledger_comm *c);
struct dt_ledger_comm *dt_ledger_comm_at(int index);

#endif
