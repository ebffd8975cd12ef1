/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/coll/host/post.h"

/* Up to here what a rank gives is copied: bytes. */
#define SMALL (16 << 10)

bool shm_collective_is_small(const struct shm *s, const struct shm_op *op)
{
    return op->call.kind == DT_BARRIER || shm_given_bytes(s, op) <= SMALL;
}

static bool gathers_in_place(const struct shm *s, const struct shm_op *op, struct dt_place *recv)
{
    if (op->call.kind != DT_ALL_GATHER || op->call.count == 0)
        return false;
    size_t part = op->call.count * shm_element(op);
    if ((const char *)op->call.send != (char *)op->call.recv + part * (size_t)s->seats.rank)
        return false;
    *recv = dt_memories_find(&s->memories, op->call.recv, part * (size_t)s->seats.size);
    return recv->memory >= 0 && recv->shared;
}

struct dt_post shm_post_describe(const struct shm *s, const struct shm_op *op)
{
    struct dt_post p = {
        .kind = op->call.kind,
        .type = op->call.type,
        .op = op->call.op,
        .peer = op->call.peer,
        .count = op->call.count,
        .send = {.memory = -1},
        .recv = {.memory = -1},
    };
    p.gathered = gathers_in_place(s, op, &p.recv);
    if (shm_collective_is_small(s, op))
        return p;
    if (shm_gives(s, op))
        p.send = dt_memories_find(&s->memories, shm_given(op), shm_given_bytes(s, op));
    if (op->call.kind == DT_ALL_REDUCE)
        p.recv = dt_memories_find(&s->memories, op->call.recv, shm_given_bytes(s, op));
    return p;
}

void shm_collective_post(struct shm *s, struct shm_op *op)
{
    struct dt_shm_seat *own = dt_shm_seats_own(&s->seats);
    op->post = ++s->posted;
    own->posts[op->post % DT_POSTS] = shm_post_describe(s, op);
    dt_shm_seats_publish(&s->seats, &own->posted, op->post);
}

const struct dt_post *shm_post_of(const struct shm *s, const struct shm_op *op, int rank)
{
    const struct dt_shm_seat *seat = s->seats.seat[rank];
    return shm_collective_is_small(s, op) ? &seat->slot_post[op->slot % 2]
                                          : &seat->posts[op->post % DT_POSTS];
}

/* All ranks have made the same steps when they begin with OP, and who takes it for large posts it
 * before the next. So who has stepped without a post takes it for small, and both would wait for
 * something else of each other. The step is read first, as it is written last. */
int shm_posts_expect(struct shm *s, const struct shm_op *op)
{
    for (int r = 0; r < s->seats.size; r++) {
        const struct dt_shm_seat *seat = s->seats.seat[r];
        uint32_t step = atomic_load(&seat->step), posted = atomic_load(&seat->posted);
        if ((int32_t)(step - s->step) > 0 && (int32_t)(posted - op->post) < 0)
            return shm_fault(s, r, "calls another collective, or with another count");
    }
    return 0;
}

int shm_posts_compare(struct shm *s, const struct shm_op *op)
{
    for (int r = 0; r < s->seats.size; r++) {
        const struct dt_post *p = shm_post_of(s, op, r);
        if (p->kind != op->call.kind)
            return shm_fault(s, r, "calls another collective at this point");
        if (p->kind == DT_BARRIER)
            continue;
        if (p->count != op->call.count || p->type != op->call.type)
            return shm_fault(s, r, "calls it with another count or type");
        if (p->op != op->call.op || p->peer != op->call.peer)
            return shm_fault(s, r, "calls it with another operation or root");
    }
    return 0;
}

bool shm_posts_gathered(const struct shm *s, const struct shm_op *op)
{
    const struct dt_post *own = shm_post_of(s, op, s->seats.rank);
    for (int r = 0; r < s->seats.size; r++) {
        const struct dt_post *p = shm_post_of(s, op, r);
        if (!p->gathered || p->recv.memory != own->recv.memory ||
            p->recv.offset != own->recv.offset)
            return false;
    }
    return true;
}

bool shm_posts_direct(const struct shm *s, const struct shm_op *op)
{
    for (int r = 0; r < s->seats.size; r++) {
        const struct dt_post *p = shm_post_of(s, op, r);
        bool read = op->call.kind != DT_BROADCAST || r == op->call.peer;
        if ((read && p->send.memory < 0) || (op->call.kind == DT_ALL_REDUCE && p->recv.memory < 0))
            return false;
    }
    return true;
}
