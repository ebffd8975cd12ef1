/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/c10d_answer.h"

#include "rendezvous/protocol/c10d_scan.h"

#include <inttypes.h>

/* An answer is a number of so many bytes, and then a run of items. */
struct form {
    uint8_t number;
    const char *fields; /* of an item; "" where there are none */
};

static const struct form forms[] = {
    [DT_C10D_NO_ANSWER] = {0, ""},     [DT_C10D_ANSWER_U8] = {1, ""},
    [DT_C10D_ANSWER_U32] = {4, ""},    [DT_C10D_ANSWER_I64] = {8, ""},
    [DT_C10D_ANSWER_VALUE] = {0, "v"}, [DT_C10D_ANSWER_VALUES] = {0, "v"},
    [DT_C10D_ANSWER_POP] = {8, "v"},   [DT_C10D_ANSWER_KEYS] = {8, "k"},
};

void dt_c10d_answer_expect(struct dt_c10d_answer_decoder *d, enum dt_c10d_op op, uint64_t count)
{
    d->op = op;
    d->asked = count;
    d->begun = false;
    enum dt_c10d_answer kind = dt_c10d_answer_of(op);
    bool value_first = kind == DT_C10D_ANSWER_VALUE || (kind == DT_C10D_ANSWER_VALUES && count > 0);
    d->needed = value_first ? 8 : forms[kind].number;
}

static int64_t read_number(const uint8_t *bytes, size_t width)
{
    if (width == 0)
        return 0; /* BYTES may be NULL */
    struct dt_reader r = dt_reader_over(bytes, width);
    switch (width) {
    case 1:
        return dt_read_u8(&r);
    case 4:
        return dt_read_u32(&r);
    case 8:
        return dt_read_i64(&r);
    }
    return 0;
}

/* How many items follow the number. -1: no server answers so. */
static int count_items(const struct dt_c10d_answer_decoder *d, uint64_t *count)
{
    *count = 0;
    switch (dt_c10d_answer_of(d->op)) {
    case DT_C10D_ANSWER_U8:
        return d->number > (d->op == DT_C10D_WATCH_KEY ? DT_C10D_WATCHING : DT_C10D_MISSING) ? -1
                                                                                             : 0;
    case DT_C10D_ANSWER_VALUE:
        *count = 1;
        return 0;
    case DT_C10D_ANSWER_VALUES:
        *count = d->asked;
        return 0;
    case DT_C10D_ANSWER_POP:
        *count = d->number > 0;
        return d->number < 0 ? -1 : 0;
    case DT_C10D_ANSWER_KEYS:
        *count = (uint64_t)d->number;
        return d->number < 0 ? -1 : 0;
    case DT_C10D_NO_ANSWER:
    case DT_C10D_ANSWER_U32:
    case DT_C10D_ANSWER_I64:
        break;
    }
    return 0;
}

static enum dt_decoded begin(struct dt_c10d_answer_decoder *d, const uint8_t *bytes,
                             struct dt_err *err)
{
    d->head = forms[dt_c10d_answer_of(d->op)].number;
    d->number = read_number(bytes, d->head);
    if (count_items(d, &d->count) < 0) {
        dt_err_set(err, DT_E_PROTOCOL, "%" PRId64 " is no answer to %s", d->number,
                   dt_c10d_op_name(d->op));
        return DT_BAD;
    }
    /* Each item has eight bytes at least, so a count alone can be too much. */
    if (d->count > d->limits.whole / 8 || d->count > d->limits.keys) {
        dt_err_set(err, DT_E_LIMIT, "an answer of %" PRIu64 " items is over the limit", d->count);
        return DT_BAD;
    }
    d->scan = (struct dt_c10d_scan){.left = d->count, .scanned = d->head};
    d->begun = true;
    return DT_DONE;
}

static void extract(const struct dt_c10d_answer_decoder *d, const uint8_t *bytes,
                    struct dt_c10d_reply *reply)
{
    *reply = (struct dt_c10d_reply){.op = d->op, .number = d->number, .count = d->count};
    if (d->count == 0)
        return;
    reply->items = (struct dt_bytes){bytes + d->head, d->scan.scanned - d->head};
    switch (dt_c10d_answer_of(d->op)) {
    case DT_C10D_ANSWER_VALUE:
    case DT_C10D_ANSWER_POP:
        dt_c10d_next_blob(&reply->items, &reply->value);
        reply->count = 0;
        break;
    default:
        break;
    }
}

enum dt_decoded dt_c10d_answer_decode(struct dt_c10d_answer_decoder *d, const uint8_t *bytes,
                                      size_t len, struct dt_c10d_reply *reply, size_t *used,
                                      struct dt_err *err)
{
    if (len < d->needed)
        return DT_MORE;
    if (!d->begun) {
        enum dt_decoded got = begin(d, bytes, err);
        if (got != DT_DONE)
            return got;
    }
    struct dt_c10d_rules rules = {&d->limits, forms[dt_c10d_answer_of(d->op)].fields, "an answer"};
    enum dt_decoded got = dt_c10d_scan_items(&d->scan, &rules, bytes, len, &d->needed, err);
    if (got != DT_DONE)
        return got;
    extract(d, bytes, reply);
    *used = d->scan.scanned;
    d->begun = false;
    return DT_DONE;
}
