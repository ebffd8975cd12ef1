/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/c10d_scan.h"

#include <inttypes.h>

static enum dt_decoded want(uint64_t *needed, uint64_t total)
{
    *needed = total;
    return DT_MORE;
}

/* Steps over one key or value. Its length meets every cap before anybody waits for its bytes. */
static enum dt_decoded scan_blob(struct dt_c10d_scan *s, const struct dt_c10d_rules *rules,
                                 struct dt_reader *r, uint64_t *needed, struct dt_err *err)
{
    bool is_key = rules->fields[s->field] == 'k';
    uint64_t n = dt_read_u64(r);
    if (r->bad)
        return want(needed, s->scanned + 8);
    uint64_t cap = is_key ? rules->limits->key : rules->limits->value;
    if (n > cap) {
        dt_err_set(err, DT_E_LIMIT, "a %s of %" PRIu64 " bytes is over the limit of %" PRIu64,
                   is_key ? "key" : "value", n, cap);
        return DT_BAD;
    }
    uint64_t end = s->scanned + 8 + n; /* no overflow: n is capped, what was scanned is in memory */
    if (end > rules->limits->whole) {
        dt_err_set(err, DT_E_LIMIT, "%s of more than %" PRIu64 " bytes is over the limit",
                   rules->message, rules->limits->whole);
        return DT_BAD;
    }
    if (!dt_read_bytes(r, n))
        return want(needed, end);
    s->scanned = (size_t)end;
    return DT_DONE;
}

static enum dt_decoded scan_item(struct dt_c10d_scan *s, const struct dt_c10d_rules *rules,
                                 struct dt_reader *r, uint64_t *needed, struct dt_err *err)
{
    for (const char *fields = rules->fields; fields[s->field]; s->field++) {
        size_t width = fields[s->field] == 'i' ? 8 : fields[s->field] == 'u' ? 4 : 0;
        if (width == 0) {
            enum dt_decoded got = scan_blob(s, rules, r, needed, err);
            if (got != DT_DONE)
                return got;
        } else {
            if (!dt_read_bytes(r, width))
                return want(needed, s->scanned + width);
            s->scanned += width;
        }
    }
    s->field = 0;
    return DT_DONE;
}

enum dt_decoded dt_c10d_scan_items(struct dt_c10d_scan *s, const struct dt_c10d_rules *rules,
                                   const uint8_t *bytes, size_t len, uint64_t *needed,
                                   struct dt_err *err)
{
    if (s->left == 0)
        return DT_DONE; /* BYTES may be NULL */
    struct dt_reader r = dt_reader_over(bytes + s->scanned, len - s->scanned);
    for (; s->left; s->left--) {
        enum dt_decoded got = scan_item(s, rules, &r, needed, err);
        if (got != DT_DONE)
            return got;
    }
    return DT_DONE;
}

struct dt_bytes dt_c10d_read_blob(struct dt_reader *r)
{
    uint64_t n = dt_read_u64(r);
    const uint8_t *at = dt_read_bytes(r, n);
    return (struct dt_bytes){at, at ? (size_t)n : 0};
}
