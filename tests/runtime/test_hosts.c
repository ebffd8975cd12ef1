/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between hosts, against loops that say what they should be to the bit. All hosts are
 * this machine: ranks with different host numbers share no memory and talk through UCX over the
 * loopback device. */
#include "tests/runtime/ranks.h"

#include <pthread.h>
#include <stdatomic.h>

/* A layout is a digit for each rank: the number of its host. */
static const char *const layouts[] = {"01", "0011", "0101", "011222", "201", "0123"};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

/* Around what fits a message of leaders, and a stage, and odd. */
static const size_t sizes[] = {0, 1, 7, 4096, 4097, 100003, 1000001};
#define SIZES (sizeof sizes / sizeof *sizes)

static struct dt_coll *open_layout(struct rank_self *me, dt_ms timeout)
{
    const char *layout = me->arg;
    struct dt_coll_member members[RANKS_MAX];
    struct dt_err err = {0};
    for (int i = 0; i < me->size; i++)
        members[i] = (struct dt_coll_member){.world_rank = i, .host = layout[i] - '0'};
    struct dt_coll_group g = {.members = members,
                              .size = me->size,
                              .rank = me->rank,
                              .epoch = 1,
                              .name = "world",
                              .timeout = timeout};
    struct dt_coll *c = dt_coll_open(&g, &me->meeting->table, &err);
    CHECK_OK(c ? 0 : -1, err);
    return c;
}

static void run_layouts(rank_fn fn)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        CHECK_ROW("hosts %s", layouts[i]);
        ranks_run((int)strlen(layouts[i]), fn, (void *)(uintptr_t)layouts[i]);
    }
}

/* Of different sizes, so that another order gives other bits. */
static float value(int rank, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    return (float)(int32_t)x * (1.0f / 65536) * (float)(1 + rank * rank);
}

/* Host by host in the order of their first ranks, and rank by rank within a host. */
static float sum_of(const struct rank_self *me, size_t i)
{
    const char *layout = me->arg;
    float all = 0;
    bool first = true;
    for (int r = 0; r < me->size; r++) {
        if (strchr(layout, layout[r]) != layout + r)
            continue;
        float host = value(r, i);
        for (int q = r + 1; q < me->size; q++)
            if (layout[q] == layout[r])
                host += value(q, i);
        all = first ? host : all + host;
        first = false;
    }
    return all;
}

static void check_same(const float *is, const float *wanted, size_t n)
{
    CHECK_BYTES(is, n * sizeof *is, wanted, n * sizeof *wanted);
}

static float *room(size_t n)
{
    float *at = malloc((n + 1) * sizeof *at);
    if (!at)
        abort();
    at[n] = 4711;
    return at;
}

static void reduces(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct dt_err err = {0};
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = sizes[s];
        float *buf = room(n), *wanted = room(n);
        for (size_t i = 0; i < n; i++) {
            buf[i] = value(me->rank, i);
            wanted[i] = sum_of(me, i);
        }
        CHECK_OK(dt_coll_all_reduce(c, buf, n, DT_F32, DT_SUM, &err), err);
        check_same(buf, wanted, n + 1);
        free(buf);
        free(wanted);
    }
    dt_coll_destroy(c);
}

TEST(an_all_reduce_sums_host_by_host_to_the_bit)
{
    run_layouts(reduces);
}

/* In place, and apart; then gathered, which is an all-reduce. */
static void scatters(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct dt_err err = {0};
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = sizes[s] / 4, all = n * (size_t)me->size, mine = n * (size_t)me->rank;
        float *send = room(all), *recv = room(n), *wanted = room(all);
        for (size_t i = 0; i < all; i++) {
            send[i] = value(me->rank, i);
            wanted[i] = sum_of(me, i);
        }
        CHECK_OK(dt_coll_reduce_scatter(c, send, recv, n, DT_F32, DT_SUM, &err), err);
        check_same(recv, wanted + mine, n);
        CHECK_OK(dt_coll_reduce_scatter(c, send, send + mine, n, DT_F32, DT_SUM, &err), err);
        check_same(send + mine, wanted + mine, n);
        CHECK_OK(dt_coll_all_gather(c, send + mine, send, n, DT_F32, &err), err);
        check_same(send, wanted, all + 1);
        CHECK_OK(dt_coll_all_gather(c, recv, send, n, DT_F32, &err), err);
        check_same(send, wanted, all + 1);
        free(send);
        free(recv);
        free(wanted);
    }
    dt_coll_destroy(c);
}

TEST(a_reduce_scatter_and_an_all_gather_are_an_all_reduce)
{
    run_layouts(scatters);
}

static void gathers_shared(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct dt_err err = {0};
    CHECK(!dt_coll_shares_all(c));
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = sizes[s], all = n * (size_t)me->size;
        float *table = dt_coll_alloc(c, (all + 1) * sizeof *table, DT_SHARED, &err);
        CHECK_OK(table ? 0 : -1, err);
        for (int round = 0; round < 2; round++) {
            float *mine = table + n * (size_t)me->rank;
            for (size_t i = 0; i < n; i++)
                mine[i] = value(me->rank + round, i);
            CHECK_OK(dt_coll_all_gather(c, mine, table, n, DT_F32, &err), err);
            for (int r = 0; r < me->size; r++)
                for (size_t i = 0; i < n; i++)
                    if (table[(size_t)r * n + i] != value(r + round, i))
                        CHECK(table[(size_t)r * n + i] == value(r + round, i));
            CHECK_OK(dt_coll_barrier(c, &err), err);
        }
        dt_coll_release(c, table);
    }
    dt_coll_destroy(c);
}

TEST(an_all_gather_in_shared_memory_fills_that_of_each_host)
{
    run_layouts(gathers_shared);
}

static void exchanges(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct dt_err err = {0};
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = sizes[s] / 3, all = n * (size_t)me->size;
        float *send = room(all), *recv = room(all), *wanted = room(all);
        for (int r = 0; r < me->size; r++)
            for (size_t i = 0; i < n; i++) {
                send[(size_t)r * n + i] = value(me->rank * 100 + r, i);
                wanted[(size_t)r * n + i] = value(r * 100 + me->rank, i);
            }
        CHECK_OK(dt_coll_all_to_all(c, send, recv, n, DT_F32, &err), err);
        check_same(recv, wanted, all + 1);
        free(send);
        free(recv);
        free(wanted);
    }
    dt_coll_destroy(c);
}

TEST(an_all_to_all_gives_each_its_own)
{
    run_layouts(exchanges);
}

static void broadcasts(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct dt_err err = {0};
    for (int root = 0; root < me->size; root++)
        for (size_t s = 0; s < SIZES; s++) {
            size_t n = sizes[s];
            float *buf = room(n), *wanted = room(n);
            for (size_t i = 0; i < n; i++) {
                buf[i] = value(me->rank, i);
                wanted[i] = value(root, i);
            }
            CHECK_OK(dt_coll_broadcast(c, buf, n, DT_F32, root, &err), err);
            check_same(buf, wanted, n + 1);
            free(buf);
            free(wanted);
        }
    dt_coll_destroy(c);
}

TEST(a_broadcast_reaches_all_from_any_root)
{
    run_layouts(broadcasts);
}

/* Around the ring in both ways, all at once; big enough that nothing is done when it is started. */
static void sends(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct dt_err err = {0};
    size_t n = 300001;
    float *buf[4] = {room(n), room(n), room(n), room(n)};
    struct dt_coll_handle h[5];
    int next = (me->rank + 1) % me->size, last = (me->rank + me->size - 1) % me->size;
    for (size_t i = 0; i < n; i++) {
        buf[0][i] = value(me->rank, i);
        buf[1][i] = value(me->rank + 50, i);
    }
    struct dt_coll_call calls[5] = {
        {.kind = DT_SEND, .send = buf[0], .count = n, .type = DT_F32, .peer = next},
        {.kind = DT_SEND, .send = buf[1], .count = n, .type = DT_F32, .peer = last},
        {.kind = DT_BARRIER},
        {.kind = DT_RECV, .recv = buf[2], .count = n, .type = DT_F32, .peer = last},
        {.kind = DT_RECV, .recv = buf[3], .count = n, .type = DT_F32, .peer = next},
    };
    /* Of two ranks, next and last are one, and its messages come in their order. */
    for (int i = 0; i < 5; i++)
        CHECK_OK(dt_coll_start(c, &calls[i], &h[i], &err), err);
    for (int i = 4; i >= 0; i--)
        CHECK_OK(dt_coll_wait(c, &h[i], &err), err);
    for (size_t i = 0; i < n; i++)
        if (buf[2][i] != value(last, i) || buf[3][i] != value(next + 50, i))
            CHECK(buf[2][i] == value(last, i) && buf[3][i] == value(next + 50, i));
    dt_coll_destroy(c);
    for (int i = 0; i < 4; i++)
        free(buf[i]);
}

TEST(messages_go_to_ranks_of_this_host_and_of_others)
{
    run_layouts(sends);
}

/* Nobody is past a barrier that somebody has not come to. */
static void counts_in(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct dt_err err = {0};
    _Atomic int *came = me->shared;
    for (int round = 1; round <= 200; round++) {
        atomic_fetch_add(came, 1);
        CHECK_OK(dt_coll_barrier(c, &err), err);
        int now = atomic_load(came);
        if (now < round * me->size)
            CHECK_EQ(now, round * me->size);
    }
    CHECK_EQ(atomic_load(came) <= 200 * me->size, 1);
    dt_coll_destroy(c);
}

TEST(a_barrier_waits_for_all)
{
    run_layouts(counts_in);
}

/* All kinds in one row, started before any is waited for, and waited for from behind. */
static void queues(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct dt_err err = {0};
    size_t n = 5000;
    float *buf[DT_COLL_PENDING];
    struct dt_coll_handle h[DT_COLL_PENDING];
    for (int k = 0; k < DT_COLL_PENDING; k++) {
        buf[k] = room(n);
        for (size_t i = 0; i < n; i++)
            buf[k][i] = value(me->rank, i + (size_t)k);
        struct dt_coll_call call = {
            .kind = DT_ALL_REDUCE, .send = buf[k], .recv = buf[k], .count = n, .type = DT_F32};
        CHECK_OK(dt_coll_start(c, &call, &h[k], &err), err);
    }
    struct dt_coll_handle more;
    CHECK_FAIL(dt_coll_start(c, &(struct dt_coll_call){.kind = DT_BARRIER}, &more, &err), err,
               "16");
    for (int k = DT_COLL_PENDING - 1; k >= 0; k--)
        CHECK_OK(dt_coll_wait(c, &h[k], &err), err);
    for (int k = 0; k < DT_COLL_PENDING; k++) {
        for (size_t i = 0; i < n; i++)
            if (buf[k][i] != sum_of(me, i + (size_t)k))
                CHECK(buf[k][i] == sum_of(me, i + (size_t)k));
        free(buf[k]);
    }
    dt_coll_destroy(c);
}

TEST(calls_that_wait_in_line_are_run_in_the_order_of_their_starts)
{
    run_layouts(queues);
}

static void splits(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND), *part;
    struct dt_err err = {0};
    CHECK_OK(dt_coll_split(c, me->rank % 2, -me->rank, &part, &err), err);
    float sum = (float)me->rank;
    CHECK_OK(dt_coll_all_reduce(part, &sum, 1, DT_F32, DT_SUM, &err), err);
    int wanted = 0;
    for (int r = me->rank % 2; r < me->size; r += 2)
        wanted += r;
    CHECK_EQ((int)sum, wanted);
    dt_coll_destroy(part);
    dt_coll_destroy(c);
}

TEST(a_group_of_several_hosts_splits_into_others)
{
    run_layouts(splits);
}

/* -- failures --------------------------------------------------------------------------------- */

struct told { /* in what the test shares with its ranks */
    _Atomic int going;
    _Atomic int said[RANKS_MAX]; /* 1: it ended with the right words */
};

/* All-reduces until it fails; the words must name the victim, and its host. */
static void reduces_until(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 120 * DT_SECOND);
    struct told *told = me->shared;
    struct dt_err err = {0};
    static float buf[200000];
    int victim = me->size / 2;
    char words[64];
    snprintf(words, sizeof words, "rank %d on host %c: ", victim, ((char *)me->arg)[victim]);
    CHECK_OK(dt_coll_all_reduce(c, buf, 100, DT_F32, DT_SUM, &err), err);
    atomic_fetch_add(&told->going, 1);
    for (size_t i = 0;; i++)
        if (dt_coll_all_reduce(c, buf, i % 2 ? 100 : 200000, DT_F32, DT_SUM, &err) < 0)
            break;
    if (!strstr(err.text, words))
        CHECK_STR(err.text, words);
    CHECK_FAIL(dt_coll_barrier(c, &err), err, words); /* and stays so */
    dt_coll_destroy(c);
}

TEST(when_a_rank_is_killed_all_others_name_it_wherever_it_was)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        CHECK_ROW("hosts %s", layouts[i]);
        int size = (int)strlen(layouts[i]);
        struct ranks *r = ranks_start(size, reduces_until, (void *)(uintptr_t)layouts[i]);
        struct told *told = r->proto.shared;
        while (atomic_load(&told->going) < size)
            usleep(1000);
        ranks_kill(r, size / 2, SIGKILL);
        ranks_end(r);
    }
}

static void comes_late(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct told *told = me->shared;
    struct dt_err err = {0};
    float v = 1;
    CHECK_OK(dt_coll_barrier(c, &err), err);
    CHECK_EQ(dt_coll_timeout_ms(c, 300), 0);
    if (me->rank == 1) {
        while (atomic_load(&told->going) < me->size - 1)
            usleep(1000);
    } else {
        CHECK_FAIL(dt_coll_all_reduce(c, &v, 1, DT_F32, DT_SUM, &err), err, "rank ");
        atomic_store(&told->said[me->rank], strstr(err.text, "rank 1 on host") ? 1 : 2);
        atomic_fetch_add(&told->going, 1);
    }
    dt_coll_destroy(c);
}

TEST(who_does_not_come_in_time_is_named)
{
    struct ranks *r = ranks_start(4, comes_late, (void *)(uintptr_t) "0011");
    ranks_end(r);
}

static void gives_up(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct dt_err err = {0};
    float v = 1;
    struct told *told = me->shared;
    CHECK_OK(dt_coll_all_reduce(c, &v, 1, DT_F32, DT_SUM, &err), err);
    atomic_fetch_add(&told->going, 1);
    if (me->rank == 2) {
        while (atomic_load(&told->going) < me->size)
            usleep(1000);
        dt_coll_abort(c, "no more data");
        CHECK_FAIL(dt_coll_all_reduce(c, &v, 1, DT_F32, DT_SUM, &err), err, "no more data");
    } else {
        CHECK_FAIL(dt_coll_all_reduce(c, &v, 1, DT_F32, DT_SUM, &err), err, "rank 2");
    }
    dt_coll_destroy(c);
}

TEST(a_rank_that_gives_up_is_named_by_the_others)
{
    ranks_run(4, gives_up, (void *)(uintptr_t) "0011");
}

static void *call_off(void *c)
{
    dt_coll_abort(c, "the world has changed");
    return NULL;
}

/* Rank 1 waits for ever, as rank 2 of another host keeps away, until its own thread calls it off.
 */
static void is_called_off(struct rank_self *me)
{
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND);
    struct dt_err err = {0};
    struct told *told = me->shared;
    pthread_t t;
    if (me->rank == 1) {
        CHECK_EQ(pthread_create(&t, NULL, call_off, c), 0);
        CHECK_FAIL(dt_coll_barrier(c, &err), err, "the world has changed");
        CHECK_EQ(pthread_join(t, NULL), 0);
        atomic_fetch_add(&told->going, 1);
    } else if (me->rank == 0) {
        CHECK_FAIL(dt_coll_barrier(c, &err), err, "rank 1 on host 0: it gave up");
        atomic_fetch_add(&told->going, 1);
    }
    while (atomic_load(&told->going) < 2)
        usleep(1000);
    dt_coll_destroy(c);
}

TEST(an_abort_from_another_thread_ends_a_wait_between_hosts)
{
    ranks_run(3, is_called_off, (void *)(uintptr_t) "001");
}

/* Each in its own time: nobody takes a peer that is done for one that died. */
static void leaves(struct rank_self *me)
{
    struct dt_err err = {0};
    float v = 1;
    struct dt_coll *c = open_layout(me, 60 * DT_SECOND), *part;
    CHECK_OK(dt_coll_split(c, 0, me->rank, &part, &err), err);
    CHECK_OK(dt_coll_broadcast(part, &v, 1, DT_F32, 0, &err), err);
    dt_coll_destroy(part);
    CHECK_OK(dt_coll_all_reduce(c, &v, 1, DT_F32, DT_SUM, &err), err);
    CHECK_OK(dt_coll_all_reduce(c, &v, 1, DT_F32, DT_SUM, &err), err);
    dt_coll_destroy(c);
}

TEST(groups_end_without_a_word_of_failure)
{
    for (int i = 0; i < 5; i++)
        run_layouts(leaves);
}
