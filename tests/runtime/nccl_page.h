/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's side of the page that NCCL's profiler plugin writes to, and the plugin under a fake
 * NCCL. */
#ifndef TESTS_RUNTIME_NCCL_PAGE_H
#define TESTS_RUNTIME_NCCL_PAGE_H

#include "rendezvous/protocol/comms.h"
#include "tests/lib/check.h"
#include "tests/lib/profiled_nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct nccl_page {
    int fd;
    struct dt_page *page;
};

static inline void nccl_page_name(int fd)
{
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    setenv(DT_PAGE_ENV, number, 1);
}

static inline struct nccl_page nccl_page_up(void)
{
    struct nccl_page p = {.fd = memfd_create("progress", 0)};
    CHECK(p.fd >= 0);
    CHECK_EQ(ftruncate(p.fd, DT_PAGE_SIZE), 0);
    p.page = mmap(NULL, DT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, p.fd, 0);
    CHECK(p.page != MAP_FAILED);
    dt_page_init(p.page);
    nccl_page_name(p.fd);
    return p;
}

static inline void nccl_page_down(struct nccl_page *p)
{
    munmap(p->page, DT_PAGE_SIZE);
    close(p->fd);
    unsetenv(DT_PAGE_ENV);
}

static inline struct dt_comms_told nccl_page_read(const struct nccl_page *p)
{
    struct dt_comms_told told;
    dt_page_read_comms(p->page, &told);
    return told;
}

static inline void nccl_up(struct profiled_nccl *n, int version)
{
    struct dt_err err = {0};
    CHECK_OK(profiled_nccl_open(n, getenv("DT_NCCL_PROFILER"), version, &err), err);
}

#endif
