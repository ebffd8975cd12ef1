/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks that somebody asks for, as text of a message: "0-3,7". Pure. */
#ifndef DT_RENDEZVOUS_PROTOCOL_RANK_SET_H
#define DT_RENDEZVOUS_PROTOCOL_RANK_SET_H

#include "base/buf.h"
#include "base/err.h"
#include "rendezvous/protocol/stance.h"

#include <stdbool.h>

#define DT_RANK_SET_MAX 64    /* ranges */
#define DT_RANK_SET_TEXT 1536 /* bytes of the longest text, with its NUL */

/* Zeroed memory has all ranks. */
struct dt_rank_set {
    struct dt_rank_range at[DT_RANK_SET_MAX];
    size_t len;
};

/* "" is the set of all. -1 and *err: it is no such text, or has too many ranges. */
int dt_rank_set_read(const char *text, struct dt_rank_set *out, struct dt_err *err);
void dt_rank_set_put(const struct dt_rank_set *s, struct dt_buf *out);

/* Whether a rank from FIRST to LAST, both included, is in it. */
bool dt_rank_set_has(const struct dt_rank_set *s, int first, int last);

#endif
