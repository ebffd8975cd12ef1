/* SPDX-License-Identifier: Apache-2.0 */
/* Showing that a token is known without saying it, both ways: HMAC-SHA-256, keyed with the token,
 * of who shows it and of both sides' nonces. Whoever listens learns nothing that is of use on
 * another connection, and who stands in for the server is found out before it is believed.
 *
 * The cryptography is libsodium's, in a helper library that is opened when a token is given. */
#ifndef DT_RENDEZVOUS_PROTOCOL_PROOF_H
#define DT_RENDEZVOUS_PROTOCOL_PROOF_H

#include "base/err.h"
#include "base/plugin.h"
#include "rendezvous/protocol/messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_TOKEN_MAX 1024

/* A shorter one can be found by trying. */
#define DT_TOKEN_ADVISED 16

struct dt_token {
    uint8_t secret[DT_TOKEN_MAX];
    size_t len;
};

/* Reads FILE without its last newline. *err, besides what keeps it from being read: it is empty, is
 * too long, or everybody may read it. The token is to be finished, which wipes it. */
int dt_proof_read_token(const char *file, struct dt_token *token, struct dt_err *err);
void dt_token_finish(struct dt_token *token);

#define DT_PROOF_KEY_SIZE 32
#define DT_PROOF_SIGNATURE_SIZE 64

/* The table of dt_proof.so. */
#define DT_PROOF_ABI 1
struct dt_proof_table {
    struct dt_plugin_head head;
    int (*start)(void); /* before anything else; -1: there is no using it */
    void (*hmac_sha256)(const void *key, size_t key_len, const void *text, size_t len,
                        uint8_t out[DT_PROOF_SIZE]);
    /* Ed25519: the public half of what SEED makes, a signature by the other half, and whether one
     * is by the other half of KEY. */
    void (*key_of)(const uint8_t seed[DT_PROOF_SIZE], uint8_t key[DT_PROOF_KEY_SIZE]);
    void (*sign)(const uint8_t seed[DT_PROOF_SIZE], const void *text, size_t len,
                 uint8_t signature[DT_PROOF_SIGNATURE_SIZE]);
    bool (*is_signed)(const uint8_t key[DT_PROOF_KEY_SIZE], const void *text, size_t len,
                      const uint8_t signature[DT_PROOF_SIGNATURE_SIZE]);
};

/* Good until the process ends. NULL and *err. */
const struct dt_proof_table *dt_proof_open(struct dt_err *err);

/* Unpredictable bytes, another each time. */
int dt_proof_make_nonce(uint8_t nonce[DT_NONCE_SIZE], struct dt_err *err);

/* Who shows it; so that one side's proof is no use to the other. */
enum dt_proof_side { DT_PROOF_CLIENT, DT_PROOF_SERVER };

struct dt_proof_nonces {
    uint8_t client[DT_NONCE_SIZE], server[DT_NONCE_SIZE];
};

void dt_proof_make(const struct dt_proof_table *lib, const void *secret, size_t len,
                   enum dt_proof_side side, const struct dt_proof_nonces *nonces,
                   uint8_t proof[DT_PROOF_SIZE]);

/* Whether PROOF is that of SIDE. How long it takes says nothing about where they differ. */
bool dt_proof_holds(const struct dt_proof_table *lib, const void *secret, size_t len,
                    enum dt_proof_side side, const struct dt_proof_nonces *nonces,
                    const uint8_t proof[DT_PROOF_SIZE]);

#endif
