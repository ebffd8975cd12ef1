/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side of the progress page. */
#include <dtrun/page.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "rendezvous/protocol/page.h"
#include "worker_runtime/telemetry/page_map.h"

struct dt_page_writer {
    struct dt_page *page;
    bool is_read;
};

static struct dt_page *map_private(void)
{
    void *at = mmap(NULL, DT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    dt_page_init(at);
    return at;
}

struct dt_page_writer *dt_page_open(struct dt_err *err)
{
    struct dt_page_writer *w = calloc(1, sizeof *w);
    if (w) {
        w->page = dt_page_map();
        w->is_read = w->page != NULL;
        if (!w->page)
            w->page = map_private();
    }
    if (w && w->page)
        return w;
    free(w);
    dt_err_set(err, DT_E_MEMORY, "no memory for a progress page");
    return NULL;
}

void dt_page_close(struct dt_page_writer *w)
{
    if (!w)
        return;
    munmap(w->page, DT_PAGE_SIZE);
    free(w);
}

struct dt_page *dt_page_of(const struct dt_page_writer *w)
{
    return w->page;
}

bool dt_page_is_read(const struct dt_page_writer *w)
{
    return w->is_read;
}

/* Behind all else, so that who sees the number sees what it counts. */
static void count_update(struct dt_page *p)
{
    uint64_t n = __atomic_load_n(&p->updates, __ATOMIC_RELAXED);
    __atomic_store_n(&p->updates, n + 1, __ATOMIC_RELEASE);
}

static void store_number(double *at, double v)
{
    __atomic_store(at, &v, __ATOMIC_RELAXED);
}

void dt_page_promise_loss(struct dt_page_writer *w)
{
    __atomic_store_n(&w->page->loss_told, 1, __ATOMIC_RELAXED);
}

void dt_page_mfu(struct dt_page_writer *w, double mfu)
{
    store_number(&w->page->mfu, mfu);
}

void dt_page_upload_waits(struct dt_page_writer *w, int64_t since_ns)
{
    __atomic_store_n(&w->page->upload_since_ns, since_ns, __ATOMIC_RELAXED);
}

void dt_page_update(struct dt_page_writer *w, const struct dt_page_values *v)
{
    struct dt_page *p = w->page;
    __atomic_store_n(&p->step, v->step, __ATOMIC_RELAXED);
    __atomic_store_n(&p->saved, v->saved, __ATOMIC_RELAXED);
    __atomic_store_n(&p->steps, v->steps, __ATOMIC_RELAXED);
    __atomic_store_n(&p->updated_ns, dt_clock_monotonic_ns(), __ATOMIC_RELAXED);
    store_number(&p->loss, v->loss);
    if (!isnan(v->loss))
        dt_page_promise_loss(w);
    store_number(&p->tokens_per_s, v->tokens_per_s);
    store_number(&p->utilisation, v->utilisation);
    count_update(p);
}

static void add(int64_t *at, int64_t more)
{
    __atomic_store_n(at, __atomic_load_n(at, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

void dt_page_spend(struct dt_page_writer *w, int64_t own_ns, int64_t data_ns)
{
    add(&w->page->own_ns, own_ns);
    add(&w->page->data_ns, data_ns);
}

/* The first byte last: it says that there is one. */
void dt_page_folder(struct dt_page_writer *w, const char *path)
{
    struct dt_page *p = w->page;
    size_t len = strlen(path);
    __atomic_store_n(p->folder, '\0', __ATOMIC_RELEASE);
    if (len == 0 || len >= sizeof p->folder)
        return;
    memcpy(p->folder + 1, path + 1, len);
    __atomic_store_n(p->folder, path[0], __ATOMIC_RELEASE);
}

void dt_page_communicate(struct dt_page_writer *w, int64_t ns)
{
    add(&w->page->communication_ns, ns);
}

void dt_page_section(struct dt_page_writer *w, const char *name)
{
    struct dt_page *p = w->page;
    size_t n = strnlen(name, sizeof p->section - 1);
    memcpy(p->section, name, n);
    memset(p->section + n, 0, sizeof p->section - n);
    __atomic_store_n(&p->section_ns, dt_clock_monotonic_ns(), __ATOMIC_RELAXED);
    count_update(p);
}

bool dt_page_round_over(const struct dt_page_writer *w)
{
    return __atomic_load_n(&w->page->round_over, __ATOMIC_ACQUIRE) != 0;
}

uint32_t dt_page_saves_wanted(const struct dt_page_writer *w)
{
    return __atomic_load_n(&w->page->saves_wanted, __ATOMIC_ACQUIRE);
}

/* What is not known to be over may be so all the same, once the lease is. */
bool dt_page_may_commit(const struct dt_page_writer *w)
{
    int64_t lease = __atomic_load_n(&w->page->lease_ns, __ATOMIC_ACQUIRE);
    return !dt_page_round_over(w) && (lease == 0 || dt_clock_monotonic_ns() < lease);
}
