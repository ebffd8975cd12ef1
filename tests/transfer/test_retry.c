/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/retry.h"

#include "tests/lib/check.h"

#define ANSWERED(s, c) .f = {.end = DT_HTTP_ANSWERED, .status = s, .code = c}
#define ENDED(e) .f = {.end = e, .code = ""}

TEST(what_passes_is_tried_again_and_nothing_else)
{
    static const struct {
        const char *name;
        struct dt_retry_facts f;
        enum dt_retry_move want;
    } rows[] = {
        {"200", ANSWERED(200, ""), DT_RETRY_DONE},
        {"204", ANSWERED(204, ""), DT_RETRY_DONE},
        {"206", ANSWERED(206, ""), DT_RETRY_DONE},
        {"an error in a 200", ANSWERED(200, "InternalError"), DT_RETRY_AGAIN},
        {"another error in a 200", ANSWERED(200, "InvalidPart"), DT_RETRY_GIVE_UP},
        {"503 SlowDown", ANSWERED(503, "SlowDown"), DT_RETRY_AGAIN},
        {"503", ANSWERED(503, ""), DT_RETRY_AGAIN},
        {"500 InternalError", ANSWERED(500, "InternalError"), DT_RETRY_AGAIN},
        {"500", ANSWERED(500, ""), DT_RETRY_AGAIN},
        {"502", ANSWERED(502, ""), DT_RETRY_AGAIN},
        {"504", ANSWERED(504, ""), DT_RETRY_AGAIN},
        {"429", ANSWERED(429, ""), DT_RETRY_AGAIN},
        {"408", ANSWERED(408, ""), DT_RETRY_AGAIN},
        {"400 RequestTimeout", ANSWERED(400, "RequestTimeout"), DT_RETRY_AGAIN},
        {"400 Throttling", ANSWERED(400, "Throttling"), DT_RETRY_AGAIN},
        {"400 IDPCommunicationError", ANSWERED(400, "IDPCommunicationError"), DT_RETRY_AGAIN},
        {"400 BadDigest", ANSWERED(400, "BadDigest"), DT_RETRY_AGAIN},
        {"409 OperationAborted", ANSWERED(409, "OperationAborted"), DT_RETRY_AGAIN},
        {"501", ANSWERED(501, "NotImplemented"), DT_RETRY_GIVE_UP},
        {"507", ANSWERED(507, ""), DT_RETRY_GIVE_UP},
        {"400", ANSWERED(400, "InvalidArgument"), DT_RETRY_GIVE_UP},
        {"403 AccessDenied", ANSWERED(403, "AccessDenied"), DT_RETRY_GIVE_UP},
        {"403 SignatureDoesNotMatch", ANSWERED(403, "SignatureDoesNotMatch"), DT_RETRY_GIVE_UP},
        {"404", ANSWERED(404, "NoSuchBucket"), DT_RETRY_GIVE_UP},
        {"412", ANSWERED(412, "PreconditionFailed"), DT_RETRY_GIVE_UP},
        {"301 to nowhere", ANSWERED(301, "PermanentRedirect"), DT_RETRY_GIVE_UP},
        {"lost", ENDED(DT_HTTP_LOST), DT_RETRY_AGAIN},
        {"unreached", ENDED(DT_HTTP_UNREACHED), DT_RETRY_AGAIN},
        {"untrusted", ENDED(DT_HTTP_UNTRUSTED), DT_RETRY_GIVE_UP},
        {"stopped", ENDED(DT_HTTP_STOPPED), DT_RETRY_GIVE_UP},
        {"refused", ENDED(DT_HTTP_REFUSED), DT_RETRY_GIVE_UP},
        {"local", ENDED(DT_HTTP_LOCAL), DT_RETRY_GIVE_UP},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_retry r;
        dt_ms pause;
        CHECK_ROW("%s", rows[i].name);
        dt_retry_init(&r, 8, 1);
        CHECK_EQ(dt_retry_decide(&r, &rows[i].f, &pause), rows[i].want);
        CHECK_EQ(pause > 0, rows[i].want == DT_RETRY_AGAIN);
    }
}

/* How many attempts there were, and how long they waited in all. */
static int until_the_end(struct dt_retry *r, const struct dt_retry_facts *f, dt_ms *waited)
{
    int made = 1;
    dt_ms pause;
    for (*waited = 0; dt_retry_decide(r, f, &pause) == DT_RETRY_AGAIN; made++)
        *waited += pause;
    return made;
}

TEST(attempts_end_and_pauses_grow_by_chance)
{
    const struct dt_retry_facts f = {.end = DT_HTTP_ANSWERED, .status = 503, .code = "SlowDown"};
    struct dt_retry one, other;
    dt_ms waited, differs;
    dt_retry_init(&one, 8, 1);
    dt_retry_init(&other, 8, 2);
    CHECK_EQ(until_the_end(&one, &f, &waited), 8);
    CHECK_EQ(until_the_end(&other, &f, &differs), 8);
    CHECK(waited > 2000 && waited < 20000);
    CHECK(waited != differs);
    dt_retry_init(&one, 1, 1);
    CHECK_EQ(until_the_end(&one, &f, &waited), 1);
}

TEST(a_server_that_says_how_long_is_heard_up_to_a_minute)
{
    struct dt_retry_facts f = {.end = DT_HTTP_ANSWERED, .status = 429, .code = ""};
    struct dt_retry r;
    dt_ms pause;
    dt_retry_init(&r, 8, 1);
    f.retry_after = 5 * DT_SECOND;
    CHECK_EQ(dt_retry_decide(&r, &f, &pause), DT_RETRY_AGAIN);
    CHECK(pause >= 5 * DT_SECOND && pause < 6 * DT_SECOND);
    f.retry_after = 3600 * DT_SECOND;
    CHECK_EQ(dt_retry_decide(&r, &f, &pause), DT_RETRY_AGAIN);
    CHECK(pause >= 60 * DT_SECOND && pause < 62 * DT_SECOND);
}

TEST(each_correction_is_made_once_and_only_where_it_helps)
{
    static const struct {
        const char *name;
        struct dt_retry_facts f;
        enum dt_retry_move want;
    } rows[] = {
        {"a clock that is slow",
         {.status = 403, .code = "RequestTimeTooSkewed", .clock_off = 1200},
         DT_RETRY_SET_CLOCK},
        {"a clock that is fast",
         {.status = 403, .code = "RequestTimeTooSkewed", .clock_off = -1200},
         DT_RETRY_SET_CLOCK},
        {"a clock that is right",
         {.status = 403, .code = "RequestTimeTooSkewed", .clock_off = 30},
         DT_RETRY_GIVE_UP},
        {"a HEAD of a slow clock",
         {.status = 403, .code = "", .clock_off = 1200},
         DT_RETRY_SET_CLOCK},
        {"a HEAD without access", {.status = 403, .code = ""}, DT_RETRY_GIVE_UP},
        {"another region",
         {.status = 400, .code = "AuthorizationHeaderMalformed", .tells_region = true},
         DT_RETRY_SET_REGION},
        {"a redirection",
         {.status = 301, .code = "PermanentRedirect", .tells_region = true},
         DT_RETRY_SET_REGION},
        {"a HEAD in another region",
         {.status = 301, .code = "", .tells_region = true},
         DT_RETRY_SET_REGION},
        {"a HEAD that is a bad request",
         {.status = 400, .code = "", .tells_region = true},
         DT_RETRY_SET_REGION},
        {"keys that passed away",
         {.status = 400, .code = "ExpiredToken", .keys_can_change = true},
         DT_RETRY_RENEW_KEYS},
        {"keys that stay", {.status = 400, .code = "ExpiredToken"}, DT_RETRY_GIVE_UP},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_retry r;
        dt_ms pause;
        CHECK_ROW("%s", rows[i].name);
        dt_retry_init(&r, 8, 1);
        CHECK_EQ(dt_retry_decide(&r, &rows[i].f, &pause), rows[i].want);
        CHECK_EQ(pause, 0);
        CHECK_EQ(dt_retry_decide(&r, &rows[i].f, &pause), DT_RETRY_GIVE_UP);
    }
}

TEST(what_was_achieved_makes_attempts_count_anew)
{
    const struct dt_retry_facts f = {.end = DT_HTTP_LOST, .code = ""};
    struct dt_retry r;
    dt_ms pause, waited;
    dt_retry_init(&r, 3, 1);
    CHECK_EQ(dt_retry_decide(&r, &f, &pause), DT_RETRY_AGAIN);
    CHECK_EQ(dt_retry_decide(&r, &f, &pause), DT_RETRY_AGAIN);
    dt_retry_progress(&r);
    CHECK_EQ(until_the_end(&r, &f, &waited), 3);
}
