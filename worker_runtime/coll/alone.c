/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of a group of one: what it gives is what it gets. */
#include "worker_runtime/coll/backend.h"

#include "base/list.h"

#include <stdlib.h>
#include <string.h>

struct alone {
    struct dt_list blocks;
};

/* In front of memory, which begins a cache line behind it. */
struct block {
    _Alignas(64) struct dt_node in_alone;
};

static void *alone_open(const struct dt_coll_group *g, struct dt_meeting *m, struct dt_err *err)
{
    (void)g;
    (void)m;
    struct alone *a = calloc(1, sizeof *a);
    if (!a) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a group");
        return NULL;
    }
    dt_list_init(&a->blocks);
    return a;
}

static int alone_start(void *b, struct dt_coll_handle *h, struct dt_err *err)
{
    const struct dt_coll_call *call = &h->call;
    (void)b;
    (void)err;
    bool moves = call->kind <= DT_ALL_TO_ALL && call->send != call->recv && call->count > 0;
    if (moves)
        memmove(call->recv, call->send, call->count * dt_dtype_size(call->type));
    h->done = true;
    return 0;
}

static int alone_wait(void *b, struct dt_coll_handle *h, dt_ms deadline, struct dt_err *err)
{
    (void)b;
    (void)h;
    (void)deadline;
    (void)err;
    return 0;
}

static void *alone_alloc(void *b, size_t bytes, enum dt_coll_memory memory, struct dt_err *err)
{
    struct alone *a = b;
    struct block *block;
    (void)memory;
    if (bytes > SIZE_MAX / 2 || posix_memalign((void **)&block, 64, sizeof *block + bytes) != 0) {
        dt_err_set(err, DT_E_MEMORY, "no %zu bytes of memory", bytes);
        return NULL;
    }
    memset(block, 0, sizeof *block + bytes);
    dt_list_append(&a->blocks, &block->in_alone);
    return block + 1;
}

static void alone_release(void *b, void *memory)
{
    (void)b;
    struct block *block = (struct block *)memory - 1;
    dt_list_remove(&block->in_alone);
    free(block);
}

static bool alone_shares_all(void *b)
{
    (void)b;
    return true;
}

static void alone_abort(void *b)
{
    (void)b;
}

static void alone_close(void *b)
{
    struct alone *a = b;
    struct dt_node *n;
    while (a && (n = dt_list_pop(&a->blocks)))
        free(dt_container_of(n, struct block, in_alone));
    free(a);
}

const struct dt_coll_backend dt_coll_alone = {
    .name = "alone",
    .open = alone_open,
    .start = alone_start,
    .wait = alone_wait,
    .alloc = alone_alloc,
    .release = alone_release,
    .shares_all = alone_shares_all,
    .abort = alone_abort,
    .close = alone_close,
};
