/* SPDX-License-Identifier: Apache-2.0 */
/* The backend for ranks of one host: what is under way, and opening, closing and memory of a group.
 */
#include "worker_runtime/coll/host/shm.h"
#include "worker_runtime/coll/host/stream.h"

#include <stdlib.h>
#include <unistd.h>

/* -- what operations ask ---------------------------------------------------------------------- */

bool shm_has(const struct shm *s, const struct shm_need *need, int peer)
{
    struct dt_shm_seat *seat = s->seats.seat[peer];
    const _Atomic uint32_t *word = &seat->step;
    switch (need->counter) {
    case NEED_NOTHING:
        return true;
    case NEED_STEP:
        break;
    case NEED_POST:
        word = &seat->posted;
        break;
    case NEED_FILLED:
        word = &dt_shm_seat_mailbox(seat, s->seats.rank)->filled;
        break;
    case NEED_DRAINED:
        word = &dt_shm_seat_mailbox(seat, s->seats.rank)->drained;
        break;
    }
    /* Not acquire alone: sleep_on() counts on it that this does not come before what it stored. */
    return (int32_t)(atomic_load(word) - need->value) >= 0;
}

bool shm_ready(const struct shm *s, const struct shm_need *need)
{
    if (need->peer >= 0)
        return shm_has(s, need, need->peer);
    for (int r = 0; r < s->seats.size; r++)
        if (!shm_has(s, need, r))
            return false;
    return true;
}

uint32_t shm_step(struct shm *s)
{
    dt_stream_end();
    dt_shm_seats_publish(&s->seats, &dt_shm_seats_own(&s->seats)->step, ++s->step);
    return s->step;
}

int shm_fault(struct shm *s, int peer, const char *what)
{
    s->fault_of = peer;
    return dt_err_set(&s->fault, DT_E_PROTOCOL, "rank %d (pid %d) %s", shm_world_rank(s, peer),
                      s->seats.members[peer].pid, what);
}

/* -- what is under way ------------------------------------------------------------------------ */

static bool same_queue(const struct shm_op *a, const struct shm_op *b)
{
    if (!shm_is_message(a) || !shm_is_message(b))
        return shm_is_message(a) == shm_is_message(b);
    return a->call.kind == b->call.kind && a->call.peer == b->call.peer;
}

struct shm_op *shm_front(struct shm *s, struct shm_op *op)
{
    struct shm_op *first = op;
    for (int i = 0; i < SHM_OPS; i++) {
        struct shm_op *o = &s->ops[i];
        if (o->used && !o->done && !shm_message_is_out(o) && o->order < first->order &&
            same_queue(o, op))
            first = o;
    }
    return first;
}

static int advance(struct shm *s, struct shm_op *op)
{
    return shm_is_message(op) ? shm_message_advance(s, op) : shm_collective_advance(s, op);
}

int shm_progress(struct shm *s)
{
    int moved = 0;
    for (int i = 0; i < SHM_OPS; i++) {
        struct shm_op *op = &s->ops[i];
        if (!op->used || op->done || shm_front(s, op) != op)
            continue;
        int rc = advance(s, op);
        if (rc < 0)
            return -1;
        moved |= rc;
    }
    return moved;
}

static struct shm_op *op_claim(struct shm *s, const struct dt_coll_call *call)
{
    for (int i = 0; i < SHM_OPS; i++) {
        struct shm_op *op = &s->ops[i];
        if (op->used)
            continue;
        *op = (struct shm_op){.used = true, .call = *call, .order = ++s->orders};
        return op;
    }
    return NULL;
}

static struct shm_op *op_start(struct shm *s, const struct dt_coll_call *call)
{
    struct shm_op *op = op_claim(s, call);
    if (!op)
        return op;
    /* A letter is left at once if there is room for it: who sends may compute then, and who
     * receives need not wait for that. */
    if (call->kind == DT_SEND && shm_front(s, op) == op)
        shm_message_advance(s, op);
    if (shm_is_message(op))
        return op;
    /* What is large is only announced: ranks do not wait for each other at a start. What is small
     * is handed over at once if it can be. */
    if (!shm_collective_is_small(s, op))
        shm_collective_post(s, op);
    else if (shm_front(s, op) == op)
        shm_collective_advance(s, op);
    return op;
}

/* -- the backend ------------------------------------------------------------------------------ */

static void shm_close(void *b)
{
    struct shm *s = b;
    if (!s)
        return;
    if (s->seats.seat && dt_shm_seats_own(&s->seats))
        shm_give_up(s, s->seats.rank);
    dt_memories_finish(&s->memories);
    dt_shm_seats_close(&s->seats);
    free(s->sent);
    free(s->taken);
    free(s->from);
    free(s);
}

static int run(struct shm *s, const struct dt_coll_call *call, struct dt_err *err)
{
    struct shm_op *op = op_start(s, call);
    if (!op)
        return dt_err_set(err, DT_E_LIMIT, "too many collectives are under way");
    return shm_wait_for(s, op, dt_clock_after(dt_clock_monotonic(), s->timeout), err);
}

/* The first barrier tells that everybody has everybody's seat, so descriptors can go. */
static int settle(struct shm *s, const struct dt_coll_group *g, struct dt_meeting *m,
                  struct dt_err *err)
{
    int fd = -1, rc = -1, culprit;
    if (dt_shm_seats_open(&s->seats, g, m, &fd, err) == 0) {
        rc = run(s, &(struct dt_coll_call){.kind = DT_BARRIER}, err);
        culprit = shm_blamed_by(s, s->seats.rank);
    } else {
        culprit = s->seats.culprit;
    }
    if (rc < 0)
        dt_shm_seats_tell(g, m, culprit);
    if (rc < 0 && s->seats.seat && dt_shm_seats_own(&s->seats))
        shm_give_up(s, culprit); /* for who has this seat already */
    if (fd >= 0)
        close(fd);
    return rc;
}

static void *shm_open_group(const struct dt_coll_group *g, struct dt_meeting *m, struct dt_err *err)
{
    size_t n = (size_t)g->size;
    struct shm *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a group");
        return NULL;
    }
    s->timeout = g->timeout;
    s->memories = (struct dt_memories){.ranks = g->size, .rank = g->rank};
    s->sent = calloc(n, sizeof *s->sent);
    s->taken = calloc(n, sizeof *s->taken);
    s->from = calloc(n, sizeof *s->from);
    if (!s->sent || !s->taken || !s->from)
        dt_err_set(err, DT_E_MEMORY, "no memory for the %d ranks of a group", g->size);
    else if (settle(s, g, m, err) == 0)
        return s;
    shm_close(s);
    return NULL;
}

static int shm_start(void *b, struct dt_coll_handle *h, struct dt_err *err)
{
    h->state = op_start(b, &h->call);
    return h->state ? 0 : dt_err_set(err, DT_E_LIMIT, "too many collectives are under way");
}

static int shm_wait(void *b, struct dt_coll_handle *h, dt_ms deadline, struct dt_err *err)
{
    if (shm_wait_for(b, h->state, deadline, err) < 0)
        return -1;
    h->done = true;
    return 0;
}

/* Tells all how it went and learns who shows which descriptor; 0 when it went well everywhere. */
static int exchange(struct shm *s, int mine, int *all, struct dt_err *err)
{
    struct dt_coll_call gather = {
        .kind = DT_ALL_GATHER, .send = &mine, .recv = all, .count = 1, .type = DT_I32};
    if (run(s, &gather, err) < 0)
        return -1;
    for (int r = 0; r < s->seats.size; r++)
        if (all[r] < -1)
            return dt_err_set(err, DT_E_MEMORY, "rank %d (pid %d) could not get or map it",
                              shm_world_rank(s, r), s->seats.members[r].pid);
    return 0;
}

#define WENT_WRONG (-2)

static int map_all(struct shm *s, int row, const int *fds, struct dt_err *err)
{
    for (int r = 0; r < s->seats.size; r++)
        if (r != s->seats.rank && fds[r] >= 0 &&
            dt_memories_map(&s->memories, row, r, s->seats.members[r].pid, fds[r], err) < 0)
            return dt_err_wrap(err, "memory of rank %d", shm_world_rank(s, r));
    return 0;
}

/* Every rank goes through both exchanges whatever went wrong, so that all agree how it ended. */
static void *shm_alloc(void *b, size_t bytes, enum dt_coll_memory memory, struct dt_err *err)
{
    struct shm *s = b;
    struct dt_err own = {0}, theirs = {0};
    int fd, row = dt_memories_make(&s->memories, bytes, memory == DT_SHARED, &fd, &own);
    int *fds = calloc((size_t)s->seats.size, sizeof *fds);
    int rc = fds ? exchange(s, row < 0 ? WENT_WRONG : fd, fds, &theirs) : -1;
    if (rc == 0) {
        rc = map_all(s, row, fds, &own);
        if (exchange(s, rc < 0 ? WENT_WRONG : 0, fds, &theirs) < 0)
            rc = -1;
    }
    if (fd >= 0)
        close(fd);
    free(fds);
    if (rc == 0)
        return s->memories.rows[row].at[s->seats.rank];
    if (row >= 0)
        dt_memories_drop(&s->memories, row);
    if (!own.code && !theirs.code)
        dt_err_set(&own, DT_E_MEMORY, "no memory for a list of %d ranks", s->seats.size);
    if (err)
        *err = own.code ? own : theirs;
    return NULL;
}

static void shm_release(void *b, void *memory)
{
    struct shm *s = b;
    struct dt_place p = dt_memories_find(&s->memories, memory, 1);
    if (p.memory >= 0)
        dt_memories_drop(&s->memories, p.memory);
}

static bool shm_shares_all(void *b)
{
    (void)b;
    return true;
}

const struct dt_shm_seats *dt_shm_seats_of(const void *backend)
{
    const struct shm *s = backend;
    return &s->seats;
}

static void shm_abort(void *b)
{
    struct shm *s = b;
    atomic_store(&s->aborted, true);
    shm_give_up(s, s->seats.rank);
}

const struct dt_coll_backend dt_coll_shm = {
    .name = "shm",
    .open = shm_open_group,
    .start = shm_start,
    .wait = shm_wait,
    .alloc = shm_alloc,
    .release = shm_release,
    .shares_all = shm_shares_all,
    .abort = shm_abort,
    .close = shm_close,
};
