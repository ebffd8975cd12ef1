/* SPDX-License-Identifier: Apache-2.0 */
/* The token's proofs, by the real helper library, and the file a token comes from. */
#include "rendezvous/protocol/proof.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <sys/stat.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

BEFORE_ALL
{
    folder_make();
}

static const struct dt_proof_table *lib_or_skip(void)
{
#ifndef DT_WITH_SODIUM
    SKIP("built without libsodium");
#endif
    struct dt_err err = {0};
    const struct dt_proof_table *lib = dt_proof_open(&err);
    CHECK_OK(lib ? 0 : -1, err);
    return lib;
}

static void check_hex_is(const uint8_t *bytes, const char *hex)
{
    char text[2 * DT_PROOF_SIZE + 1];
    for (size_t i = 0; i < DT_PROOF_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    CHECK_STR(text, hex);
}

/* Test cases 1, 2, 6 of RFC 4231: keys shorter than, and longer than, a block of SHA-256. */
TEST(the_helper_library_computes_hmac_sha256)
{
    const struct dt_proof_table *lib = lib_or_skip();
    uint8_t key[131], out[DT_PROOF_SIZE];
    memset(key, 0x0b, 20);
    lib->hmac_sha256(key, 20, "Hi There", 8, out);
    check_hex_is(out, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    lib->hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, out);
    check_hex_is(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    lib->hmac_sha256(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
                     out);
    check_hex_is(out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static struct dt_proof_nonces some_nonces(void)
{
    struct dt_proof_nonces n;
    for (uint8_t i = 0; i < DT_NONCE_SIZE; i++) {
        n.client[i] = i;
        n.server[i] = (uint8_t)(0xf0 + i);
    }
    return n;
}

/* What another program must compute: made with openssl dgst -sha256 -mac hmac. */
TEST(a_proof_is_what_the_protocol_says)
{
    const struct dt_proof_table *lib = lib_or_skip();
    struct dt_proof_nonces n = some_nonces();
    uint8_t proof[DT_PROOF_SIZE];
    dt_proof_make(lib, "sesame", 6, DT_PROOF_CLIENT, &n, proof);
    check_hex_is(proof, "18b4cdb4c371a6d621dbc8058730db40245e9747b9a208008b0a45703545df46");
    dt_proof_make(lib, "sesame", 6, DT_PROOF_SERVER, &n, proof);
    check_hex_is(proof, "36402ac4884e69e2f62f71925b06f1ff9c5225263848aa343df93c55a43b29ea");
}

TEST(a_proof_holds_for_its_token_its_side_and_its_nonces_only)
{
    const struct dt_proof_table *lib = lib_or_skip();
    struct dt_proof_nonces n = some_nonces(), other = n;
    uint8_t proof[DT_PROOF_SIZE];
    dt_proof_make(lib, "sesame", 6, DT_PROOF_CLIENT, &n, proof);
    CHECK(dt_proof_holds(lib, "sesame", 6, DT_PROOF_CLIENT, &n, proof));
    CHECK(!dt_proof_holds(lib, "sesamE", 6, DT_PROOF_CLIENT, &n, proof));
    CHECK(!dt_proof_holds(lib, "sesame", 5, DT_PROOF_CLIENT, &n, proof));
    CHECK(!dt_proof_holds(lib, "sesame", 6, DT_PROOF_SERVER, &n, proof));
    other.client[15] ^= 1;
    CHECK(!dt_proof_holds(lib, "sesame", 6, DT_PROOF_CLIENT, &other, proof));
    other = n;
    other.server[0] ^= 1;
    CHECK(!dt_proof_holds(lib, "sesame", 6, DT_PROOF_CLIENT, &other, proof));
    for (size_t bit = 0; bit < 8 * DT_PROOF_SIZE; bit++) {
        CHECK_ROW("bit %zu", bit);
        proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(!dt_proof_holds(lib, "sesame", 6, DT_PROOF_CLIENT, &n, proof));
        proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

TEST(no_two_nonces_are_alike)
{
    uint8_t a[DT_NONCE_SIZE], b[DT_NONCE_SIZE];
    struct dt_err err = {0};
    CHECK_OK(dt_proof_make_nonce(a, &err), err);
    CHECK_OK(dt_proof_make_nonce(b, &err), err);
    CHECK(memcmp(a, b, sizeof a) != 0);
}

TEST(without_the_helper_library_a_sentence_says_so)
{
    char *was = strdup(getenv("DTRUN_PLUGIN_DIR") ? getenv("DTRUN_PLUGIN_DIR") : "");
    struct dt_err err = {0};
    setenv("DTRUN_PLUGIN_DIR", "/nonexistent", 1);
    CHECK_FAIL(dt_proof_open(&err) ? 0 : -1, err,
               "a token takes libsodium: there is no dt_proof.so in /nonexistent");
    setenv("DTRUN_PLUGIN_DIR", was, 1);
    free(was);
}

/* -- the file --------------------------------------------------------------------------------- */

static const char *file_of(const char *text, size_t len, mode_t mode)
{
    const char *path = at("token");
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(text, 1, len, f), len);
    CHECK_EQ(fclose(f), 0);
    CHECK_EQ(chmod(path, mode), 0);
    return path;
}

TEST(a_token_is_the_file_without_its_last_newline)
{
    char most[DT_TOKEN_MAX + 1];
    memset(most, 'x', sizeof most);
    most[DT_TOKEN_MAX] = '\n';
    const struct {
        const char *text;
        size_t len, taken;
    } rows[] = {
        {"sesame", 6, 6},
        {"sesame\n", 7, 6},
        {"a\n\n", 3, 2},
        {"\0\xff", 2, 2},
        {most, DT_TOKEN_MAX, DT_TOKEN_MAX},
        {most, DT_TOKEN_MAX + 1, DT_TOKEN_MAX},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("row %zu", i);
        struct dt_token token;
        struct dt_err err = {0};
        CHECK_OK(dt_proof_read_token(file_of(rows[i].text, rows[i].len, 0640), &token, &err), err);
        CHECK_BYTES(token.secret, token.len, rows[i].text, rows[i].taken);
        dt_token_finish(&token);
        CHECK_EQ(token.len, 0);
    }
}

TEST(what_is_no_token_is_refused_with_a_sentence)
{
    char long_text[DT_TOKEN_MAX + 1];
    memset(long_text, 'x', sizeof long_text);
    const struct {
        const char *text;
        size_t len;
        mode_t mode;
        const char *words;
    } rows[] = {
        {"", 0, 0600, "it is empty; put a secret into it"},
        {"\n", 1, 0600, "it is empty"},
        {long_text, sizeof long_text, 0600, "longer than 1024 bytes"},
        {"sesame", 6, 0644, "every user of this host may use it (its mode is 0644); chmod o-rwx"},
        {"sesame", 6, 0602, "its mode is 0602"},
    };
    struct dt_token token;
    struct dt_err err = {0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("row %zu", i);
        CHECK_FAIL(
            dt_proof_read_token(file_of(rows[i].text, rows[i].len, rows[i].mode), &token, &err),
            err, rows[i].words);
        CHECK_EQ(err.code, DT_E_USAGE);
        CHECK_EQ(token.len, 0);
    }
    CHECK_FAIL(dt_proof_read_token("/nonexistent", &token, &err), err,
               "token file /nonexistent: No such file");
    CHECK_FAIL(dt_proof_read_token(dir, &token, &err), err, "token file /tmp/");
}
