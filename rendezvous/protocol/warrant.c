/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/warrant.h"

#include "base/hex.h"

#include <string.h>

/* A seed of one kind is of no use as one of the other, nor as a proof of the token itself. */
static void make_seed(const struct dt_proof_table *lib, const struct dt_token *token,
                      const char *run, uint8_t seed[DT_PROOF_SIZE])
{
    static const char of_run[] = "dtrun run", of_operator[] = "dtrun operator"; /* with the NUL */
    uint8_t text[sizeof of_run + DT_RUN_ID_MAX], *at = text;
    if (!run) {
        lib->hmac_sha256(token->secret, token->len, of_operator, sizeof of_operator, seed);
        return;
    }
    at = mempcpy(at, of_run, sizeof of_run);
    at = mempcpy(at, run, strnlen(run, DT_RUN_ID_MAX));
    lib->hmac_sha256(token->secret, token->len, text, (size_t)(at - text), seed);
}

void dt_warrant_key(const struct dt_proof_table *lib, const struct dt_token *token, const char *run,
                    char key[DT_WARRANT_KEY])
{
    uint8_t seed[DT_PROOF_SIZE], bytes[DT_PROOF_KEY_SIZE];
    make_seed(lib, token, run, seed);
    lib->key_of(seed, bytes);
    explicit_bzero(seed, sizeof seed);
    dt_hex(bytes, sizeof bytes, key);
}

#define SIGNED "dtrun warrant" /* and its NUL */
#define SIGNED_SIZE (sizeof SIGNED + 2 * DT_NONCE_SIZE)

static void put_signed(const struct dt_proof_nonces *nonces, uint8_t text[SIGNED_SIZE])
{
    text = mempcpy(text, SIGNED, sizeof SIGNED);
    text = mempcpy(text, nonces->client, DT_NONCE_SIZE);
    memcpy(text, nonces->server, DT_NONCE_SIZE);
}

void dt_warrant_make(const struct dt_proof_table *lib, const struct dt_token *token,
                     const char *run, const struct dt_proof_nonces *nonces, struct dt_warrant *out)
{
    uint8_t seed[DT_PROOF_SIZE], text[SIGNED_SIZE], signature[DT_PROOF_SIGNATURE_SIZE];
    put_signed(nonces, text);
    make_seed(lib, token, run, seed);
    lib->sign(seed, text, sizeof text, signature);
    explicit_bzero(seed, sizeof seed);
    dt_hex(signature, sizeof signature, out->signature);
    dt_warrant_key(lib, token, run, out->key);
}

bool dt_warrant_holds(const struct dt_proof_table *lib, const char *key, const char *signature,
                      const struct dt_proof_nonces *nonces)
{
    uint8_t text[SIGNED_SIZE], key_bytes[DT_PROOF_KEY_SIZE], bytes[DT_PROOF_SIGNATURE_SIZE];
    put_signed(nonces, text);
    return dt_hex_read(key, key_bytes, sizeof key_bytes) &&
           dt_hex_read(signature, bytes, sizeof bytes) &&
           lib->is_signed(key_bytes, text, sizeof text, bytes);
}
