/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side of the progress page. What the environment names is looked at before it is
 * written to: the number may be left over from another program, and then be somebody's file. The
 * descriptor stays as it was found, since a script may open the page a second time. */
#include <dtrun/beat.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/str.h"
#include "rendezvous/protocol/beat.h"

struct dt_beat_writer {
    struct dt_beat_page *page;
    bool is_read;
};

static struct dt_beat_page *map_shared(void)
{
    const char *number = getenv(DT_BEAT_ENV);
    int64_t fd;
    struct stat st;
    if (!number || dt_str_to_int(number, 0, INT32_MAX, &fd, NULL) < 0)
        return NULL;
    if (fstat((int)fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != DT_BEAT_SIZE)
        return NULL;
    void *at = mmap(NULL, DT_BEAT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (dt_beat_is_page(at))
        return at;
    munmap(at, DT_BEAT_SIZE);
    return NULL;
}

static struct dt_beat_page *map_private(void)
{
    void *at = mmap(NULL, DT_BEAT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    dt_beat_init(at);
    return at;
}

struct dt_beat_writer *dt_beat_open(struct dt_err *err)
{
    struct dt_beat_writer *b = calloc(1, sizeof *b);
    if (b) {
        b->page = map_shared();
        b->is_read = b->page != NULL;
        if (!b->page)
            b->page = map_private();
    }
    if (b && b->page)
        return b;
    free(b);
    dt_err_set(err, DT_E_MEMORY, "no memory for a progress page");
    return NULL;
}

void dt_beat_close(struct dt_beat_writer *b)
{
    if (!b)
        return;
    munmap(b->page, DT_BEAT_SIZE);
    free(b);
}

bool dt_beat_is_read(const struct dt_beat_writer *b)
{
    return b->is_read;
}

/* Behind all else, so that who sees the number sees what it counts. */
static void count_update(struct dt_beat_page *p)
{
    uint64_t n = __atomic_load_n(&p->updates, __ATOMIC_RELAXED);
    __atomic_store_n(&p->updates, n + 1, __ATOMIC_RELEASE);
}

static void store_number(double *at, double v)
{
    __atomic_store(at, &v, __ATOMIC_RELAXED);
}

void dt_beat_update(struct dt_beat_writer *b, const struct dt_beat_values *v)
{
    struct dt_beat_page *p = b->page;
    __atomic_store_n(&p->step, v->step, __ATOMIC_RELAXED);
    __atomic_store_n(&p->saved, v->saved, __ATOMIC_RELAXED);
    __atomic_store_n(&p->steps, v->steps, __ATOMIC_RELAXED);
    __atomic_store_n(&p->updated_ns, dt_clock_monotonic_ns(), __ATOMIC_RELAXED);
    store_number(&p->loss, v->loss);
    store_number(&p->tokens_per_s, v->tokens_per_s);
    store_number(&p->utilisation, v->utilisation);
    count_update(p);
}

void dt_beat_section(struct dt_beat_writer *b, const char *name)
{
    struct dt_beat_page *p = b->page;
    size_t n = strnlen(name, sizeof p->section - 1);
    memcpy(p->section, name, n);
    memset(p->section + n, 0, sizeof p->section - n);
    __atomic_store_n(&p->section_ns, dt_clock_monotonic_ns(), __ATOMIC_RELAXED);
    count_update(p);
}

bool dt_beat_round_over(const struct dt_beat_writer *b)
{
    return __atomic_load_n(&b->page->round_over, __ATOMIC_ACQUIRE) != 0;
}

/* What is not known to be over may be so all the same, once the lease is. */
bool dt_beat_may_commit(const struct dt_beat_writer *b)
{
    int64_t lease = __atomic_load_n(&b->page->lease_ns, __ATOMIC_ACQUIRE);
    return !dt_beat_round_over(b) && (lease == 0 || dt_clock_monotonic_ns() < lease);
}
