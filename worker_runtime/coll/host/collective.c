/* SPDX-License-Identifier: Apache-2.0 */
/* How collectives move between the ranks of a host. Three ways, and all ranks take the same one:
 *
 * small   each rank copies what it gives into its slot, one wait for all, and each rank takes what
 *         it needs: all-reduces are computed by every rank, which is less than a second wait costs;
 * direct  all that must be read lies in dt_coll_alloc() memory: ranks read it where it is, and wait
 *         at the end for each other to have read;
 * staged  any memory: like small, slot by slot.
 *
 * Nobody writes another rank's memory. There are two slots: who fills one has waited for all in
 * the round before, and they got there after they were done with the round before that. */
#include "worker_runtime/coll/host/post.h"
#include "worker_runtime/coll/host/reduce.h"
#include "worker_runtime/coll/host/stream.h"

#include <string.h>

/* A large all-reduce goes in rounds in which each rank reduces so many bytes: what one has reduced,
 * the others then read from the cache. */
#define PART (512 << 10)
/* From here on what is moved goes past the caches: bytes of the whole, see stream.c. */
#define STREAM (128 << 10)

enum phase { ENTER, SMALL_TAKE, DECIDE, FILL, REDUCE, TAKE, READ, PARTS, LEAVE };

/* Waits for all to take the step that we have just taken. */
static void meet(struct shm *s, struct shm_op *op)
{
    op->need = (struct shm_need){.counter = NEED_STEP, .value = shm_step(s), .peer = -1};
}

static bool streams(const struct shm *s, const struct shm_op *op)
{
    return shm_given_bytes(s, op) >= STREAM;
}

static void move(const struct shm *s, const struct shm_op *op, char *to, const char *from,
                 size_t bytes)
{
    if (to == from || bytes == 0)
        return;
    if (streams(s, op))
        dt_stream_copy(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* LEN elements from AT on, into the own slot of this round. */
static void fill(struct shm *s, struct shm_op *op, size_t at, size_t len)
{
    char *slot = dt_shm_seat_slot(dt_shm_seats_own(&s->seats), s->seats.size, op->slot);
    size_t e = shm_element(op);
    if (!shm_gives(s, op) || len == 0)
        return;
    if (!shm_in_parts(op)) {
        move(s, op, slot, shm_given(op) + at * e, len * e);
        return;
    }
    for (size_t r = 0; r < (size_t)s->seats.size; r++)
        move(s, op, slot + r * len * e, shm_given(op) + (r * op->call.count + at) * e, len * e);
}

static void use_slots(struct shm *s, const struct shm_op *op)
{
    for (int r = 0; r < s->seats.size; r++)
        s->from[r] = dt_shm_seat_slot(s->seats.seat[r], s->seats.size, op->slot);
}

/* Where SEND of every rank is; a fault when one says what cannot be. */
static int use_memories(struct shm *s, struct shm_op *op)
{
    for (int r = 0; r < s->seats.size; r++) {
        if (op->call.kind == DT_BROADCAST && r != op->call.peer)
            continue;
        s->from[r] =
            dt_memories_at(&s->memories, &shm_post_of(s, op, r)->send, r, shm_given_bytes(s, op));
        if (!s->from[r])
            return shm_fault(s, r, "names memory that this rank does not know");
    }
    return 0;
}

/* Reduces LEN elements that lie SKIP bytes into each rank's, to OUT. */
static void fold(const struct shm *s, const struct shm_op *op, char *out, size_t skip, size_t len)
{
    for (int r = 0; r < s->seats.size; r++)
        s->from[r] += skip;
    dt_reduce(op->call.type, op->call.op, out, (const void *const *)s->from, s->seats.size, len);
    for (int r = 0; r < s->seats.size; r++)
        s->from[r] -= skip;
}

/* Past the caches in blocks by way of the first-level one, which costs next to nothing. */
static void reduce(const struct shm *s, const struct shm_op *op, char *out, size_t skip, size_t len)
{
    enum { BLOCK = 4096 };
    _Alignas(DT_LINE) char block[BLOCK];
    size_t e = shm_element(op);
    if (!streams(s, op)) {
        fold(s, op, out, skip, len);
        return;
    }
    for (size_t at = 0; at < len; at += BLOCK / e) {
        size_t n = len - at < BLOCK / e ? len - at : BLOCK / e;
        fold(s, op, block, skip + at * e, n);
        dt_stream_copy(out + at * e, block, n * e);
    }
}

/* Takes what is for us of LEN elements from AT on, from s->from. There a rank's parts lie STRIDE
 * elements apart and begin with element FIRST. */
static void take(struct shm *s, struct shm_op *op, size_t at, size_t len, size_t stride,
                 size_t first)
{
    size_t e = shm_element(op), me = (size_t)s->seats.rank, count = op->call.count;
    char *to = (char *)op->call.recv + at * e;
    switch (op->call.kind) {
    case DT_ALL_REDUCE:
        reduce(s, op, to, first * e, len);
        break;
    case DT_REDUCE_SCATTER:
        reduce(s, op, to, (me * stride + first) * e, len);
        break;
    case DT_ALL_GATHER:
        for (size_t r = 0; r < (size_t)s->seats.size; r++)
            if (r != me || op->call.send != (char *)op->call.recv + me * count * e)
                move(s, op, to + r * count * e, s->from[r] + first * e, len * e);
        break;
    case DT_ALL_TO_ALL:
        for (size_t r = 0; r < (size_t)s->seats.size; r++)
            move(s, op, to + r * count * e, s->from[r] + (me * stride + first) * e, len * e);
        break;
    case DT_BROADCAST:
        if (op->call.peer != s->seats.rank)
            move(s, op, to, s->from[op->call.peer] + first * e, len * e);
        break;
    case DT_SEND:
    case DT_RECV:
    case DT_BARRIER:
    case DT_COLL_KINDS:
        break;
    }
}

/* The part of LEN elements that RANK reduces: its first and how many. Parts but the last begin on
 * whole cache lines. */
static size_t share(const struct shm *s, const struct shm_op *op, size_t len, int rank, size_t *n)
{
    size_t line = DT_LINE / shm_element(op), ranks = (size_t)s->seats.size;
    size_t each = (len + ranks - 1) / ranks;
    each = (each + line - 1) / line * line;
    size_t from = each * (size_t)rank < len ? each * (size_t)rank : len;
    *n = len - from < each ? len - from : each;
    return from;
}

/* -- small ------------------------------------------------------------------------------------ */

static int enter(struct shm *s, struct shm_op *op)
{
    if (!shm_collective_is_small(s, op)) {
        op->need = (struct shm_need){.counter = NEED_POST, .value = op->post, .peer = -1};
        op->phase = DECIDE;
        return 1;
    }
    op->slot = s->round++;
    dt_shm_seats_own(&s->seats)->slot_post[op->slot % 2] = shm_post_describe(s, op);
    fill(s, op, 0, op->call.count);
    meet(s, op);
    op->phase = SMALL_TAKE;
    return 1;
}

static int small_take(struct shm *s, struct shm_op *op)
{
    if (shm_posts_compare(s, op) < 0)
        return -1;
    use_slots(s, op);
    if (op->call.count > 0 && !shm_posts_gathered(s, op))
        take(s, op, 0, op->call.count, op->call.count, 0);
    op->done = true;
    return 1;
}

static int decide(struct shm *s, struct shm_op *op)
{
    if (shm_posts_compare(s, op) < 0)
        return -1;
    op->step = s->step;
    if (shm_posts_gathered(s, op))
        op->done = true;
    else if (!shm_posts_direct(s, op))
        op->phase = FILL;
    else
        op->phase = op->call.kind == DT_ALL_REDUCE ? PARTS : READ;
    return 1;
}

/* -- staged ----------------------------------------------------------------------------------- */

static size_t staged_len(const struct shm *s, const struct shm_op *op)
{
    size_t fits = DT_SLOT / shm_width(s, op), left = op->call.count - op->at;
    return left < fits ? left : fits;
}

static int staged_fill(struct shm *s, struct shm_op *op)
{
    op->slot = s->round++;
    fill(s, op, op->at, staged_len(s, op));
    meet(s, op);
    op->phase = op->call.kind == DT_ALL_REDUCE ? REDUCE : TAKE;
    return 1;
}

/* Our share of the sum goes into our slot, where only we read that share. */
static int staged_reduce(struct shm *s, struct shm_op *op)
{
    size_t n, first = share(s, op, staged_len(s, op), s->seats.rank, &n);
    use_slots(s, op);
    reduce(s, op, s->from[s->seats.rank] + first * shm_element(op), first * shm_element(op), n);
    meet(s, op);
    op->phase = TAKE;
    return 1;
}

static int staged_take(struct shm *s, struct shm_op *op)
{
    size_t len = staged_len(s, op), e = shm_element(op);
    char *to = (char *)op->call.recv + op->at * e;
    use_slots(s, op);
    if (op->call.kind != DT_ALL_REDUCE)
        take(s, op, op->at, len, len, 0);
    for (int r = 0; op->call.kind == DT_ALL_REDUCE && r < s->seats.size; r++) {
        size_t n, first = share(s, op, len, r, &n);
        move(s, op, to + first * e, s->from[r] + first * e, n * e);
    }
    op->at += len;
    op->phase = FILL;
    op->done = op->at == op->call.count;
    return 1;
}

/* -- direct ----------------------------------------------------------------------------------- */

/* This way comes a unit's reduce-scatter: each rank adds up its part from where all ranks have it.
 */
static int direct_read(struct shm *s, struct shm_op *op)
{
    if (use_memories(s, op) < 0)
        return -1;
    take(s, op, 0, op->call.count, op->call.count, 0);
    meet(s, op);
    op->phase = LEAVE;
    return 1;
}

static size_t parts_len(const struct shm *s, const struct shm_op *op, size_t at)
{
    size_t most = PART / shm_element(op) * (size_t)s->seats.size, left = op->call.count - at;
    return left < most ? left : most;
}

static int part_reduce(struct shm *s, struct shm_op *op)
{
    size_t n, e = shm_element(op);
    size_t first = op->at + share(s, op, parts_len(s, op, op->at), s->seats.rank, &n);
    if (use_memories(s, op) < 0)
        return -1;
    reduce(s, op, (char *)op->call.recv + first * e, first * e, n);
    op->at += parts_len(s, op, op->at);
    shm_step(s);
    return 1;
}

static int part_copy(struct shm *s, struct shm_op *op)
{
    size_t len = parts_len(s, op, op->behind), e = shm_element(op), bytes = shm_given_bytes(s, op);
    for (int r = 0; r < s->seats.size; r++) {
        size_t n, first = op->behind + share(s, op, len, r, &n);
        const char *from = dt_memories_at(&s->memories, &shm_post_of(s, op, r)->recv, r, bytes);
        if (!from)
            return shm_fault(s, r, "names memory that this rank does not know");
        if (r != s->seats.rank)
            move(s, op, (char *)op->call.recv + first * e, from + first * e, n * e);
    }
    op->behind += len;
    op->part++;
    return 1;
}

/* Reduces a part, then takes from the others what they reduced of the part before: they have mostly
 * done so by then, and nobody waits. */
static int parts(struct shm *s, struct shm_op *op)
{
    size_t ahead = op->at - op->behind;
    if (op->at < op->call.count && ahead <= parts_len(s, op, op->behind))
        return part_reduce(s, op);
    if (op->behind < op->call.count) {
        op->need = (struct shm_need){
            .counter = NEED_STEP, .value = op->step + (uint32_t)op->part + 1, .peer = -1};
        return shm_ready(s, &op->need) ? part_copy(s, op) : 0;
    }
    meet(s, op);
    op->phase = LEAVE;
    return 1;
}

int shm_collective_advance(struct shm *s, struct shm_op *op)
{
    switch ((enum phase)op->phase) {
    case ENTER:
        return enter(s, op);
    case FILL:
        return staged_fill(s, op);
    case READ:
        return direct_read(s, op);
    case PARTS:
        return parts(s, op);
    case SMALL_TAKE:
    case DECIDE:
    case REDUCE:
    case TAKE:
    case LEAVE:
        break;
    }
    if (!shm_ready(s, &op->need))
        return op->phase == DECIDE ? shm_posts_expect(s, op) : 0;
    switch ((enum phase)op->phase) {
    case SMALL_TAKE:
        return small_take(s, op);
    case DECIDE:
        return decide(s, op);
    case REDUCE:
        return staged_reduce(s, op);
    case TAKE:
        return staged_take(s, op);
    default:
        op->done = true;
        return 1;
    }
}
