/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/journal/format.h"

#include "base/crc32c.h"
#include "rendezvous/journal/journal.h"

/* How many bytes the search for a record goes through before it is given up: bytes made so that
 * each of them looks like the beginning of a long record would keep it busy for hours. */
#define SEARCH_MOST ((uint64_t)256 << 20)

static const char magic[8] = {'D', 'T', 'R', 'N', 'J', 'R', 'N', 'L'};

void dt_journal_write_header(struct dt_buf *out)
{
    dt_buf_put(out, magic, sizeof magic);
    dt_buf_put_u32(out, DT_JOURNAL_VERSION);
}

enum dt_journal_header dt_journal_read_header(struct dt_bytes file, uint32_t *version)
{
    struct dt_reader r = dt_reader_over(file.at, file.len);
    size_t there = file.len < sizeof magic ? file.len : sizeof magic;
    if (there && memcmp(file.at, magic, there) != 0)
        return DT_JOURNAL_FOREIGN;
    dt_read_bytes(&r, sizeof magic);
    *version = dt_read_u32(&r);
    if (r.bad)
        return DT_JOURNAL_EMPTY;
    if (*version == 0)
        return DT_JOURNAL_FOREIGN;
    return *version > DT_JOURNAL_VERSION ? DT_JOURNAL_NEWER : DT_JOURNAL_OURS;
}

/* The lengths as they stand in the file are part of what is summed. */
static uint32_t sum(const void *lengths, struct dt_bytes key, struct dt_bytes value)
{
    uint32_t crc = dt_crc32c(0, (struct dt_bytes){lengths, 2 * sizeof(uint32_t)});
    return dt_crc32c(dt_crc32c(crc, key), value);
}

void dt_journal_write_head(struct dt_buf *out, struct dt_bytes key, struct dt_bytes value)
{
    size_t before = out->len;
    dt_buf_put_u32(out, (uint32_t)key.len);
    dt_buf_put_u32(out, (uint32_t)value.len);
    if (out->bad)
        return;
    dt_buf_put_u32(out, sum(out->at + before, key, value));
    dt_buf_put(out, key.at, key.len);
}

/* What the lengths say, when they make sense. *CRC: what the record says it is. */
static bool read_head(struct dt_bytes bytes, struct dt_journal_record *out, uint32_t *crc)
{
    struct dt_reader r = dt_reader_over(bytes.at, bytes.len);
    uint32_t key_len = dt_read_u32(&r), value_len = dt_read_u32(&r);
    *crc = dt_read_u32(&r);
    if (key_len == 0 || key_len > DT_JOURNAL_KEY_MAX || value_len > DT_JOURNAL_VALUE_MAX)
        return false;
    out->key = (struct dt_bytes){dt_read_bytes(&r, key_len), key_len};
    out->value = (struct dt_bytes){dt_read_bytes(&r, value_len), value_len};
    out->size = (size_t)DT_JOURNAL_RECORD_HEAD + key_len + value_len;
    return !r.bad;
}

bool dt_journal_read_record(struct dt_bytes bytes, struct dt_journal_record *out)
{
    uint32_t crc;
    return read_head(bytes, out, &crc) && sum(bytes.at, out->key, out->value) == crc;
}

bool dt_journal_holds_record(struct dt_bytes bytes)
{
    uint64_t work = 0;
    for (size_t i = 1; i + DT_JOURNAL_RECORD_HEAD < bytes.len; i++) {
        struct dt_bytes from = {bytes.at + i, bytes.len - i};
        struct dt_journal_record record;
        uint32_t crc;
        if (!read_head(from, &record, &crc))
            continue;
        work += record.size;
        if (work > SEARCH_MOST || sum(from.at, record.key, record.value) == crc)
            return true;
    }
    return false;
}
