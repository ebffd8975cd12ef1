/* SPDX-License-Identifier: Apache-2.0 */
/* dt_proof.so: the two things we want of libsodium. */
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

_Static_assert(crypto_sign_SEEDBYTES == DT_PROOF_SIZE, "a proof may be a seed");
_Static_assert(crypto_sign_PUBLICKEYBYTES == DT_PROOF_KEY_SIZE, "keys are those of Ed25519");
_Static_assert(crypto_sign_BYTES == DT_PROOF_SIGNATURE_SIZE, "signatures are those of Ed25519");

static void key_of(const uint8_t seed[DT_PROOF_SIZE], uint8_t key[DT_PROOF_KEY_SIZE])
{
    uint8_t secret[crypto_sign_SECRETKEYBYTES];
    crypto_sign_seed_keypair(key, secret, seed);
    sodium_memzero(secret, sizeof secret);
}

static void sign(const uint8_t seed[DT_PROOF_SIZE], const void *text, size_t len,
                 uint8_t signature[DT_PROOF_SIGNATURE_SIZE])
{
    uint8_t key[DT_PROOF_KEY_SIZE], secret[crypto_sign_SECRETKEYBYTES];
    crypto_sign_seed_keypair(key, secret, seed);
    crypto_sign_detached(signature, NULL, text, len, secret);
    sodium_memzero(secret, sizeof secret);
}

static bool is_signed(const uint8_t key[DT_PROOF_KEY_SIZE], const void *text, size_t len,
                      const uint8_t signature[DT_PROOF_SIGNATURE_SIZE])
{
    return crypto_sign_verify_detached(signature, text, len, key) == 0;
}

extern const struct dt_proof_table dt_plugin;
DT_PLUGIN_EXPORT const struct dt_proof_table dt_plugin = {
    .head = {.abi = DT_PROOF_ABI, .size = sizeof(struct dt_proof_table)},
    .start = sodium_init,
    .hmac_sha256 = hmac_sha256,
    .key_of = key_of,
    .sign = sign,
    .is_signed = is_signed,
};
