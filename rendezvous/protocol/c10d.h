/* SPDX-License-Identifier: Apache-2.0 */
/* The c10d store's requests on the wire: what PyTorch's TCPStore clients send, in all its
 * generations. Pure.
 *
 * A request is one opcode byte and its fields; there are no tags, no lengths of the whole, no
 * authentication. A connection's generation is told from its first bytes (dt_c10d_decode() does).
 * The decoder is resumable: it scans each byte of a request once however the bytes are sliced,
 * checks each length the moment its eight bytes are there, and hands out a request only when it is
 * whole, so that none takes effect in part. */
#ifndef DT_RENDEZVOUS_PROTOCOL_C10D_H
#define DT_RENDEZVOUS_PROTOCOL_C10D_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_C10D_MAGIC UINT32_C(0x3C85F7CE)

/* Numbered as the modern generation numbers them on the wire; WATCH_KEY is legacy only. */
enum dt_c10d_op {
    DT_C10D_VALIDATE = 0,
    DT_C10D_SET,
    DT_C10D_COMPARE_SET,
    DT_C10D_GET,
    DT_C10D_ADD,
    DT_C10D_CHECK,
    DT_C10D_WAIT,
    DT_C10D_GETNUMKEYS,
    DT_C10D_DELETE_KEY,
    DT_C10D_APPEND,
    DT_C10D_MULTI_GET,
    DT_C10D_MULTI_SET,
    DT_C10D_CANCEL_WAIT,
    DT_C10D_PING,
    DT_C10D_QUEUE_PUSH,
    DT_C10D_QUEUE_POP,
    DT_C10D_QUEUE_LEN,
    DT_C10D_LIST_KEYS,
    DT_C10D_BARRIER,
    DT_C10D_WATCH_KEY,
    DT_C10D_OPS, /* how many */
};

/* "SET", "COMPARE_SET", ... for log lines. */
const char *dt_c10d_op_name(enum dt_c10d_op op);

enum dt_c10d_dialect {
    DT_C10D_UNTOLD, /* nothing decisive has arrived */
    DT_C10D_MODERN, /* 2.2 and newer */
    DT_C10D_L1,     /* 1.13, 2.0 */
    DT_C10D_L2, /* 2.1; cannot be told from L1 by its bytes, so it is switched on by the operator */
};

struct dt_c10d_limits {
    uint64_t key;   /* bytes of a key */
    uint64_t value; /* bytes of a value */
    uint64_t keys;  /* items of one CHECK, WAIT, MULTI_GET or MULTI_SET */
    uint64_t whole; /* bytes of a whole request, or answer */
};

/* What the public servers of today allow for keys and counts; values twice as large as they take,
 * since the older ones took any. dtrun-rendezvous has the same as options. */
#define DT_C10D_LIMITS_DEFAULT                                                                     \
    ((struct dt_c10d_limits){.key = 8192, .value = 16u << 20, .keys = 131072, .whole = 64u << 20})

/* A whole request. Byte fields are views into the decoder's input. */
struct dt_c10d_request {
    enum dt_c10d_op op;
    struct dt_bytes key;
    struct dt_bytes value;   /* SET, APPEND, QUEUE_PUSH; of COMPARE_SET what is expected */
    struct dt_bytes desired; /* COMPARE_SET */
    int64_t number;          /* ADD: delta. BARRIER: world size. VALIDATE, PING: the u32 */
    uint64_t count;          /* items of a list request ... */
    struct dt_bytes items;   /* ... still encoded: walk them with dt_c10d_next_item() */
};

/* Takes the next key or value off *ITEMS, which is a list of them as it is on the wire. False when
 * none is left. */
bool dt_c10d_next_blob(struct dt_bytes *items, struct dt_bytes *blob);

/* Takes the next item off REQ->items; VALUE is for MULTI_SET only. False when none is left. */
bool dt_c10d_next_item(struct dt_c10d_request *req, struct dt_bytes *key, struct dt_bytes *value);

/* How far into an incomplete message a decoder has looked; see c10d_scan.h. */
struct dt_c10d_scan {
    uint8_t field;  /* index into the fields of one item */
    uint64_t left;  /* items still to scan */
    size_t scanned; /* bytes known to be well formed */
};

/* One connection's place in its stream. Zeroed memory with limits set is a fresh connection. */
struct dt_c10d_decoder {
    struct dt_c10d_limits limits;
    enum dt_c10d_dialect legacy; /* what a legacy peer is taken for: DT_C10D_L1 unless set */
    enum dt_c10d_dialect dialect;
    /* Scan state of the request that is still incomplete. */
    bool begun;
    enum dt_c10d_op op;
    struct dt_c10d_scan scan;
    uint64_t count;
    uint64_t needed; /* no use to ask again with fewer bytes than this */
};

/* Looks at the LEN bytes at BYTES, which begin at the end of the last finished request. DONE fills
 * REQ and *USED, the length of the request; MORE means that D->needed bytes or more are wanted at
 * the same place (all that was there before must still be); BAD fills *ERR with the violation and
 * ends the conversation. */
enum dt_decoded dt_c10d_decode(struct dt_c10d_decoder *d, const uint8_t *bytes, size_t len,
                               struct dt_c10d_request *req, size_t *used, struct dt_err *err);

/* The request a decoder of that dialect reads back. A list request takes its items from REQ->items
 * as they are, see dt_c10d_put_item(). False when the dialect has no such operation. */
bool dt_c10d_encode(struct dt_buf *out, enum dt_c10d_dialect dialect,
                    const struct dt_c10d_request *req);

/* Appends one item for a list request; VALUE NULL for all but MULTI_SET. */
void dt_c10d_put_item(struct dt_buf *items, struct dt_bytes key, const struct dt_bytes *value);

/* What comes back. DT_C10D_NO_ANSWER: a client hears of a failure when its connection ends. */
enum dt_c10d_answer {
    DT_C10D_NO_ANSWER,
    DT_C10D_ANSWER_U8,     /* CHECK, WAIT, CANCEL_WAIT, BARRIER, WATCH_KEY */
    DT_C10D_ANSWER_U32,    /* PING */
    DT_C10D_ANSWER_I64,    /* ADD, GETNUMKEYS, DELETE_KEY, QUEUE_LEN */
    DT_C10D_ANSWER_VALUE,  /* GET, COMPARE_SET */
    DT_C10D_ANSWER_VALUES, /* MULTI_GET: as many values as keys were asked for, no count in front */
    DT_C10D_ANSWER_POP,    /* QUEUE_POP: i64 length before the pop, and a value if it was above 0 */
    DT_C10D_ANSWER_KEYS,   /* LIST_KEYS: i64 count and as many keys */
};
enum dt_c10d_answer dt_c10d_answer_of(enum dt_c10d_op op);

/* The u8 answers. */
enum { DT_C10D_READY = 0, DT_C10D_MISSING = 1, DT_C10D_CANCELED = 1, DT_C10D_WATCHING = 3 };

/* A value or key in an answer: u64 length, bytes. */
void dt_c10d_put_value(struct dt_buf *out, struct dt_bytes value);

#endif
