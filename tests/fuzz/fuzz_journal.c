/* SPDX-License-Identifier: Apache-2.0 */
/* The records of whatever a disk may give back. Each that is found must be, byte for byte, what
 * writing its key and value gives; the sum makes finding one by chance unlikely, so the input's
 * bytes are also written as records themselves, and read. */
#include "rendezvous/journal/format.h"
#include "rendezvous/journal/journal.h"
#include "tests/fuzz/fuzz.h"

static void check_written_again(struct dt_bytes from, const struct dt_journal_record *r)
{
    struct dt_buf b = {0};
    FUZZ_CHECK(r->key.len > 0 && r->key.len <= DT_JOURNAL_KEY_MAX);
    FUZZ_CHECK(r->value.len <= DT_JOURNAL_VALUE_MAX && r->size <= from.len);
    dt_journal_write_head(&b, r->key, r->value);
    dt_buf_put(&b, r->value.at, r->value.len);
    FUZZ_CHECK(dt_bytes_equal((struct dt_bytes){b.at, b.len}, (struct dt_bytes){from.at, r->size}));
    dt_buf_finish(&b);
}

static void read_all(struct dt_bytes rest)
{
    struct dt_journal_record r;
    while (dt_journal_read_record(rest, &r)) {
        check_written_again(rest, &r);
        rest.at += r.size;
        rest.len -= r.size;
    }
    dt_journal_holds_record(rest);
}

/* A record of the input's own bytes: read whole, refused when cut or when a byte of it differs. */
static void write_and_read(struct dt_bytes key, struct dt_bytes value, size_t spoil)
{
    struct dt_buf b = {0};
    struct dt_journal_record r;
    dt_buf_put_u8(&b, 0);
    dt_journal_write_head(&b, key, value);
    dt_buf_put(&b, value.at, value.len);
    struct dt_bytes record = {b.at + 1, b.len - 1};
    FUZZ_CHECK(dt_journal_read_record(record, &r) && r.size == record.len);
    FUZZ_CHECK(dt_bytes_equal(r.key, key) && dt_bytes_equal(r.value, value));
    FUZZ_CHECK(dt_journal_holds_record((struct dt_bytes){b.at, b.len}));
    record.len--;
    FUZZ_CHECK(!dt_journal_read_record(record, &r));
    record.len++;
    b.at[1 + spoil % record.len] ^= 1;
    FUZZ_CHECK(!dt_journal_read_record(record, &r));
    dt_buf_finish(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_bytes file = {data, size};
    uint32_t version;
    if (dt_journal_read_header(file, &version) == DT_JOURNAL_OURS)
        read_all((struct dt_bytes){data + DT_JOURNAL_HEADER, size - DT_JOURNAL_HEADER});
    if (size >= 2) {
        size_t key_len = data[0] % (size - 1) + 1;
        write_and_read((struct dt_bytes){data + 1, key_len},
                       (struct dt_bytes){data + size / 2, size - size / 2}, data[size - 1]);
    }
    return 0;
}
