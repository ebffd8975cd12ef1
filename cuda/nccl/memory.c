/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a group lends is the device's. Only that is registered with NCCL, and not whatever is
 * handed to a collective: of other memory nobody says here when it goes. An NCCL that cannot or
 * does not want to is no error: it copies then. Two rules of NCCL's: what one rank has registered
 * in a call, all have; and what is taken back, no work that began still uses. */
#include "cuda/nccl/inside.h"

#include <stdlib.h>

struct block {
    struct dt_node in_group;
    char *at;
    size_t bytes;
    bool shown; /* was tried */
    void *registered;
};

void *dt_nccl_alloc(void *b, size_t bytes, enum dt_coll_memory memory, struct dt_err *err)
{
    struct dt_nccl *n = b;
    (void)memory; /* GPUs share none */
    struct block *block = calloc(1, sizeof *block);
    if (!block) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a list of buffers");
        return NULL;
    }
    block->at = dt_device_alloc(&n->cuda->device, bytes, "collective buffers", err);
    if (!block->at) {
        free(block);
        return NULL;
    }
    block->bytes = bytes;
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

void dt_nccl_show(struct dt_nccl *n, ncclComm_t comm, const void *at)
{
    struct block *block = at ? find(n, at) : NULL;
    if (!block || block->shown)
        return;
    block->shown = true;
    if (!registers_well(n))
        return;
    if (n->calls->reg(comm, block->at, block->bytes, &block->registered) != ncclSuccess)
        block->registered = NULL;
}

static void hide(struct dt_nccl *n, ncclComm_t comm, struct block *block)
{
    if (block->registered)
        n->calls->unreg(comm, block->registered);
    block->registered = NULL;
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
    if (block->registered) {
        dt_nccl_choose_gpu(n);
        ncclComm_t comm = comes_to_rest(n) ? enter_to_hide(n) : NULL;
        if (comm)
            hide(n, comm, block);
        leave(n, comm);
    }
    dt_list_remove(&block->in_group);
    dt_device_free(&n->cuda->device, block->at);
    free(block);
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
    while ((node = dt_list_pop(&n->blocks))) {
        struct block *block = dt_container_of(node, struct block, in_group);
        dt_device_free(&n->cuda->device, block->at);
        free(block);
    }
}
