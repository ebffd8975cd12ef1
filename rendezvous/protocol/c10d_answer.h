/* SPDX-License-Identifier: Apache-2.0 */
/* The c10d store's answers on the wire, for clients. Pure.
 *
 * An answer carries no tag and, but for its lengths, no structure: one must know what was asked.
 * The decoder is resumable as the one for requests is: it scans each byte once however the bytes
 * are sliced, and a server can make it wait for, or hold, no more than the limits say. */
#ifndef DT_RENDEZVOUS_PROTOCOL_C10D_ANSWER_H
#define DT_RENDEZVOUS_PROTOCOL_C10D_ANSWER_H

#include "rendezvous/protocol/c10d.h"

/* What clients take: real servers limit neither keys nor values, so be generous. */
#define DT_C10D_ANSWER_LIMITS_DEFAULT                                                              \
    ((struct dt_c10d_limits){                                                                      \
        .key = 1u << 20, .value = 256u << 20, .keys = UINT32_MAX, .whole = 512u << 20})

/* A whole answer. Byte fields are views into the decoder's input. */
struct dt_c10d_reply {
    enum dt_c10d_op op;
    int64_t number;        /* every u8, u32 and i64 answer; QUEUE_POP: length before the pop */
    struct dt_bytes value; /* GET, COMPARE_SET; QUEUE_POP when number > 0 */
    uint64_t count;        /* MULTI_GET: values, LIST_KEYS: keys ... */
    struct dt_bytes items; /* ... still encoded: walk them with dt_c10d_next_blob() */
};

struct dt_c10d_answer_decoder {
    struct dt_c10d_limits limits;
    enum dt_c10d_op op;
    uint64_t asked; /* keys of a MULTI_GET */
    bool begun;     /* the number in front is known */
    int64_t number;
    size_t head; /* its bytes */
    uint64_t count;
    struct dt_c10d_scan scan;
    uint64_t needed; /* no use to ask again with fewer bytes than this */
};

/* What comes next is the answer to OP, which named COUNT keys (1 where it names one; only MULTI_GET
 * looks). The limits stay as the owner set them. */
void dt_c10d_answer_expect(struct dt_c10d_answer_decoder *d, enum dt_c10d_op op, uint64_t count);

/* Looks at the LEN bytes at BYTES, which begin at the end of the last finished answer. DONE fills
 * REPLY and *USED; with 0 bytes at once for requests that have no answer. MORE means that d->needed
 * bytes or more are wanted at the same place; BAD fills *ERR and ends the conversation. */
enum dt_decoded dt_c10d_answer_decode(struct dt_c10d_answer_decoder *d, const uint8_t *bytes,
                                      size_t len, struct dt_c10d_reply *reply, size_t *used,
                                      struct dt_err *err);

#endif
