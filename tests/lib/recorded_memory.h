/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a process as a file: what a look has read of it, piece by piece, each behind its
 * address (u64) and its length (u32). The first piece is the head of the image. */
#ifndef DT_TESTS_RECORDED_MEMORY_H
#define DT_TESTS_RECORDED_MEMORY_H

#include "agent/look/memory.h"
#include "base/buf.h"

#include <errno.h>

/* A piece of R, a record; NULL: there is none any more. */
static inline const uint8_t *recorded_next(struct dt_reader *r, uint64_t *address, uint32_t *len)
{
    *address = dt_read_u64(r);
    *len = dt_read_u32(r);
    return dt_read_bytes(r, *len);
}

/* Reads from ARG, a struct dt_bytes. */
static inline int recorded_read(void *arg, uint64_t wanted, void *out, size_t size)
{
    const struct dt_bytes *record = arg;
    struct dt_reader r = dt_reader_over(record->at, record->len);
    uint64_t address;
    uint32_t len;
    for (const uint8_t *at; (at = recorded_next(&r, &address, &len)) != NULL;) {
        if (wanted < address || wanted - address > len || size > len - (wanted - address))
            continue;
        memcpy(out, at + (wanted - address), size);
        return 0;
    }
    return EFAULT;
}

struct recorder {
    struct dt_memory live;
    struct dt_buf record;
};

/* Reads from the live memory of ARG, a struct recorder, and keeps what is new. */
static inline int recorder_read(void *arg, uint64_t address, void *out, size_t size)
{
    struct recorder *r = arg;
    struct dt_bytes record = {r->record.at, r->record.len};
    int error = r->live.read(r->live.arg, address, out, size);
    char there[4096];
    if (error || (size <= sizeof there && recorded_read(&record, address, there, size) == 0))
        return error;
    dt_buf_put_u64(&r->record, address);
    dt_buf_put_u32(&r->record, (uint32_t)size);
    dt_buf_put(&r->record, out, size);
    return 0;
}

#endif
