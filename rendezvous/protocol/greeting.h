/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting of the control protocol, for both sides: a hello each way and, where a token is
 * asked for, a proof each way, the client's first. What was heard goes in, what is to be said comes
 * out. No socket and no clock; the sentences that people read are the callers'. */
#ifndef DT_RENDEZVOUS_PROTOCOL_GREETING_H
#define DT_RENDEZVOUS_PROTOCOL_GREETING_H

#include "rendezvous/protocol/proof.h"

/* The owner sets the first block. */
struct dt_greeting {
    enum dt_proof_side side;             /* that is ours */
    const struct dt_token *token;        /* a server with one asks for it. NULL: none */
    const struct dt_proof_table *proofs; /* may be NULL without a token */
    bool shared;                         /* of our hello, as a server's */

    enum dt_message_type due; /* what the other side says next; DT_MSG_TYPES: it is over */
    struct dt_proof_nonces nonces;
};

/* Makes *HELLO, the first thing to be said; PROGRAM and HOST are as in the message. -1: there are
 * no random bytes. */
int dt_greeting_begin(struct dt_greeting *g, const char *program, const char *host,
                      struct dt_message *hello, struct dt_err *err);

enum dt_greeting_outcome {
    DT_GREETING_GOES_ON,
    DT_GREETING_DONE,
    DT_GREETING_OUT_OF_PLACE, /* something else was due */
    DT_GREETING_WRONG_PROOF,  /* the other side does not know the token */
    /* To a client: */
    DT_GREETING_OTHER_VERSION,
    DT_GREETING_TOKEN_ASKED,     /* and we have none */
    DT_GREETING_TOKEN_NOT_ASKED, /* though we have one */
};

/* The other side said M. GOES_ON and DONE: *ANSWER is to be said first, unless its type is
 * DT_MSG_TYPES. */
enum dt_greeting_outcome dt_greeting_hear(struct dt_greeting *g, const struct dt_message *m,
                                          struct dt_message *answer);

#endif
