/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/c10d.h"

#include "rendezvous/protocol/c10d_scan.h"

#include <inttypes.h>
#include <string.h>

/* What follows the opcode: the fields of one item, lettered as in c10d_scan.h. A list is a u64
 * count and as many items. */
struct shape {
    const char *name;
    bool list;
    const char *fields;
    enum dt_c10d_answer answer;
};

/* clang-format off */
static const struct shape shapes[DT_C10D_OPS] = {
    [DT_C10D_VALIDATE]    = {"VALIDATE",    false, "u",   DT_C10D_NO_ANSWER},
    [DT_C10D_SET]         = {"SET",         false, "kv",  DT_C10D_NO_ANSWER},
    [DT_C10D_COMPARE_SET] = {"COMPARE_SET", false, "kvv", DT_C10D_ANSWER_VALUE},
    [DT_C10D_GET]         = {"GET",         false, "k",   DT_C10D_ANSWER_VALUE},
    [DT_C10D_ADD]         = {"ADD",         false, "ki",  DT_C10D_ANSWER_I64},
    [DT_C10D_CHECK]       = {"CHECK",       true,  "k",   DT_C10D_ANSWER_U8},
    [DT_C10D_WAIT]        = {"WAIT",        true,  "k",   DT_C10D_ANSWER_U8},
    [DT_C10D_GETNUMKEYS]  = {"GETNUMKEYS",  false, "",    DT_C10D_ANSWER_I64},
    [DT_C10D_DELETE_KEY]  = {"DELETE_KEY",  false, "k",   DT_C10D_ANSWER_I64},
    [DT_C10D_APPEND]      = {"APPEND",      false, "kv",  DT_C10D_NO_ANSWER},
    [DT_C10D_MULTI_GET]   = {"MULTI_GET",   true,  "k",   DT_C10D_ANSWER_VALUES},
    [DT_C10D_MULTI_SET]   = {"MULTI_SET",   true,  "kv",  DT_C10D_NO_ANSWER},
    [DT_C10D_CANCEL_WAIT] = {"CANCEL_WAIT", false, "",    DT_C10D_ANSWER_U8},
    [DT_C10D_PING]        = {"PING",        false, "u",   DT_C10D_ANSWER_U32},
    [DT_C10D_QUEUE_PUSH]  = {"QUEUE_PUSH",  false, "kv",  DT_C10D_NO_ANSWER},
    [DT_C10D_QUEUE_POP]   = {"QUEUE_POP",   false, "k",   DT_C10D_ANSWER_POP},
    [DT_C10D_QUEUE_LEN]   = {"QUEUE_LEN",   false, "k",   DT_C10D_ANSWER_I64},
    [DT_C10D_LIST_KEYS]   = {"LIST_KEYS",   false, "",    DT_C10D_ANSWER_KEYS},
    [DT_C10D_BARRIER]     = {"BARRIER",     false, "ki",  DT_C10D_ANSWER_U8},
    [DT_C10D_WATCH_KEY]   = {"WATCH_KEY",   false, "k",   DT_C10D_ANSWER_U8},
};
/* clang-format on */

/* Opcodes of the legacy dialects, in the order of their numbers. Modern opcodes are the enum
 * itself. */
static const enum dt_c10d_op l1_ops[] = {
    DT_C10D_SET,  DT_C10D_COMPARE_SET, DT_C10D_GET,       DT_C10D_ADD,        DT_C10D_CHECK,
    DT_C10D_WAIT, DT_C10D_GETNUMKEYS,  DT_C10D_WATCH_KEY, DT_C10D_DELETE_KEY,
};
static const enum dt_c10d_op l2_ops[] = {
    DT_C10D_SET,    DT_C10D_COMPARE_SET, DT_C10D_GET,        DT_C10D_ADD,
    DT_C10D_CHECK,  DT_C10D_WAIT,        DT_C10D_GETNUMKEYS, DT_C10D_DELETE_KEY,
    DT_C10D_APPEND, DT_C10D_MULTI_GET,   DT_C10D_MULTI_SET,  DT_C10D_CANCEL_WAIT,
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

const char *dt_c10d_op_name(enum dt_c10d_op op)
{
    return shapes[op].name;
}

enum dt_c10d_answer dt_c10d_answer_of(enum dt_c10d_op op)
{
    return shapes[op].answer;
}

/* The operation that CODE means in a dialect, or DT_C10D_OPS. VALIDATE is no operation: it opens a
 * connection. */
static enum dt_c10d_op op_of(enum dt_c10d_dialect dialect, uint8_t code)
{
    switch (dialect) {
    case DT_C10D_MODERN:
        return code > DT_C10D_VALIDATE && code <= DT_C10D_BARRIER ? (enum dt_c10d_op)code
                                                                  : DT_C10D_OPS;
    case DT_C10D_L1:
        return code < COUNT(l1_ops) ? l1_ops[code] : DT_C10D_OPS;
    case DT_C10D_L2:
        return code < COUNT(l2_ops) ? l2_ops[code] : DT_C10D_OPS;
    case DT_C10D_UNTOLD:
        break;
    }
    return DT_C10D_OPS;
}

static enum dt_decoded want(struct dt_c10d_decoder *d, uint64_t total)
{
    d->needed = total;
    return DT_MORE;
}

/* A modern peer opens with a zero byte and the magic. A legacy peer that opens with a zero byte
 * means SET, and the magic would be the low half of a key length of 968 MiB or more: refused in any
 * case, so the first byte that differs decides. */
static enum dt_decoded tell_dialect(struct dt_c10d_decoder *d, const uint8_t *bytes, size_t len,
                                    struct dt_c10d_request *req, size_t *used)
{
    static const uint8_t hello[] = {DT_C10D_VALIDATE, 0xCE, 0xF7, 0x85, 0x3C};
    size_t n = len < sizeof hello ? len : sizeof hello;
    if (memcmp(bytes, hello, n) != 0) {
        d->dialect = d->legacy == DT_C10D_L2 ? DT_C10D_L2 : DT_C10D_L1;
        return DT_MORE;
    }
    if (n < sizeof hello)
        return want(d, n + 1);
    d->dialect = DT_C10D_MODERN;
    *req = (struct dt_c10d_request){.op = DT_C10D_VALIDATE, .number = DT_C10D_MAGIC};
    *used = sizeof hello;
    return DT_DONE;
}

static enum dt_decoded begin(struct dt_c10d_decoder *d, const uint8_t *bytes, size_t len,
                             struct dt_err *err)
{
    d->op = op_of(d->dialect, bytes[0]);
    if (d->op == DT_C10D_OPS) {
        dt_err_set(err, DT_E_PROTOCOL, "opcode %u is unknown to %s clients", bytes[0],
                   d->dialect == DT_C10D_MODERN ? "modern" : "legacy");
        return DT_BAD;
    }
    d->count = 1;
    size_t scanned = 1;
    if (shapes[d->op].list) {
        if (len < 9)
            return want(d, 9);
        struct dt_reader r = dt_reader_over(bytes + 1, 8);
        d->count = dt_read_u64(&r);
        if (d->count > d->limits.keys) {
            dt_err_set(err, DT_E_LIMIT, "%" PRIu64 " keys are over the limit of %" PRIu64, d->count,
                       d->limits.keys);
            return DT_BAD;
        }
        scanned = 9;
    }
    d->scan = (struct dt_c10d_scan){.left = d->count, .scanned = scanned};
    d->begun = true;
    return DT_DONE;
}

/* The fields of a request that was scanned to its end. */
static void extract(const struct dt_c10d_decoder *d, const uint8_t *bytes,
                    struct dt_c10d_request *req)
{
    *req = (struct dt_c10d_request){.op = d->op, .count = d->count};
    if (shapes[d->op].list) {
        req->items = (struct dt_bytes){bytes + 9, d->scan.scanned - 9};
        return;
    }
    struct dt_reader r = dt_reader_over(bytes + 1, d->scan.scanned - 1);
    struct dt_bytes *value = &req->value;
    for (const char *f = shapes[d->op].fields; *f; f++) {
        if (*f == 'k') {
            req->key = dt_c10d_read_blob(&r);
        } else if (*f == 'v') {
            *value = dt_c10d_read_blob(&r);
            value = &req->desired;
        } else {
            req->number = *f == 'i' ? dt_read_i64(&r) : (int64_t)dt_read_u32(&r);
        }
    }
}

enum dt_decoded dt_c10d_decode(struct dt_c10d_decoder *d, const uint8_t *bytes, size_t len,
                               struct dt_c10d_request *req, size_t *used, struct dt_err *err)
{
    if (len == 0)
        return want(d, 1);
    if (d->dialect == DT_C10D_UNTOLD) {
        enum dt_decoded got = tell_dialect(d, bytes, len, req, used);
        if (d->dialect == DT_C10D_UNTOLD || got == DT_DONE)
            return got;
    }
    if (!d->begun) {
        enum dt_decoded got = begin(d, bytes, len, err);
        if (got != DT_DONE)
            return got;
    }
    struct dt_c10d_rules rules = {&d->limits, shapes[d->op].fields, "a request"};
    enum dt_decoded got = dt_c10d_scan_items(&d->scan, &rules, bytes, len, &d->needed, err);
    if (got != DT_DONE)
        return got;
    extract(d, bytes, req);
    *used = d->scan.scanned;
    d->begun = false;
    return DT_DONE;
}

bool dt_c10d_next_blob(struct dt_bytes *items, struct dt_bytes *blob)
{
    if (items->len == 0)
        return false;
    struct dt_reader r = dt_reader_over(items->at, items->len);
    *blob = dt_c10d_read_blob(&r);
    *items = (struct dt_bytes){r.at, dt_reader_left(&r)};
    return !r.bad;
}

bool dt_c10d_next_item(struct dt_c10d_request *req, struct dt_bytes *key, struct dt_bytes *value)
{
    if (!dt_c10d_next_blob(&req->items, key))
        return false;
    return shapes[req->op].fields[1] != 'v' || dt_c10d_next_blob(&req->items, value);
}

static bool code_of(enum dt_c10d_dialect dialect, enum dt_c10d_op op, uint8_t *code)
{
    if (op == DT_C10D_VALIDATE) {
        *code = DT_C10D_VALIDATE;
        return dialect == DT_C10D_MODERN;
    }
    for (unsigned c = 0; c < DT_C10D_OPS; c++)
        if (op_of(dialect, (uint8_t)c) == op) {
            *code = (uint8_t)c;
            return true;
        }
    return false;
}

bool dt_c10d_encode(struct dt_buf *out, enum dt_c10d_dialect dialect,
                    const struct dt_c10d_request *req)
{
    uint8_t code;
    if (!code_of(dialect, req->op, &code))
        return false;
    dt_buf_put_u8(out, code);
    if (shapes[req->op].list) {
        dt_buf_put_u64(out, req->count);
        dt_buf_put(out, req->items.at, req->items.len);
        return true;
    }
    const struct dt_bytes *value = &req->value;
    for (const char *f = shapes[req->op].fields; *f; f++) {
        if (*f == 'k') {
            dt_c10d_put_value(out, req->key);
        } else if (*f == 'v') {
            dt_c10d_put_value(out, *value);
            value = &req->desired;
        } else if (*f == 'i') {
            dt_buf_put_i64(out, req->number);
        } else {
            dt_buf_put_u32(out, (uint32_t)req->number);
        }
    }
    return true;
}

void dt_c10d_put_item(struct dt_buf *items, struct dt_bytes key, const struct dt_bytes *value)
{
    dt_c10d_put_value(items, key);
    if (value)
        dt_c10d_put_value(items, *value);
}

void dt_c10d_put_value(struct dt_buf *out, struct dt_bytes value)
{
    dt_buf_put_u64(out, value.len);
    dt_buf_put(out, value.at, value.len);
}
