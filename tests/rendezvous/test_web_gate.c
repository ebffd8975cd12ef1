/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/gate.h"
#include "tests/lib/check.h"

static struct dt_token token_of(const char *secret)
{
    struct dt_token t = {.len = strlen(secret)};
    memcpy(t.secret, secret, t.len);
    return t;
}

TEST(with_a_token_whoever_says_it_comes_in)
{
    static const struct {
        const char *said;
        enum dt_web_entry entry;
    } rows[] = {
        {NULL, DT_WEB_ENTRY_NO_TOKEN},
        {"", DT_WEB_ENTRY_NO_TOKEN},
        {"Bearer", DT_WEB_ENTRY_NO_TOKEN},
        {"open-sesame", DT_WEB_ENTRY_NO_TOKEN},
        {"Basic open-sesame", DT_WEB_ENTRY_NO_TOKEN},
        {"Bearer ", DT_WEB_ENTRY_WRONG_TOKEN},
        {"Bearer open-sesam", DT_WEB_ENTRY_WRONG_TOKEN},
        {"Bearer open-sesame!", DT_WEB_ENTRY_WRONG_TOKEN},
        {"Bearer open-sesame ", DT_WEB_ENTRY_WRONG_TOKEN},
        {"Bearer Open-sesame", DT_WEB_ENTRY_WRONG_TOKEN},
        {"Bearer open-sesame", DT_WEB_ENTRY_GOOD},
        {"bearer  open-sesame", DT_WEB_ENTRY_GOOD},
    };
    const struct dt_token token = token_of("open-sesame");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("\"%s\"", rows[i].said ? rows[i].said : "no header");
        CHECK_EQ(dt_web_gate(&token, rows[i].said, "any.host.example"), rows[i].entry);
    }
}

TEST(without_a_token_a_name_that_others_give_us_is_not_answered)
{
    static const struct {
        const char *host;
        bool good;
    } rows[] = {
        {NULL, true}, /* of HTTP/1.0: no browser */
        {"localhost", true},
        {"LocalHost:9400", true},
        {"127.0.0.1:9400", true},
        {"127.0.0.1", true},
        {"[::1]:9400", true},
        {"[::1]", true},
        {"", false},
        {"evil.example", false},
        {"evil.example:9400", false},
        {"localhost.evil.example", false},
        {"127.0.0.1.evil.example", false},
        {"[::1", false},
        {"[evil.example]", false},
        {"0123456789012345678901234567890123456789012345678901234567890123456789", false},
    };
    const struct dt_token none = {.len = 0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("\"%s\"", rows[i].host ? rows[i].host : "no header");
        CHECK_EQ(dt_web_gate(&none, NULL, rows[i].host),
                 rows[i].good ? DT_WEB_ENTRY_GOOD : DT_WEB_ENTRY_WRONG_HOST);
    }
}

TEST(a_token_that_no_header_carries_is_a_mistake)
{
    struct dt_err err;
    struct dt_token good = token_of("0123456789abcdef-_.~+/="), blank = token_of("open sesame"),
                    line = token_of("open\nsesame"), high = token_of("sesam\xc3\xa9");
    CHECK_OK(dt_web_gate_check(&good, &err), err);
    CHECK_FAIL(dt_web_gate_check(&blank, &err), err, "cannot carry byte 5 of the token");
    CHECK_FAIL(dt_web_gate_check(&line, &err), err, "byte 5");
    CHECK_FAIL(dt_web_gate_check(&high, &err), err, "byte 6");
}
