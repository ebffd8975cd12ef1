/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a group lends is the device's. Only that is registered with NCCL, and not whatever is
 * handed to a collective: of other memory nobody says here when it goes. An NCCL that cannot or
 * does not want to is no error: it copies then. Two rules of NCCL's: what one rank has registered
 * in a call, all have; and what is taken back, no work that began still uses.
 *
 * Windows, where they are asked for, are memory of NCCL's own, which GPUs of a host can map. To
 * make one is a collective. So a rank that cannot fails, and does not take other memory, for which
 * the others would wait. */
#include "cuda/nccl/inside.h"

#include "cuda/nccl/hints.h"

#include <stdlib.h>
#include <string.h>

struct block {
    struct dt_node in_group;
    char *at;
    size_t bytes;
    bool shown; /* was tried */
    void *registered, *window;
};

static int take(struct dt_nccl *n, struct block *block, struct dt_err *err)
{
    if (!n->windows) {
        block->at = dt_device_alloc(&n->cuda->device, block->bytes, "collective buffers", err);
        return block->at ? 0 : -1;
    }
    void *at = NULL;
    ncclResult_t r = n->calls->mem_alloc(&at, block->bytes ? block->bytes : 1);
    block->at = at;
    if (r != ncclSuccess)
        return dt_nccl_fail(n->calls, r, "memory for collective buffers", err);
    cudaError_t e = n->calls->clear(at, 0, block->bytes, n->cuda->stream.compute);
    return e == cudaSuccess ? 0 : dt_cuda_fail(e, "clearing collective buffers", err);
}

/* The device's memory goes in the order of its streams, NCCL's at once. */
static void give(struct dt_nccl *n, struct block *block)
{
    if (!n->windows) {
        dt_device_free(&n->cuda->device, block->at);
    } else if (block->at) {
        n->calls->stream_sync(n->cuda->stream.compute);
        n->calls->stream_sync(n->cuda->gather);
        n->calls->stream_sync(n->cuda->reduce);
        n->calls->mem_free(block->at);
    }
    free(block);
}

void *dt_nccl_alloc(void *b, size_t bytes, enum dt_coll_memory memory, struct dt_err *err)
{
    struct dt_nccl *n = b;
    (void)memory; /* GPUs share none */
    struct block *block = calloc(1, sizeof *block);
    if (!block) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a list of buffers");
        return NULL;
    }
    block->bytes = bytes;
    dt_nccl_choose_gpu(n);
    if (take(n, block, err) < 0) {
        give(n, block);
        return NULL;
    }
    dt_list_append(&n->blocks, &block->in_group);
    return block->at;
}

static struct block *find(struct dt_nccl *n, const void *at)
{
    dt_list_each(&n->blocks, node)
    {
        struct block *block = dt_container_of(node, struct block, in_group);
        if ((uintptr_t)at - (uintptr_t)block->at < (block->bytes ? block->bytes : 1))
            return block;
    }
    return NULL;
}

static bool registers_well(const struct dt_nccl *n)
{
    int version = 0;
    return n->calls->reg && n->calls->unreg && n->calls->version(&version) == ncclSuccess &&
           version >= DT_NCCL_REGISTERS_WELL;
}

int dt_nccl_find_windows(struct dt_nccl *n, struct dt_err *err)
{
    const struct dt_nccl_calls *c = n->calls;
    const char *wish = getenv("DTRUN_NCCL_WINDOWS");
    bool wanted = wish && strcmp(wish, "1") == 0;
    if (wish && *wish && !wanted && strcmp(wish, "0") != 0)
        return dt_err_set(err, DT_E_USAGE,
                          "DTRUN_NCCL_WINDOWS in the environment is \"%.40s\"; give 1 or 0", wish);
    n->windows = wanted && c->mem_alloc && c->mem_free && c->window && c->unwindow;
    return 0;
}

/* Says that it is done when it has begun, in a communicator that does not block. */
static ncclResult_t make_window(struct dt_nccl *n, ncclComm_t comm, struct block *block)
{
    ncclResult_t r =
        n->calls->window(comm, block->at, block->bytes, &block->window, DT_NCCL_SYMMETRIC);
    return r == ncclSuccess ? ncclInProgress : r;
}

static void enlist(struct dt_nccl *n, ncclComm_t comm, struct block *block)
{
    if (n->calls->reg(comm, block->at, block->bytes, &block->registered) != ncclSuccess)
        block->registered = NULL;
}

int dt_nccl_show(struct dt_nccl *n, const void *at, dt_ms deadline, struct dt_err *err)
{
    struct block *block = at ? find(n, at) : NULL;
    ncclResult_t r = ncclSuccess;
    if (!block || block->shown)
        return 0;
    block->shown = true;
    if (!n->windows && !registers_well(n))
        return 0;
    ncclComm_t comm = dt_comm_enter(&n->comm, err);
    if (!comm)
        return -1;
    if (n->windows)
        r = make_window(n, comm, block);
    else
        enlist(n, comm, block);
    return dt_comm_leave(&n->comm, r, "making a buffer known", deadline, err);
}

static void hide(struct dt_nccl *n, ncclComm_t comm, struct block *block)
{
    if (block->registered)
        n->calls->unreg(comm, block->registered);
    if (block->window)
        n->calls->unwindow(comm, block->window);
    block->registered = block->window = NULL;
}

/* A communicator that never connected has no registrations, an aborted one has forgotten them. */
static ncclComm_t enter_to_hide(struct dt_nccl *n)
{
    bool may = n->connected && dt_comm_state(&n->comm) == DT_COMM_READY;
    return may ? dt_comm_enter(&n->comm, NULL) : NULL;
}

static void leave(struct dt_nccl *n, ncclComm_t comm)
{
    if (comm)
        dt_comm_leave(&n->comm, ncclSuccess, "taking back a buffer", 0, NULL);
}

static bool comes_to_rest(struct dt_nccl *n)
{
    dt_ms timeout = atomic_load(&n->watched.timeout);
    return dt_nccl_rest(n, dt_clock_after(dt_clock_monotonic(), timeout), NULL) == 0;
}

void dt_nccl_release(void *b, void *memory)
{
    struct dt_nccl *n = b;
    struct block *block = find(n, memory);
    if (!block)
        return;
    dt_nccl_choose_gpu(n);
    if (block->registered || block->window) {
        ncclComm_t comm = comes_to_rest(n) ? enter_to_hide(n) : NULL;
        if (comm)
            hide(n, comm, block);
        leave(n, comm);
    }
    dt_list_remove(&block->in_group);
    give(n, block);
}

void dt_nccl_hide_all(struct dt_nccl *n)
{
    ncclComm_t comm = enter_to_hide(n);
    if (!comm)
        return;
    dt_list_each(&n->blocks, node) hide(n, comm, dt_container_of(node, struct block, in_group));
    leave(n, comm);
}

void dt_nccl_release_all(struct dt_nccl *n)
{
    struct dt_node *node;
    while ((node = dt_list_pop(&n->blocks)))
        give(n, dt_container_of(node, struct block, in_group));
}
