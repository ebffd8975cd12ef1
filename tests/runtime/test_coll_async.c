/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that are under way together, shared memory, and the bits of sums. */
#include "tests/runtime/ranks.h"

#include <sched.h>

/* Numbers of very different sizes: sums in another order have other bits. */
static float rough(int rank, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u ^ (uint32_t)(rank + 1) * 0x9e3779b9u;
    x ^= x >> 15;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    float f = (float)(int32_t)x;
    return x & 1 ? f * 1e-6f : x & 2 ? f * 1e5f : f;
}

static void sums_have_the_same_bits(struct rank_self *me)
{
    static const size_t counts[] = {7, 1000, 70001};
    struct dt_coll *c = rank_open(me);
    struct dt_err err;
    size_t n = (size_t)me->size, room = n * 70001 * sizeof(float);
    float *wanted = malloc(room);
    for (int owned = 0; owned < 2; owned++) {
        float *a = owned ? dt_coll_alloc(c, room, DT_OWN, &err) : malloc(room);
        float *b = owned ? dt_coll_alloc(c, room, DT_OWN, &err) : malloc(room);
        for (int s = 0; s < 3; s++) {
            CHECK_ROW("rank %d of %d: %zu elements", me->rank, me->size, counts[s]);
            size_t part = counts[s], all = part * n;
            for (size_t i = 0; i < all; i++) {
                a[i] = b[i] = rough(me->rank, i);
                wanted[i] = rough(0, i);
                for (int r = 1; r < me->size; r++)
                    wanted[i] += rough(r, i);
            }
            float *mine = b + part * (size_t)me->rank;
            CHECK_OK(dt_coll_all_reduce(c, a, all, DT_F32, DT_SUM, &err), err);
            CHECK_OK(dt_coll_reduce_scatter(c, b, mine, part, DT_F32, DT_SUM, &err), err);
            CHECK_OK(dt_coll_all_gather(c, mine, b, part, DT_F32, &err), err);
            CHECK_BYTES(a, all * sizeof *a, wanted, all * sizeof *wanted);
            CHECK_BYTES(b, all * sizeof *b, wanted, all * sizeof *wanted);
        }
        if (!owned) {
            free(a);
            free(b);
        }
    }
    free(wanted);
    dt_coll_destroy(c);
}

TEST(a_sum_has_the_same_bits_however_it_is_taken)
{
    for (int n = 1; n <= 8; n++)
        ranks_run(n, sums_have_the_same_bits, NULL);
}

/* The counts alternate between what is copied at the start and what is only announced. */
static void many_under_way(struct rank_self *me)
{
    struct dt_coll *c = rank_open(me);
    struct dt_coll_handle h[DT_COLL_PENDING], more;
    struct dt_err err;
    int32_t *buf[DT_COLL_PENDING];
    for (int k = 0; k < DT_COLL_PENDING; k++) {
        size_t count = k % 2 ? 100 : 50000;
        buf[k] = k % 3 ? dt_coll_alloc(c, count * 4, DT_OWN, &err) : malloc(count * 4);
        for (size_t i = 0; i < count; i++)
            buf[k][i] = (int32_t)i + k + me->rank;
        const struct dt_coll_call call = {
            .kind = DT_ALL_REDUCE, .send = buf[k], .recv = buf[k], .count = count, .type = DT_I32};
        CHECK_OK(dt_coll_start(c, &call, &h[k], &err), err);
    }
    CHECK_FAIL(dt_coll_start(c, &(struct dt_coll_call){.kind = DT_BARRIER}, &more, &err), err,
               "16 are under way");
    /* Ranks wait in different orders. */
    int n = me->size;
    for (int k = 0; k < DT_COLL_PENDING; k++) {
        int at = me->rank % 2 ? DT_COLL_PENDING - 1 - k : k;
        size_t count = at % 2 ? 100 : 50000;
        CHECK_OK(dt_coll_wait(c, &h[at], &err), err);
        for (size_t i = 0; i < count; i += 99)
            CHECK_EQ(buf[at][i], ((int32_t)i + at) * n + n * (n - 1) / 2);
    }
    CHECK_OK(dt_coll_barrier(c, &err), err);
    for (int k = 0; k < DT_COLL_PENDING; k += 3)
        free(buf[k]);
    dt_coll_destroy(c);
}

TEST(sixteen_are_under_way_and_waited_for_in_any_order)
{
    for (int n = 1; n <= 5; n++)
        ranks_run(n, many_under_way, NULL);
}

/* Rank 0 starts a reduce-scatter and goes on to wait for a message that rank 1 sends only behind
 * that reduce-scatter: the wait for one must move the other. And no start waits for a peer: rank 1
 * says by a counter that it starts only when all starts of rank 0 are behind it. */
static void waiting_moves_all(struct rank_self *me)
{
    enum { N = 40000 };
    _Atomic int *started = me->shared;
    struct dt_coll *c = rank_open(me);
    struct dt_coll_handle h[4];
    struct dt_err err;
    float *grads = dt_coll_alloc(c, 2 * N * sizeof *grads, DT_OWN, &err), mine[N], word = 0;
    while (me->rank == 1 && *started < 4)
        sched_yield();
    for (int k = 0; k < 4; k++) {
        CHECK_OK(
            dt_coll_start(c,
                          &(struct dt_coll_call){
                              .kind = DT_REDUCE_SCATTER, .send = grads, .recv = mine, .count = N},
                          &h[k], &err),
            err);
        if (me->rank == 0)
            ++*started;
    }
    if (me->rank == 0)
        CHECK_OK(dt_coll_recv(c, &word, 1, DT_F32, 1, &err), err);
    for (int k = 0; k < 4; k++)
        CHECK_OK(dt_coll_wait(c, &h[k], &err), err);
    if (me->rank == 1)
        CHECK_OK(dt_coll_send(c, &word, 1, DT_F32, 0, &err), err);
    dt_coll_destroy(c);
}

TEST(a_start_waits_for_nobody_and_a_wait_moves_what_was_started)
{
    ranks_run(2, waiting_moves_all, NULL);
}

/* Long and short messages to all others at once, in the order of each pair. */
static void messages_cross(struct rank_self *me)
{
    enum { LONG = 300000 };
    struct dt_coll *c = rank_open(me);
    struct dt_err err;
    int n = me->size;
    struct dt_coll_handle h[4][4][2];
    char *out[4], *in[4];
    for (int p = 0; p < n; p++) {
        out[p] = p % 2 ? malloc(LONG + 9) : dt_coll_alloc(c, LONG + 9, DT_OWN, &err);
        in[p] = malloc(LONG + 9);
        memset(out[p], 'a' + me->rank * 4 + p, LONG + 9);
        for (int k = 0; p != me->rank && k < 2; k++) {
            struct dt_coll_call call = {.kind = DT_SEND, .peer = p, .type = DT_U8};
            call.send = out[p] + (k ? LONG : 0);
            call.count = k ? 9 : LONG;
            CHECK_OK(dt_coll_start(c, &call, &h[p][k][0], &err), err);
            call.kind = DT_RECV;
            call.recv = in[p] + (k ? LONG : 0);
            CHECK_OK(dt_coll_start(c, &call, &h[p][k][1], &err), err);
        }
    }
    for (int i = 0; i < n * 4; i++)
        if (i / 4 != me->rank)
            CHECK_OK(dt_coll_wait(c, &h[i / 4][i / 2 % 2][i % 2], &err), err);
    for (int p = 0; p < n; p++)
        for (size_t i = 0; p != me->rank && i < LONG + 9; i += 7)
            CHECK_EQ(in[p][i], 'a' + p * 4 + me->rank);
    for (int p = 0; p < n; p++) {
        free(in[p]);
        if (p % 2)
            free(out[p]);
    }
    dt_coll_destroy(c);
}

TEST(messages_cross_in_the_order_of_each_pair)
{
    for (int n = 2; n <= 4; n++)
        ranks_run(n, messages_cross, NULL);
}

static void share(struct rank_self *me)
{
    enum { N = 20000 };
    struct dt_coll *c = rank_open(me);
    struct dt_err err;
    CHECK(dt_coll_shares_all(c));
    for (size_t part = 10; part <= N; part *= 2000) {
        float *all = dt_coll_alloc(c, part * 4 * (size_t)me->size, DT_SHARED, &err);
        CHECK_OK(all ? 0 : -1, err);
        for (int turn = 1; turn <= 20; turn++) {
            for (size_t i = 0; i < part; i++)
                all[part * (size_t)me->rank + i] = (float)(me->rank * 100 + turn);
            CHECK_OK(dt_coll_all_gather(c, all + part * (size_t)me->rank, all, part, DT_F32, &err),
                     err);
            for (int r = 0; r < me->size; r++)
                for (size_t i = 0; i < part; i += 3)
                    CHECK_EQ((int)all[part * (size_t)r + i], r * 100 + turn);
            CHECK_OK(dt_coll_barrier(c, &err), err); /* all have read before one writes again */
        }
        dt_coll_release(c, all);
    }
    dt_coll_destroy(c);
}

TEST(shared_memory_is_gathered_where_it_is)
{
    for (int n = 1; n <= 6; n++)
        ranks_run(n, share, NULL);
}

/* Memory comes zeroed, again after a release, and rows are reused alike on all ranks. */
static void memory_comes_and_goes(struct rank_self *me)
{
    struct dt_coll *c = rank_open(me);
    struct dt_err err;
    char *kept = dt_coll_alloc(c, 0, DT_OWN, &err);
    CHECK_OK(kept ? 0 : -1, err);
    for (int turn = 0; turn < 20; turn++) {
        size_t n = 20000 + (size_t)turn;
        char *a = dt_coll_alloc(c, n, DT_OWN, &err), *b = dt_coll_alloc(c, n, DT_SHARED, &err);
        for (size_t i = 0; i < n; i++)
            CHECK(a[i] == 0 && b[i] == 0);
        CHECK_OK(dt_coll_barrier(c, &err), err);
        memset(a, turn + me->rank, n);
        CHECK_OK(dt_coll_all_reduce(c, a, n, DT_U8, DT_MAX, &err), err);
        CHECK_EQ(a[n - 1], turn + me->size - 1);
        dt_coll_release(c, a);
        dt_coll_release(c, b);
    }
    dt_coll_release(c, NULL);
    dt_coll_destroy(c);
}

TEST(memory_comes_zeroed_and_goes)
{
    for (int n = 1; n <= 3; n++)
        ranks_run(n, memory_comes_and_goes, NULL);
}

/* More ranks than cores: this ends, which a spin would not in sensible time. */
static void crowd(struct rank_self *me)
{
    cpu_set_t two;
    CPU_ZERO(&two);
    CPU_SET(0, &two);
    CPU_SET(1, &two);
    sched_setaffinity(0, sizeof two, &two);
    struct dt_coll *c = rank_open(me);
    struct dt_err err;
    float *v = dt_coll_alloc(c, 100000 * sizeof *v, DT_OWN, &err);
    for (int turn = 0; turn < 200; turn++) {
        for (int i = 0; i < 100000; i += 1000)
            v[i] = 1;
        CHECK_OK(dt_coll_all_reduce(c, v, turn % 2 ? 100000 : 1024, DT_F32, DT_SUM, &err), err);
        CHECK_EQ((int)v[0], me->size);
    }
    dt_coll_destroy(c);
}

TEST(eight_ranks_on_two_cores_get_there)
{
    ranks_run(8, crowd, NULL);
}
