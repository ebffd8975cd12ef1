/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for which keys of a job's store: what our servers hold under a key of their own, for
 * agents that look at their workers. A client is shown the waits of its own host alone. Pure. */
#ifndef DT_RENDEZVOUS_PROTOCOL_KEY_WAITS_H
#define DT_RENDEZVOUS_PROTOCOL_KEY_WAITS_H

#include "base/addr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define DT_KEY_WAITS "/dtrun/waits" /* CHECK and GET find it; it is no entry of the store */

#define DT_KEY_WAITS_MAX 256       /* others are left out */
#define DT_KEY_WAIT_NAMED 3        /* keys of one wait; the others are counted */
#define DT_KEY_WAIT_TEXT_MAX 256   /* with its NUL */
#define DT_KEY_WAITS_BYTES 262144u /* of the value */

struct dt_key_wait {
    char from[DT_ADDR_TEXT]; /* the client's end of its connection: "10.0.0.2:41234" */
    dt_ms waited;
    char keys[DT_KEY_WAIT_TEXT_MAX]; /* "default_pg/0//cpu//0/3, rank_4 and 2 more": printable */
};

/* Names COUNT keys in W, of MISSING for which it waits; without the slashes that PyTorch's clients
 * put in front of each. */
void dt_key_wait_name(struct dt_key_wait *w, const struct dt_bytes *keys, size_t count,
                      uint64_t missing);

struct dt_key_waits {
    struct dt_key_wait at[DT_KEY_WAITS_MAX];
    size_t len;
};

/* The value, and back with every length and number checked. */
void dt_key_waits_put(const struct dt_key_waits *waits, struct dt_buf *out);
int dt_key_waits_get(struct dt_key_waits *waits, struct dt_bytes value, struct dt_err *err);

/* NULL: no client at FROM waits for anything. */
const struct dt_key_wait *dt_key_waits_find(const struct dt_key_waits *waits, const char *from);

#endif
