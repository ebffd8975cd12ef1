/* SPDX-License-Identifier: Apache-2.0 */
/* A person's side of the control protocol, blocking: greet, prove the token, ask, take the answer.
 * For who may block; no thread but the caller's. */
#ifndef DT_RENDEZVOUS_PROTOCOL_SYNC_CONTROL_H
#define DT_RENDEZVOUS_PROTOCOL_SYNC_CONTROL_H

#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/protocol/proof.h"

struct dt_sync_control;

/* Connects to ADDR ("HOST[:PORT]", "unix:/PATH") and greets as PROGRAM. TOKEN NULL: there is none;
 * else a server that asks for none is not believed either. TIMEOUT is for all of it, and for each
 * answer later. NULL and *err, in words for the person. */
struct dt_sync_control *dt_sync_control_open(const char *addr, const char *program,
                                             const struct dt_token *token, dt_ms timeout,
                                             struct dt_err *err);
void dt_sync_control_close(struct dt_sync_control *c);

/* So long each answer may take from here on. */
void dt_sync_control_set_timeout(struct dt_sync_control *c, dt_ms timeout);

/* The rendezvous can be asked for STANCES; older ones refuse whoever says the word. */
bool dt_sync_control_looks(const struct dt_sync_control *c);

/* It is an agent that serves the rendezvous, so it goes with its job. */
bool dt_sync_control_is_hosted(const struct dt_sync_control *c);

/* The rendezvous can be asked for LOGS. */
bool dt_sync_control_logs(const struct dt_sync_control *c);

/* What both sides drew for this connection, for a signature: see warrant.h. */
const struct dt_proof_nonces *dt_sync_control_nonces(const struct dt_sync_control *c);

/* Sends REQUEST and takes the answer, a message of its type, for dt_message_finish(). After a
 * failure the connection is of no more use. */
int dt_sync_control_ask(struct dt_sync_control *c, const struct dt_message *request,
                        struct dt_message *answer, struct dt_err *err);

/* The same in two parts, where a question has several answers. */
int dt_sync_control_say(struct dt_sync_control *c, const struct dt_message *m, struct dt_err *err);
int dt_sync_control_hear(struct dt_sync_control *c, enum dt_message_type type, struct dt_message *m,
                         struct dt_err *err);

#endif
