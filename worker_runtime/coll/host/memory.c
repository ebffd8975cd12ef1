/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/coll/host/memory.h"
#include "worker_runtime/coll/host/segment.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int row_claim(struct dt_memories *m, struct dt_err *err)
{
    int row = 0;
    while (row < m->n && m->rows[row].at)
        row++;
    if (row == m->n) {
        struct dt_memory *rows = realloc(m->rows, (size_t)(m->n + 1) * sizeof *rows);
        if (!rows)
            return dt_err_set(err, DT_E_MEMORY, "no memory for one more row");
        m->rows = rows;
        m->rows[m->n++] = (struct dt_memory){0};
    }
    m->rows[row].at = calloc((size_t)m->ranks, sizeof(char *));
    if (!m->rows[row].at)
        return dt_err_set(err, DT_E_MEMORY, "no memory for one more row");
    return row;
}

/* Where the system gives huge pages to who asks, it may put them here as it goes; fewer misses. */
static void *map(int fd, size_t bytes, bool writable, struct dt_err *err)
{
    void *at = dt_segment_map(fd, bytes, writable, err);
    if (at)
        madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

/* What is shared is mapped once and is at the same place for all. */
static void spread(struct dt_memories *m, int row)
{
    struct dt_memory *r = &m->rows[row];
    for (int i = 1; r->shared && i < m->ranks; i++)
        r->at[i] = r->at[0];
}

int dt_memories_make(struct dt_memories *m, size_t bytes, bool shared, int *fd, struct dt_err *err)
{
    *fd = -1;
    int row = row_claim(m, err);
    if (row < 0)
        return -1;
    m->rows[row].bytes = bytes ? bytes : 1;
    m->rows[row].shared = shared;
    if (shared && m->rank != 0)
        return row;
    *fd = dt_segment_make("dtrun-memory", m->rows[row].bytes, true, err);
    if (*fd >= 0)
        m->rows[row].at[m->rank] = map(*fd, m->rows[row].bytes, true, err);
    if (m->rows[row].at[m->rank]) {
        spread(m, row);
        return row;
    }
    if (*fd >= 0)
        close(*fd);
    *fd = -1; /* the number may soon be another thread's */
    dt_memories_drop(m, row);
    return -1;
}

int dt_memories_map(struct dt_memories *m, int row, int whose, int pid, int fd, struct dt_err *err)
{
    struct dt_memory *r = &m->rows[row];
    int own = dt_segment_reach(pid, fd, r->shared, err);
    if (own < 0)
        return -1;
    char *at = map(own, r->bytes, r->shared, err);
    close(own);
    if (!at)
        return -1;
    r->at[whose] = at;
    spread(m, row);
    return 0;
}

void dt_memories_drop(struct dt_memories *m, int row)
{
    struct dt_memory *r = &m->rows[row];
    for (int i = 0; r->at && i < m->ranks; i++)
        if (!r->shared || i == 0)
            dt_segment_unmap(r->at[i], r->bytes);
    free(r->at);
    r->at = NULL;
}

void dt_memories_finish(struct dt_memories *m)
{
    for (int row = 0; row < m->n; row++)
        dt_memories_drop(m, row);
    free(m->rows);
    m->rows = NULL;
    m->n = 0;
}

struct dt_place dt_memories_find(const struct dt_memories *m, const void *at, size_t bytes)
{
    uintptr_t a = (uintptr_t)at;
    for (int row = 0; row < m->n; row++) {
        const struct dt_memory *r = &m->rows[row];
        if (!r->at)
            continue;
        uintptr_t from = (uintptr_t)r->at[m->rank];
        if (a >= from && bytes <= r->bytes && a - from <= r->bytes - bytes)
            return (struct dt_place){.memory = row, .shared = r->shared, .offset = a - from};
    }
    return (struct dt_place){.memory = -1};
}

char *dt_memories_at(const struct dt_memories *m, const struct dt_place *p, int whose, size_t bytes)
{
    if (p->memory < 0 || p->memory >= m->n || !m->rows[p->memory].at)
        return NULL;
    const struct dt_memory *r = &m->rows[p->memory];
    if (bytes > r->bytes || p->offset > r->bytes - bytes)
        return NULL;
    return r->at[whose] + p->offset;
}
