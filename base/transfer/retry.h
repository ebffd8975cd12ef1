/* SPDX-License-Identifier: Apache-2.0 */
/* What to do about a request to a store that did not go well. Pure: facts in, a decision out. */
#ifndef DT_BASE_TRANSFER_RETRY_H
#define DT_BASE_TRANSFER_RETRY_H

#include "base/backoff.h"
#include "base/clock.h"
#include "base/transfer/http.h"

#include <stdbool.h>
#include <stdint.h>

enum dt_retry_move {
    DT_RETRY_DONE,       /* it went well: an answer of 2xx */
    DT_RETRY_GIVE_UP,    /* it can only fail again, or has failed often enough */
    DT_RETRY_AGAIN,      /* after a pause */
    DT_RETRY_SET_CLOCK,  /* at once, with the server's time */
    DT_RETRY_SET_REGION, /* at once, signed for the region that the server told */
    DT_RETRY_RENEW_KEYS, /* at once, with new credentials */
};

struct dt_retry_facts {
    enum dt_http_end end;
    int status;
    const char *code;     /* of the server's <Error>; "" */
    bool tells_region;    /* another one than the request was signed for */
    bool keys_can_change; /* they come from where newer ones are to be had */
    int64_t clock_off; /* seconds that the server's clock is ahead of what was signed; 0: alike, or
                        * it does not say */
    dt_ms retry_after; /* what the server asked for; 0: nothing */
};

/* Of one request. Each correction is made once: what it did not help is not tried again. */
struct dt_retry {
    int made, most; /* attempts; corrections count as none */
    bool clock_was_set, region_was_set, keys_were_renewed;
    struct dt_backoff backoff;
};

/* MOST attempts. SEED differs from process to process. */
void dt_retry_init(struct dt_retry *r, int most, uint64_t seed);

/* An attempt is over. *PAUSE is how long to wait with the next one, if that is the decision. */
enum dt_retry_move dt_retry_decide(struct dt_retry *r, const struct dt_retry_facts *f,
                                   dt_ms *pause);

/* Something was achieved, such as a part of a download: count from the start again. */
void dt_retry_progress(struct dt_retry *r);

#endif
