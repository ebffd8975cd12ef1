/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* A block lies within one page: all of it can be read, or nothing. */
#define BLOCK ((size_t)4096)
#define BLOCKS 16

struct dt_memory_ahead {
    uint64_t end[BLOCKS]; /* the address behind the block that is here; 0: none */
    uint8_t bytes[BLOCKS][BLOCK];
};

static int read_process(void *arg, uint64_t address, void *out, size_t len)
{
    const pid_t *pid = arg;
    struct iovec here = {out, len};
    struct iovec there = {(void *)(uintptr_t)address, len};
    ssize_t n = process_vm_readv(*pid, &here, 1, &there, 1, 0);
    if (n < 0)
        return errno;
    return (size_t)n == len ? 0 : EFAULT;
}

struct dt_memory dt_memory_of(pid_t *pid)
{
    return (struct dt_memory){.read = read_process, .arg = pid};
}

void dt_memory_read_ahead(struct dt_memory *m)
{
    m->ahead = malloc(sizeof *m->ahead);
    dt_memory_forget(m);
}

void dt_memory_finish(struct dt_memory *m)
{
    free(m->ahead);
    m->ahead = NULL;
}

void dt_memory_forget(struct dt_memory *m)
{
    if (m->ahead)
        memset(m->ahead->end, 0, sizeof m->ahead->end);
}

/* The block that begins at START. NULL: it cannot be read as a whole. */
static const uint8_t *block_at(struct dt_memory *m, uint64_t start)
{
    struct dt_memory_ahead *a = m->ahead;
    /* Neighbours never share a place, and distant regions seldom. */
    size_t i = (start / BLOCK + (start >> 20) * 5) % BLOCKS;
    uint64_t end = start + BLOCK; /* wraps behind the last one */
    if (end == 0)
        return NULL;
    if (a->end[i] != end) {
        a->end[i] = 0;
        if (m->read(m->arg, start, a->bytes[i], BLOCK) != 0)
            return NULL;
        a->end[i] = end;
    }
    return a->bytes[i];
}

/* Answers from blocks. False: not all of these can be read. */
static bool read_ahead(struct dt_memory *m, uint64_t address, uint8_t *out, size_t len)
{
    while (len > 0) {
        size_t from = address % BLOCK;
        size_t part = len < BLOCK - from ? len : BLOCK - from;
        const uint8_t *block = block_at(m, address - from);
        if (!block)
            return false;
        memcpy(out, block + from, part);
        address += part;
        out += part;
        len -= part;
    }
    return true;
}

int dt_memory_read(struct dt_memory *m, uint64_t address, void *out, size_t len)
{
    m->error = 0;
    if (m->reads >= DT_MEMORY_READS_MAX || len > DT_MEMORY_BYTES_MAX - m->bytes)
        m->error = E2BIG;
    else if (len > 0 && !(m->ahead && len <= BLOCK && read_ahead(m, address, out, len)))
        m->error = m->read(m->arg, address, out, len);
    if (m->error)
        return -1;
    m->reads++;
    m->bytes += len;
    return 0;
}

int dt_memory_word(struct dt_memory *m, uint64_t address, uint64_t *out)
{
    return dt_memory_read(m, address, out, sizeof *out);
}
