/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that tokens make, and their signatures, by the real helper library. */
#include "rendezvous/protocol/warrant.h"
#include "tests/lib/check.h"

static const struct dt_token sesame = {.secret = "sesame", .len = 6};

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

static struct dt_proof_nonces some_nonces(void)
{
    struct dt_proof_nonces n;
    for (uint8_t i = 0; i < DT_NONCE_SIZE; i++) {
        n.client[i] = i;
        n.server[i] = (uint8_t)(0xf0 + i);
    }
    return n;
}

/* What another program must compute: made with Python's hmac and cryptography. */
TEST(a_warrant_is_what_the_protocol_says)
{
    const struct dt_proof_table *lib = lib_or_skip();
    struct dt_proof_nonces n = some_nonces();
    struct dt_warrant w;
    dt_warrant_make(lib, &sesame, "llama", &n, &w);
    CHECK_STR(w.key, "8821abf8faa561ed918cc0d703938aca7e0028ca98f34d890c59f21bd231a945");
    CHECK_STR(w.signature, "0b1cd8f64fa316c2b4e583a1add899d58fef1b27fd0211d1dc95c5d31e5e6802"
                           "46fdd30b9f32cb726196c8fb168bd9788e04f6e637ef1f98ce227ba42f05b804");
    dt_warrant_make(lib, &sesame, NULL, &n, &w);
    CHECK_STR(w.key, "596c130f9661b654cb5f6109e1e77dc5cbb1206bd96dfec2ab73cbafeb731ad1");
    CHECK_STR(w.signature, "83c1745624553cdecf13b2331121aa1e0c74563f155cb882cf58d86fdeb5836e"
                           "cd2055926f01abdb2ee68fe06a315a89e685634ef3a19e6451490209e3f28e08");
}

TEST(each_token_and_each_run_has_a_key_of_its_own)
{
    const struct dt_proof_table *lib = lib_or_skip();
    const struct dt_token other = {.secret = "sesamE", .len = 6},
                          longer = {.secret = "sesame2", .len = 7};
    char long_id[DT_RUN_ID_MAX];
    memset(long_id, 'a', sizeof long_id - 1);
    long_id[sizeof long_id - 1] = '\0';
    const struct {
        const struct dt_token *token;
        const char *run;
    } rows[] = {{&sesame, "llama"}, {&sesame, "llam"},  {&sesame, ""},     {&sesame, NULL},
                {&other, "llama"},  {&longer, "llama"}, {&sesame, long_id}};
    char keys[sizeof rows / sizeof *rows][DT_WARRANT_KEY];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dt_warrant_key(lib, rows[i].token, rows[i].run, keys[i]);
        for (size_t k = 0; k < i; k++) {
            CHECK_ROW("%zu and %zu", i, k);
            CHECK(strcmp(keys[i], keys[k]) != 0);
        }
    }
}

TEST(a_signature_holds_for_its_key_and_its_connection_only)
{
    const struct dt_proof_table *lib = lib_or_skip();
    struct dt_proof_nonces n = some_nonces(), other = n;
    struct dt_warrant w, operator, changed;
    dt_warrant_make(lib, &sesame, "llama", &n, &w);
    dt_warrant_make(lib, &sesame, NULL, &n, &operator);
    CHECK(dt_warrant_holds(lib, w.key, w.signature, &n));
    CHECK(dt_warrant_holds(lib, operator.key, operator.signature, &n));
    CHECK(!dt_warrant_holds(lib, operator.key, w.signature, &n));
    other.client[15] ^= 1;
    CHECK(!dt_warrant_holds(lib, w.key, w.signature, &other));
    other = n;
    other.server[0] ^= 1;
    CHECK(!dt_warrant_holds(lib, w.key, w.signature, &other));
    for (size_t i = 0; i < sizeof w.signature - 1; i++) {
        CHECK_ROW("digit %zu", i);
        changed = w;
        changed.signature[i] = w.signature[i] == '0' ? '1' : '0';
        CHECK(!dt_warrant_holds(lib, changed.key, changed.signature, &n));
        changed = w;
        changed.key[i / 2] = w.key[i / 2] == '0' ? '1' : '0';
        CHECK(!dt_warrant_holds(lib, changed.key, changed.signature, &n));
    }
}

/* A key for which anything at all is a signature, and bytes that are no hexadecimal digits. */
TEST(what_is_no_key_and_no_signature_holds_nothing)
{
#define Z32 "00000000000000000000000000000000"
    static const struct {
        const char *key, *signature;
    } rows[] = {
        {"", ""},
        {Z32 Z32, Z32 Z32 Z32 Z32},
        {"01" Z32 "000000000000000000000000000000",
         "01" Z32 Z32 Z32 "000000000000000000000000000000"},
        {Z32, Z32 Z32 Z32 Z32},
        {Z32 Z32 Z32, Z32 Z32 Z32 Z32},
        {Z32 Z32, "x"},
        {"\x1b[2J", "\xff"},
    };
    const struct dt_proof_table *lib = lib_or_skip();
    struct dt_proof_nonces n = some_nonces();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        CHECK(!dt_warrant_holds(lib, rows[i].key, rows[i].signature, &n));
    }
}
