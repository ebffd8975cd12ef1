/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the control protocol, on the server's side: the greeting, frames in and out,
 * and frames that may not go out yet. Inside the rendezvous server only.
 *
 * Greeting: preamble up, hello both ways and, where a token is asked for, a proof both ways. What
 * does not fit is refused with a sentence, and the connection ends. */
#ifndef DT_RENDEZVOUS_RUNS_CONN_H
#define DT_RENDEZVOUS_RUNS_CONN_H

#include "base/list.h"
#include "base/map.h"
#include "rendezvous/protocol/greeting.h"
#include "rendezvous/protocol/warrant.h"
#include "rendezvous/runs/authority.h"
#include "rendezvous/runs/guesses.h"
#include "rendezvous/runs/server.h"
#include "rendezvous/store/control.h"

struct dt_rdzv_run;
struct dt_rdzv_follower;
struct dt_rdzv_tail;

/* What decides who is let in. */
struct dt_rdzv_door {
    const char *host;                    /* "daemon" or "agent" */
    bool shared;                         /* as hello says */
    const struct dt_proof_table *proofs; /* NULL: no token is asked for */
    const struct dt_proof_table *keys;   /* NULL: nobody has shown a key yet */
    char operator_key[DT_WARRANT_KEY];   /* "": the operator has no token */
    struct dt_token token;
    struct dt_guesses *guesses; /* at the token; NULL where none is asked for */
};

enum dt_rdzv_conn_phase {
    DT_CONN_PREAMBLE, /* what is awaited */
    DT_CONN_GREETING,
    DT_CONN_FRAMES,
    DT_CONN_DEAF, /* nothing any more: it is being ended */
};

struct dt_rdzv_conn {
    /* The agent that speaks here, once it has joined a run. */
    struct dt_map_node in_run; /* by incarnation, in the run's connections */
    uint64_t incarnation;
    struct dt_rdzv_run *run; /* NULL: none, or not yet */

    struct dt_node in_server;    /* of all */
    struct dt_node in_strangers; /* linked: of no run */
    dt_ms stranger_since;        /* which decides how long it may stay */
    uint64_t number; /* 1, 2, ... as they were accepted: the later one speaks for its agent */
    void *server;

    struct dt_rdzv_door *door;
    struct dt_rdzv_server_counters *counters;
    struct dt_control_peer *peer;
    enum dt_rdzv_conn_phase phase;
    struct dt_greeting greeting;
    char key[DT_WARRANT_KEY]; /* that was proved here; "": none */
    bool user_known;          /* the next is, as it was asked for before */
    enum dt_asker_user user;

    struct dt_node in_lookers; /* linked: a person, who waits for a look at a run's workers ... */
    bool wants_native;         /* ... with the calls of C code */
    bool awaits_test;          /* a person, who waits for what came of a test of alerts */
    int remarks;               /* that were taken from here: no more than DT_REMARKS_MOST are */
    struct dt_rdzv_follower *follower; /* a person, who waits for an event; NULL: none does */
    struct dt_rdzv_tail *tail;         /* a person, who reads what workers print; NULL: none does */
    struct dt_node in_holding;         /* linked: `held` is not empty */
    struct dt_list held;               /* frames that wait for the journal, oldest first */
    size_t held_bytes;
};

void dt_rdzv_conn_init(struct dt_rdzv_conn *c, struct dt_control_peer *peer,
                       struct dt_rdzv_door *door, struct dt_rdzv_server_counters *counters);
/* Off all lists but the run's. */
void dt_rdzv_conn_finish(struct dt_rdzv_conn *c);

/* Takes the next thing off the front of BYTES. DONE, and M->type is DT_MSG_TYPES: it was of the
 * greeting; else M is a frame, for the caller to finish. BAD: it was told why, if it can be told.
 */
enum dt_decoded dt_rdzv_conn_read(struct dt_rdzv_conn *c, const uint8_t *bytes, size_t len,
                                  struct dt_message *m, size_t *used, struct dt_err *err);

/* Whether the key that M shows, if it shows one, is proved. -1 and *err: it is not. */
int dt_rdzv_conn_check_key(struct dt_rdzv_conn *c, const struct dt_message *m, struct dt_err *err);

/* Who asks for M. Its strings are C's and M's. */
struct dt_asker dt_rdzv_conn_asker(struct dt_rdzv_conn *c, const struct dt_message *m);

/* Refuses it with a sentence in ERR; always BAD. */
enum dt_decoded dt_rdzv_conn_refuse(struct dt_rdzv_conn *c, const struct dt_err *err);

void dt_rdzv_conn_send(struct dt_rdzv_conn *c, const struct dt_message *m);
/* The same, not before dt_rdzv_conn_release(c, AFTER), or a later number; also waits whatever is
 * sent behind it. */
void dt_rdzv_conn_hold(struct dt_rdzv_conn *c, const struct dt_message *m, uint64_t after);
/* Sends what waits for numbers up to UPTO. */
void dt_rdzv_conn_release(struct dt_rdzv_conn *c, uint64_t upto);

/* It gets what was sent, nothing that it says counts any more, and it is closed. */
void dt_rdzv_conn_end(struct dt_rdzv_conn *c);

#endif
