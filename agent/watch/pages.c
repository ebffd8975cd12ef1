/* SPDX-License-Identifier: Apache-2.0 */
/* Each page is a file in memory of its own, so that a worker can reach no other's. Its size is
 * sealed: one that a worker could cut would be a SIGBUS for us. */
#include "agent/watch/pages.h"

#include "agent/process/self.h"
#include "base/fs.h"
#include "base/log.h"
#include "rendezvous/protocol/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of a worker each second, so that a beat can say the sum of a node. */
#define TOKENS_MOST (DT_FIELD_WHOLE_MAX / DT_WORKERS_MOST)

struct page {
    int fd; /* 0: closed, or never there */
    struct dt_page *at;
};

struct dt_pages {
    int count;
    struct page pages[];
};

static int make_page(struct page *p)
{
    int fd = dt_fs_make_in_memory("dtrun-progress");
    if (fd < 0)
        return -1;
    p->fd = fd; /* never 0: standard descriptors are there, dt_fs_reserve_standard_fds() */
    if (ftruncate(fd, DT_PAGE_SIZE) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -1;
    void *at = mmap(NULL, DT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return -1;
    /* None of the forks that follow needs it, and with many workers copying all is felt. */
    madvise(at, DT_PAGE_SIZE, MADV_DONTFORK);
    p->at = at;
    dt_page_init(p->at);
    return 0;
}

struct dt_pages *dt_pages_create(int count)
{
    if (dt_self_is_short_of_files(count)) {
        dt_info("workers get no progress pages, so nothing is known of their steps: this process "
                "may have too few files open; raise the hard limit of ulimit -n");
        return NULL;
    }
    struct dt_pages *p = calloc(1, sizeof *p + (size_t)count * sizeof p->pages[0]);
    if (p)
        p->count = count;
    bool made = p != NULL;
    for (int i = 0; made && i < count; i++)
        made = make_page(&p->pages[i]) == 0;
    if (made)
        return p;
    dt_warn("workers get no progress pages, so nothing is known of their steps: %s",
            strerror(p ? errno : ENOMEM));
    dt_pages_destroy(p);
    return NULL;
}

void dt_pages_close_fds(struct dt_pages *p)
{
    for (int i = 0; p && i < p->count; i++) {
        if (p->pages[i].fd > 0)
            close(p->pages[i].fd);
        p->pages[i].fd = 0;
    }
}

void dt_pages_destroy(struct dt_pages *p)
{
    dt_pages_close_fds(p);
    for (int i = 0; p && i < p->count; i++)
        if (p->pages[i].at)
            munmap(p->pages[i].at, DT_PAGE_SIZE);
    free(p);
}

int dt_pages_fd(const struct dt_pages *p, int local_rank)
{
    return p ? p->pages[local_rank].fd : 0;
}

void dt_pages_end_round(struct dt_pages *p)
{
    for (int i = 0; p && i < p->count; i++)
        dt_page_end_round(p->pages[i].at);
}

void dt_pages_want_save(struct dt_pages *p)
{
    for (int i = 0; p && i < p->count; i++)
        dt_page_want_save(p->pages[i].at);
}

static int64_t ns_of(dt_ms until)
{
    int64_t past = 1;
    return until == DT_FOREVER ? 0 : until > 0 ? until * (1000000000 / DT_SECOND) : past;
}

void dt_pages_set_lease(struct dt_pages *p, dt_ms until)
{
    for (int i = 0; p && i < p->count; i++)
        dt_page_set_lease(p->pages[i].at, ns_of(until));
}

void dt_pages_let_stay(struct dt_pages *p)
{
    for (int i = 0; p && i < p->count; i++)
        dt_page_let_stay(p->pages[i].at);
}

bool dt_pages_can_stay(const struct dt_pages *p, int local_rank)
{
    return p && dt_page_can_stay(p->pages[local_rank].at);
}

bool dt_pages_is_waiting(const struct dt_pages *p, int local_rank)
{
    return p && dt_page_is_waiting(p->pages[local_rank].at);
}

void dt_pages_give_world(struct dt_pages *p, int local_rank, const struct dt_page_world *world,
                         dt_ms lease)
{
    dt_page_give_world(p->pages[local_rank].at, world, ns_of(lease));
}

/* The old one is kept where there is no memory for a new one: so each place has one to read. */
void dt_pages_renew(struct dt_pages *p, int local_rank, dt_ms lease)
{
    struct page fresh = {0};
    if (!p)
        return;
    if (make_page(&fresh) < 0) {
        dt_warn("worker %d gets no progress page, so nothing is known of its steps: %s", local_rank,
                strerror(errno));
        if (fresh.fd > 0)
            close(fresh.fd);
        dt_page_init(p->pages[local_rank].at);
        return;
    }
    munmap(p->pages[local_rank].at, DT_PAGE_SIZE);
    p->pages[local_rank] = fresh;
    dt_page_let_stay(fresh.at);
    dt_page_set_lease(fresh.at, ns_of(lease));
}

bool dt_pages_read(const struct dt_pages *p, int local_rank, struct dt_page_told *out)
{
    if (!p) {
        *out = (struct dt_page_told){.step = -1, .saved = -1, .steps = -1};
        return false;
    }
    dt_page_read(p->pages[local_rank].at, out);
    return out->seen;
}

void dt_pages_read_comms(const struct dt_pages *p, int local_rank, struct dt_comms_told *out)
{
    if (p)
        dt_page_read_comms(p->pages[local_rank].at, out);
    else
        memset(out, 0, sizeof *out);
}

static int64_t step_of(const struct dt_pages *p, int local_rank)
{
    struct dt_page_told t;
    return dt_pages_read(p, local_rank, &t) ? t.step : -1;
}

int dt_pages_furthest(const struct dt_pages *p)
{
    int furthest = -1;
    int64_t step = -1;
    for (int i = 0; p && i < p->count; i++) {
        int64_t of_this = step_of(p, i);
        if (of_this > step) {
            furthest = i;
            step = of_this;
        }
    }
    return furthest;
}

int64_t dt_pages_step(const struct dt_pages *p)
{
    int furthest = dt_pages_furthest(p);
    return furthest < 0 ? -1 : step_of(p, furthest);
}

int64_t dt_pages_tokens_per_s(const struct dt_pages *p, int local_rank)
{
    struct dt_page_told t;
    bool told = dt_pages_read(p, local_rank, &t) && t.tokens_per_s > 0; /* NaN is not */
    return told && t.tokens_per_s < (double)TOKENS_MOST ? (int64_t)t.tokens_per_s : 0;
}

static size_t put_steps(const struct dt_page_told *t, char *out, size_t size)
{
    int64_t since = t->step - t->saved;
    int n = t->step < 0 ? snprintf(out, size, "before its first step")
                        : snprintf(out, size, "last step %" PRId64, t->step);
    if (t->saved >= 0 && since == 0)
        n += snprintf(out + n, size - (size_t)n, ", which the last checkpoint holds");
    else if (t->saved >= 0)
        n += snprintf(out + n, size - (size_t)n, ", %" PRId64 " step%s after the last checkpoint",
                      since, since == 1 ? "" : "s");
    return (size_t)n;
}

/* What is told of a worker, part after part. */
static size_t begin_part(char *out, size_t n)
{
    return n > 0 ? n + (size_t)snprintf(out + n, DT_PAGES_WORDS - n, ", ") : 0;
}

const char *dt_pages_describe(const struct dt_pages *p, int local_rank, char out[DT_PAGES_WORDS])
{
    struct dt_page_told t;
    struct dt_comms_told comms;
    char call[DT_COMM_WORDS];
    size_t n = 0;
    *out = '\0';
    if (dt_pages_read(p, local_rank, &t)) {
        n = put_steps(&t, out, DT_PAGES_WORDS);
        if (*t.section)
            n += (size_t)snprintf(out + n, DT_PAGES_WORDS - n, ", in section %s", t.section);
    }
    dt_pages_read_comms(p, local_rank, &comms);
    const struct dt_comm_told *latest = dt_comms_latest(&comms);
    if (latest) {
        n = begin_part(out, n);
        snprintf(out + n, DT_PAGES_WORDS - n, "last NCCL call %s", dt_comm_describe(latest, call));
    }
    return out;
}
