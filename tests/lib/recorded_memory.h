/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a CPython as a file: what a look has read of it, piece by piece, each behind its
 * address (u64) and its length (u32). The first piece is the head of the image. A piece at address
 * 0 is no memory, but what the image's file is called. */
#ifndef DT_TESTS_RECORDED_MEMORY_H
#define DT_TESTS_RECORDED_MEMORY_H

#include "agent/look/look.h"
#include "base/buf.h"

#include <errno.h>
#include <stdio.h>

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

/* Where the image begins, and what its file is called: "python3" if RECORD does not tell. */
static inline struct dt_look_image recorded_image(struct dt_bytes record)
{
    struct dt_reader head = dt_reader_over(record.at, record.len);
    struct dt_reader r = head;
    struct dt_look_image image = {.base = dt_read_u64(&head), .name = "python3"};
    uint64_t address;
    uint32_t len;
    for (const uint8_t *at; (at = recorded_next(&r, &address, &len)) != NULL;)
        if (address == 0)
            snprintf(image.name, sizeof image.name, "%.*s", (int)len, (const char *)at);
    return image;
}

/* Appends to RECORD what a look at the CPython in process PID reads. -1 and *err: there is none, or
 * it cannot be read. */
static inline int record_look(pid_t pid, struct dt_buf *record, struct dt_err *err)
{
    struct dt_look_image images[DT_LOOK_IMAGES_MAX];
    struct dt_python_stacks stacks = {0};
    struct recorder recorder = {.live = dt_memory_of(&pid)};
    struct dt_memory m = {.read = recorder_read, .arg = &recorder};
    uint32_t version = 0;
    int count = dt_look_images(pid, images), rc = 0;
    for (int i = 0; i < count && version == 0 && rc == 0; i++) {
        dt_buf_clear(&recorder.record);
        rc = dt_look_read_python(&m, &images[i], 1, &version, &stacks, err);
        dt_python_stacks_finish(&stacks);
        if (version == 0)
            continue;
        dt_buf_put_u64(&recorder.record, 0);
        dt_buf_put_u32(&recorder.record, (uint32_t)strlen(images[i].name));
        dt_buf_put(&recorder.record, images[i].name, strlen(images[i].name));
    }
    if (rc == 0 && version == 0)
        rc = dt_err_set(err, DT_E_RUNTIME, "process %d has no CPython that can be read", (int)pid);
    dt_buf_put(record, recorder.record.at, recorder.record.len);
    dt_buf_finish(&recorder.record);
    return rc;
}

#endif
