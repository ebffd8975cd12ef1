/* SPDX-License-Identifier: Apache-2.0 */
/* The meeting of a test's ranks: a table in memory that a parent maps before it forks them. Without
 * locks, so that a rank may be killed at any point: a row is claimed by a counter, filled, and then
 * declared ready; who waits sleeps on the count of ready ones. Keys are set once, rows are never
 * reused. */
#ifndef DT_TESTS_RUNTIME_MEETING_H
#define DT_TESTS_RUNTIME_MEETING_H

#include "base/clock.h"
#include "worker_runtime/coll/backend.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MEETING_ROWS 16384
#define MEETING_KEY 160
#define MEETING_VALUE 2048

struct meeting_row {
    _Atomic uint32_t ready;
    uint32_t len;
    char key[MEETING_KEY];
    char value[MEETING_VALUE];
};

struct meeting {
    struct dt_meeting table; /* &m->table is what dt_coll_open() takes */
    _Atomic uint32_t claimed, changes;
    struct meeting_row rows[MEETING_ROWS];
};

static inline int meeting_set(struct dt_meeting *t, const char *key, const void *value, size_t len,
                              struct dt_err *err)
{
    struct meeting *m = (struct meeting *)t;
    uint32_t at = atomic_fetch_add(&m->claimed, 1);
    if (at >= MEETING_ROWS || strlen(key) >= MEETING_KEY || len > MEETING_VALUE)
        return dt_err_set(err, DT_E_RUNTIME, "the meeting of the test has no room for %s", key);
    struct meeting_row *row = &m->rows[at];
    snprintf(row->key, sizeof row->key, "%s", key);
    memcpy(row->value, value, len);
    row->len = (uint32_t)len;
    atomic_store(&row->ready, 1);
    atomic_fetch_add(&m->changes, 1);
    syscall(SYS_futex, &m->changes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    return 0;
}

static inline const struct meeting_row *meeting_find(struct meeting *m, const char *key)
{
    uint32_t n = atomic_load(&m->claimed);
    for (uint32_t i = 0; i < n && i < MEETING_ROWS; i++)
        if (atomic_load(&m->rows[i].ready) && strcmp(m->rows[i].key, key) == 0)
            return &m->rows[i];
    return NULL;
}

static inline int meeting_get(struct dt_meeting *t, const char *key, void *value, size_t len,
                              dt_ms timeout, struct dt_err *err)
{
    struct meeting *m = (struct meeting *)t;
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), timeout);
    for (;;) {
        uint32_t seen = atomic_load(&m->changes);
        const struct meeting_row *row = meeting_find(m, key);
        if (row && row->len != len)
            return dt_err_set(err, DT_E_RUNTIME, "%s has %u bytes, not %zu", key, row->len, len);
        if (row) {
            memcpy(value, row->value, len);
            return 0;
        }
        dt_ms left = deadline - dt_clock_monotonic();
        if (left <= 0)
            return dt_err_set(err, DT_E_TIMEOUT, "nobody set %s in %lld ms", key,
                              (long long)timeout);
        struct timespec ts = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
        syscall(SYS_futex, &m->changes, FUTEX_WAIT, seen, &ts, NULL, 0);
    }
}

static inline struct meeting *meeting_create(void)
{
    struct meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED)
        abort();
    m->table = (struct dt_meeting){.set = meeting_set, .get = meeting_get};
    return m;
}

static inline void meeting_destroy(struct meeting *m)
{
    if (m)
        munmap(m, sizeof *m);
}

#endif
