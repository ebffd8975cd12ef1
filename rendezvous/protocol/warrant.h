/* SPDX-License-Identifier: Apache-2.0 */
/* Showing that a run is one's own, or that one is the operator, to a rendezvous that never learns
 * the secret. A token makes a pair of Ed25519 keys: one for each run, or the operator's. The public
 * one names who may; a signature of both nonces of a connection shows that its other half is known.
 * So neither what goes over the wire nor what stands in a journal is of use to anybody else, but
 * for trying tokens that are short. Pure. */
#ifndef DT_RENDEZVOUS_PROTOCOL_WARRANT_H
#define DT_RENDEZVOUS_PROTOCOL_WARRANT_H

#include "rendezvous/protocol/proof.h"

/* Hexadecimal digits, with the NUL. */
#define DT_WARRANT_KEY (2 * DT_PROOF_KEY_SIZE + 1)
#define DT_WARRANT_SIGNATURE (2 * DT_PROOF_SIGNATURE_SIZE + 1)

struct dt_warrant {
    char key[DT_WARRANT_KEY], signature[DT_WARRANT_SIGNATURE];
};

/* The public key that TOKEN makes for RUN; NULL: the operator's. */
void dt_warrant_key(const struct dt_proof_table *lib, const struct dt_token *token, const char *run,
                    char key[DT_WARRANT_KEY]);

/* The same with its signature, for the connection that these NONCES are of. */
void dt_warrant_make(const struct dt_proof_table *lib, const struct dt_token *token,
                     const char *run, const struct dt_proof_nonces *nonces, struct dt_warrant *out);

/* Whether whoever made SIGNATURE for this connection has the other half of KEY. Any text will do
 * for the two. */
bool dt_warrant_holds(const struct dt_proof_table *lib, const char *key, const char *signature,
                      const struct dt_proof_nonces *nonces);

#endif
