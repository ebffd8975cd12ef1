/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/greeting.h"

#include <string.h>

static uint8_t *nonce_of(struct dt_greeting *g, bool ours)
{
    return (g->side == DT_PROOF_CLIENT) == ours ? g->nonces.client : g->nonces.server;
}

int dt_greeting_begin(struct dt_greeting *g, const char *program, const char *host,
                      struct dt_message *hello, struct dt_err *err)
{
    *hello = (struct dt_message){
        .type = DT_MSG_HELLO,
        .hello = {.version = DT_CONTROL_VERSION,
                  .program = program,
                  .host = host,
                  .token = g->side == DT_PROOF_SERVER && g->token,
                  .looks = g->side == DT_PROOF_SERVER,
                  .remarks = g->side == DT_PROOF_SERVER,
                  .logs = g->side == DT_PROOF_SERVER,
                  .run_tokens = g->side == DT_PROOF_SERVER,
                  .shared = g->shared},
    };
    g->due = DT_MSG_HELLO;
    if (dt_proof_make_nonce(nonce_of(g, true), err) < 0)
        return -1;
    memcpy(hello->hello.nonce, nonce_of(g, true), DT_NONCE_SIZE);
    return 0;
}

static void make_proof(const struct dt_greeting *g, struct dt_message *answer)
{
    answer->type = DT_MSG_PROOF;
    dt_proof_make(g->proofs, g->token->secret, g->token->len, g->side, &g->nonces, answer->proof);
}

static enum dt_greeting_outcome go_on(struct dt_greeting *g, enum dt_message_type due)
{
    g->due = due;
    return due == DT_MSG_TYPES ? DT_GREETING_DONE : DT_GREETING_GOES_ON;
}

/* A server has looked at the version already: it stands in the preamble, too. */
static enum dt_greeting_outcome hear_hello(struct dt_greeting *g, const struct dt_message *m,
                                           struct dt_message *answer)
{
    bool is_client = g->side == DT_PROOF_CLIENT;
    memcpy(nonce_of(g, false), m->hello.nonce, DT_NONCE_SIZE);
    if (is_client && m->hello.version != DT_CONTROL_VERSION)
        return DT_GREETING_OTHER_VERSION;
    if (is_client && m->hello.token && !g->token)
        return DT_GREETING_TOKEN_ASKED;
    if (is_client && !m->hello.token && g->token)
        return DT_GREETING_TOKEN_NOT_ASKED;
    if (is_client && g->token)
        make_proof(g, answer);
    return go_on(g, g->token ? DT_MSG_PROOF : DT_MSG_TYPES);
}

/* A client that does not know the token gets nothing to try guesses on. */
static enum dt_greeting_outcome hear_proof(struct dt_greeting *g, const struct dt_message *m,
                                           struct dt_message *answer)
{
    enum dt_proof_side other = g->side == DT_PROOF_CLIENT ? DT_PROOF_SERVER : DT_PROOF_CLIENT;
    if (!dt_proof_holds(g->proofs, g->token->secret, g->token->len, other, &g->nonces, m->proof))
        return DT_GREETING_WRONG_PROOF;
    if (g->side == DT_PROOF_SERVER)
        make_proof(g, answer);
    return go_on(g, DT_MSG_TYPES);
}

enum dt_greeting_outcome dt_greeting_hear(struct dt_greeting *g, const struct dt_message *m,
                                          struct dt_message *answer)
{
    *answer = (struct dt_message){.type = DT_MSG_TYPES};
    if (m->type != g->due)
        return DT_GREETING_OUT_OF_PLACE;
    return g->due == DT_MSG_HELLO ? hear_hello(g, m, answer) : hear_proof(g, m, answer);
}
