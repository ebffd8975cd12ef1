/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/retry.h"

#include <string.h>

#define FIRST_PAUSE ((dt_ms)200)
#define LONGEST_PAUSE (20 * DT_SECOND)
#define RETRY_AFTER_MOST (60 * DT_SECOND)
/* Amazon takes requests that are 15 minutes off; others take 5. */
#define CLOCK_MAY_BE_OFF 60

void dt_retry_init(struct dt_retry *r, int most, uint64_t seed)
{
    *r = (struct dt_retry){
        .most = most,
        .backoff = {.first = FIRST_PAUSE, .most = LONGEST_PAUSE, .seed = seed},
    };
}

void dt_retry_progress(struct dt_retry *r)
{
    r->made = 0;
    dt_backoff_reset(&r->backoff);
}

enum kind { FINAL, PASSING, CLOCK, REGION, KEYS };

/* The server's own word counts more than the status. */
static const struct {
    const char *code;
    enum kind kind;
} codes[] = {
    {"SlowDown", PASSING},
    {"InternalError", PASSING},
    {"ServiceUnavailable", PASSING},
    {"OperationAborted", PASSING},
    {"RequestTimeout", PASSING},
    {"Throttling", PASSING},
    {"ThrottlingException", PASSING},
    {"RequestLimitExceeded", PASSING},
    {"BandwidthLimitExceeded", PASSING},
    {"TooManyRequests", PASSING},
    {"IDPCommunicationError", PASSING}, /* the service did not reach whoever knows the identity */
    /* The bytes changed on their way. */
    {"BadDigest", PASSING},
    {"XAmzContentSHA256Mismatch", PASSING},
    {"IncompleteBody", PASSING},
    {"RequestTimeTooSkewed", CLOCK},
    {"RequestExpired", CLOCK},
    {"AuthorizationHeaderMalformed", REGION},
    {"PermanentRedirect", REGION},
    {"IllegalLocationConstraintException", REGION},
    {"ExpiredToken", KEYS},
    {"ExpiredTokenException", KEYS},
    {"InvalidToken", KEYS},
    {"TokenRefreshRequired", KEYS},
};

static enum kind kind_of_status(int status)
{
    switch (status) {
    case 408: /* it waited too long for us */
    case 425:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
        return PASSING;
    case 301:
        return REGION;
    default:
        /* Which other errors of a server pass, it does not know itself. */
        return status >= 500 && status != 501 && status != 505 && status != 507 ? PASSING : FINAL;
    }
}

static enum kind kind_of(const struct dt_retry_facts *f)
{
    switch (f->end) {
    case DT_HTTP_UNREACHED:
    case DT_HTTP_LOST:
        return PASSING;
    case DT_HTTP_UNTRUSTED:
    case DT_HTTP_STOPPED:
    case DT_HTTP_REFUSED:
    case DT_HTTP_LOCAL:
        return FINAL;
    case DT_HTTP_ANSWERED:
        break;
    }
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(f->code, codes[i].code) == 0)
            return codes[i].kind;
    /* To HEAD a server answers without a word of its own: then the clock may be the reason, or the
     * region. */
    if ((f->status == 403 || f->status == 400) && !*f->code)
        return f->tells_region ? REGION : CLOCK;
    return kind_of_status(f->status);
}

static enum dt_retry_move once(bool *was_done, bool helps, enum dt_retry_move move)
{
    if (*was_done || !helps)
        return DT_RETRY_GIVE_UP;
    *was_done = true;
    return move;
}

static enum dt_retry_move again(struct dt_retry *r, const struct dt_retry_facts *f, dt_ms *pause)
{
    if (++r->made >= r->most)
        return DT_RETRY_GIVE_UP;
    dt_ms asked = f->retry_after < RETRY_AFTER_MOST ? f->retry_after : RETRY_AFTER_MOST;
    *pause = dt_backoff_next(&r->backoff);
    if (*pause < asked)
        *pause += asked; /* the part by chance stays */
    return DT_RETRY_AGAIN;
}

enum dt_retry_move dt_retry_decide(struct dt_retry *r, const struct dt_retry_facts *f, dt_ms *pause)
{
    *pause = 0;
    if (f->end == DT_HTTP_ANSWERED && f->status >= 200 && f->status < 300 && !*f->code)
        return DT_RETRY_DONE;
    int64_t off = f->clock_off < 0 ? -f->clock_off : f->clock_off;
    switch (kind_of(f)) {
    case FINAL:
        return DT_RETRY_GIVE_UP;
    case PASSING:
        return again(r, f, pause);
    case CLOCK:
        return once(&r->clock_was_set, off > CLOCK_MAY_BE_OFF, DT_RETRY_SET_CLOCK);
    case REGION:
        return once(&r->region_was_set, f->tells_region, DT_RETRY_SET_REGION);
    case KEYS:
        return once(&r->keys_were_renewed, f->keys_can_change, DT_RETRY_RENEW_KEYS);
    }
    return DT_RETRY_GIVE_UP;
}
