/* SPDX-License-Identifier: Apache-2.0 */
/* What requests and answers of the wire are both made of: runs of items, an item being some fields.
 * Pure, and for the two decoders next door; others want c10d.h or c10d_answer.h. */
#ifndef DT_RENDEZVOUS_PROTOCOL_C10D_SCAN_H
#define DT_RENDEZVOUS_PROTOCOL_C10D_SCAN_H

#include "base/buf.h"
#include "base/err.h"
#include "rendezvous/protocol/c10d.h"

/* The rules of one message kind. FIELDS of an item: k = key, v = value (both u64 length and bytes),
 * i = i64, u = u32. */
struct dt_c10d_rules {
    const struct dt_c10d_limits *limits;
    const char *fields;
    const char *message; /* "a request", "an answer": for the error */
};

/* Steps over the items of the message at BYTES, from s->scanned on until s->left is 0. Each length
 * meets its limits before anybody waits for what it announces. MORE: *NEEDED bytes or more are
 * wanted at the same place. */
enum dt_decoded dt_c10d_scan_items(struct dt_c10d_scan *s, const struct dt_c10d_rules *rules,
                                   const uint8_t *bytes, size_t len, uint64_t *needed,
                                   struct dt_err *err);

/* A key or value that was scanned before. */
struct dt_bytes dt_c10d_read_blob(struct dt_reader *r);

#endif
