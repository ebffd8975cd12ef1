/* SPDX-License-Identifier: Apache-2.0 */
/* dt_proof.so: the one thing we want of libsodium. */
#include "rendezvous/protocol/proof.h"

#include <sodium.h>

_Static_assert(crypto_auth_hmacsha256_BYTES == DT_PROOF_SIZE, "a proof is what HMAC-SHA-256 gives");

static void hmac_sha256(const void *key, size_t key_len, const void *text, size_t len,
                        uint8_t out[DT_PROOF_SIZE])
{
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, key, key_len);
    crypto_auth_hmacsha256_update(&state, text, len);
    crypto_auth_hmacsha256_final(&state, out);
    sodium_memzero(&state, sizeof state);
}

extern const struct dt_proof_table dt_plugin;
DT_PLUGIN_EXPORT const struct dt_proof_table dt_plugin = {
    .head = {.abi = DT_PROOF_ABI, .size = sizeof(struct dt_proof_table)},
    .start = sodium_init,
    .hmac_sha256 = hmac_sha256,
};
