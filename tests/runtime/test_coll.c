/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives of one host compute, against loops that say what they should: every kind, sizes
 * on both sides of every limit, 1 to 9 ranks, ordinary and allocated memory, in place and not. */
#include "tests/lib/sanitized.h"
#include "tests/runtime/ranks.h"

#include <dirent.h>
#include <sched.h>

static const size_t sizes[] = {0, 1, 3, 1000, 4097, 65537};
#define SIZES (sizeof sizes / sizeof sizes[0])

/* What rank R has at I: small whole numbers, so that sums are exact in every type. */
static int value(int r, size_t i)
{
    return (int)((i * 7 + (size_t)r * 13) % 8);
}

static void put(void *at, enum dt_dtype type, size_t i, int v)
{
    static const uint16_t bf16[] = {0,      0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0,
                                    0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120};
    static const uint16_t f16[] = {0,      0x3c00, 0x4000, 0x4200, 0x4400, 0x4500,
                                   0x4600, 0x4700, 0x4800, 0x4880, 0x4900};
    switch (type) {
    case DT_F32:
        ((float *)at)[i] = (float)v;
        break;
    case DT_F64:
        ((double *)at)[i] = v;
        break;
    case DT_I32:
        ((int32_t *)at)[i] = v - 3;
        break;
    case DT_I64:
        ((int64_t *)at)[i] = (int64_t)(v - 3) * ((int64_t)1 << 33);
        break;
    case DT_U8:
        ((uint8_t *)at)[i] = (uint8_t)v;
        break;
    case DT_U16:
        ((uint16_t *)at)[i] = (uint16_t)(v * 1000);
        break;
    case DT_BF16:
        ((uint16_t *)at)[i] = bf16[v];
        break;
    case DT_F16:
        ((uint16_t *)at)[i] = f16[v];
        break;
    case DT_DTYPES:
        break;
    }
}

static double number(const void *at, enum dt_dtype type, size_t i)
{
    uint16_t h;
    uint32_t bits;
    float f;
    switch (type) {
    case DT_F32:
        return ((const float *)at)[i];
    case DT_F64:
        return ((const double *)at)[i];
    case DT_I32:
        return ((const int32_t *)at)[i];
    case DT_I64:
        return (double)((const int64_t *)at)[i];
    case DT_U8:
        return ((const uint8_t *)at)[i];
    case DT_U16:
        return ((const uint16_t *)at)[i];
    case DT_BF16:
        bits = (uint32_t)((const uint16_t *)at)[i] << 16;
        memcpy(&f, &bits, sizeof f);
        return f;
    case DT_F16: /* no subnormal ones here */
        h = ((const uint16_t *)at)[i];
        return h == 0 ? 0 : (double)(1024 + (h & 1023)) * (double)(1 << (h >> 10)) / (1 << 25);
    case DT_DTYPES:
        break;
    }
    return -1;
}

/* The value of rank R at I, as a number of TYPE. */
static double input(enum dt_dtype type, int r, size_t i)
{
    uint64_t one[1] = {0};
    put(one, type, 0, value(r, i));
    return number(one, type, 0);
}

static double folded(enum dt_dtype type, enum dt_coll_op op, int n, size_t i)
{
    double v = input(type, 0, i);
    for (int r = 1; r < n; r++) {
        double w = input(type, r, i);
        v = op == DT_SUM ? v + w : op == DT_MAX ? (w > v ? w : v) : (w < v ? w : v);
    }
    return v;
}

struct place {
    const char *name;
    bool allocated_send, allocated_recv, in_place;
    bool mixed; /* ranks with odd numbers use ordinary memory whatever is said here */
};

static const struct place places[] = {
    {"ordinary memory", false, false, false, false},
    {"ordinary memory in place", false, false, true, false},
    {"allocated memory", true, true, false, false},
    {"allocated memory in place", true, true, true, false},
    {"from allocated to ordinary memory", true, false, false, false},
    {"from ordinary to allocated memory", false, true, false, false},
    {"some in allocated memory", true, true, false, true},
};

/* The memory of one rank for one round. */
struct buffers {
    char *heap[2], *owned[2];
    char *send, *recv;
};

#define ROOM (65537 * (size_t)8 * 10)

static void choose(struct buffers *b, const struct rank_self *me, const struct place *p)
{
    bool ordinary = p->mixed && me->rank % 2 == 1;
    b->send = p->allocated_send && !ordinary ? b->owned[0] : b->heap[0];
    b->recv = p->allocated_recv && !ordinary ? b->owned[1] : b->heap[1];
    memset(b->recv, 0x55, ROOM / 8);
}

static void fill(char *at, enum dt_dtype type, int rank, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(at, type, i, value(rank, i));
}

struct one {
    struct dt_coll *c;
    const struct rank_self *me;
    const struct place *place;
    struct buffers *b;
    size_t count;
    enum dt_dtype type;
    enum dt_coll_op op;
};

static void call(const struct one *o, struct dt_coll_call call)
{
    struct dt_coll_handle h;
    struct dt_err err;
    call.count = o->count;
    call.type = o->type;
    call.op = o->op;
    CHECK_OK(dt_coll_start(o->c, &call, &h, &err), err);
    CHECK_OK(dt_coll_wait(o->c, &h, &err), err);
}

static void check_all_reduce(const struct one *o)
{
    char *send = o->b->send, *recv = o->place->in_place ? send : o->b->recv;
    fill(send, o->type, o->me->rank, o->count);
    call(o, (struct dt_coll_call){.kind = DT_ALL_REDUCE, .send = send, .recv = recv});
    for (size_t i = 0; i < o->count; i++)
        if (number(recv, o->type, i) != folded(o->type, o->op, o->me->size, i))
            CHECK_EQ((long)number(recv, o->type, i), (long)folded(o->type, o->op, o->me->size, i));
}

static void check_reduce_scatter(const struct one *o)
{
    size_t from = o->count * (size_t)o->me->rank;
    char *send = o->b->send, *recv = o->b->recv;
    if (o->place->in_place)
        recv = send + from * dt_dtype_size(o->type);
    fill(send, o->type, o->me->rank, o->count * (size_t)o->me->size);
    call(o, (struct dt_coll_call){.kind = DT_REDUCE_SCATTER, .send = send, .recv = recv});
    for (size_t i = 0; i < o->count; i++)
        if (number(recv, o->type, i) != folded(o->type, o->op, o->me->size, from + i))
            CHECK_EQ((long)number(recv, o->type, i),
                     (long)folded(o->type, o->op, o->me->size, from + i));
}

static void check_all_gather(const struct one *o)
{
    char *recv = o->b->recv, *send = o->b->send;
    if (o->place->in_place)
        send = recv + o->count * (size_t)o->me->rank * dt_dtype_size(o->type);
    fill(send, o->type, o->me->rank, o->count);
    call(o, (struct dt_coll_call){.kind = DT_ALL_GATHER, .send = send, .recv = recv});
    for (int r = 0; r < o->me->size; r++)
        for (size_t i = 0; i < o->count; i++)
            if (number(recv, o->type, (size_t)r * o->count + i) != input(o->type, r, i))
                CHECK_EQ((long)number(recv, o->type, (size_t)r * o->count + i),
                         (long)input(o->type, r, i));
}

static void check_all_to_all(const struct one *o)
{
    size_t from = o->count * (size_t)o->me->rank;
    fill(o->b->send, o->type, o->me->rank, o->count * (size_t)o->me->size);
    call(o, (struct dt_coll_call){.kind = DT_ALL_TO_ALL, .send = o->b->send, .recv = o->b->recv});
    for (int r = 0; r < o->me->size; r++)
        for (size_t i = 0; i < o->count; i++)
            if (number(o->b->recv, o->type, (size_t)r * o->count + i) !=
                input(o->type, r, from + i))
                CHECK_EQ((long)number(o->b->recv, o->type, (size_t)r * o->count + i),
                         (long)input(o->type, r, from + i));
}

static void check_broadcast(const struct one *o)
{
    int root = (int)(o->count % (size_t)o->me->size);
    fill(o->b->recv, o->type, o->me->rank, o->count);
    call(o, (struct dt_coll_call){.kind = DT_BROADCAST, .recv = o->b->recv, .peer = root});
    for (size_t i = 0; i < o->count; i++)
        if (number(o->b->recv, o->type, i) != input(o->type, root, i))
            CHECK_EQ((long)number(o->b->recv, o->type, i), (long)input(o->type, root, i));
}

/* To the next rank, from the one before. */
static void check_messages(const struct one *o)
{
    int n = o->me->size, to = (o->me->rank + 1) % n, from = (o->me->rank + n - 1) % n;
    struct dt_coll_handle sent, got;
    struct dt_err err;
    if (n == 1)
        return;
    fill(o->b->send, o->type, o->me->rank, o->count);
    const struct dt_coll_call send = {
        .kind = DT_SEND, .send = o->b->send, .count = o->count, .type = o->type, .peer = to};
    const struct dt_coll_call recv = {
        .kind = DT_RECV, .recv = o->b->recv, .count = o->count, .type = o->type, .peer = from};
    CHECK_OK(dt_coll_start(o->c, &send, &sent, &err), err);
    CHECK_OK(dt_coll_start(o->c, &recv, &got, &err), err);
    CHECK_OK(dt_coll_wait(o->c, &sent, &err), err);
    CHECK_OK(dt_coll_wait(o->c, &got, &err), err);
    for (size_t i = 0; i < o->count; i++)
        if (number(o->b->recv, o->type, i) != input(o->type, from, i))
            CHECK_EQ((long)number(o->b->recv, o->type, i), (long)input(o->type, from, i));
}

static void check_kinds(const struct one *o)
{
    static void (*const kinds[])(const struct one *o) = {
        check_all_reduce, check_reduce_scatter, check_all_gather,
        check_all_to_all, check_broadcast,      check_messages,
    };
    static const char *const names[] = {"all-reduce", "reduce-scatter", "all-gather",
                                        "all-to-all", "broadcast",      "messages"};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        CHECK_ROW("rank %d of %d: %s of %zu of type %d by %d, %s", o->me->rank, o->me->size,
                  names[k], o->count, (int)o->type, (int)o->op, o->place->name);
        kinds[k](o);
    }
}

static void buffers_open(struct buffers *b, struct dt_coll *c)
{
    struct dt_err err;
    for (int i = 0; i < 2; i++) {
        b->heap[i] = malloc(ROOM);
        b->owned[i] = dt_coll_alloc(c, ROOM, DT_OWN, &err);
        CHECK_OK(b->owned[i] ? 0 : -1, err);
    }
}

static void buffers_close(struct buffers *b, struct dt_coll *c)
{
    for (int i = 0; i < 2; i++) {
        free(b->heap[i]);
        dt_coll_release(c, b->owned[i]);
    }
}

static int count_open(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void all_sizes_and_places(struct rank_self *me)
{
    int before = count_open();
    struct buffers b;
    struct dt_coll *c = rank_open(me);
    buffers_open(&b, c);
    CHECK_EQ(dt_coll_rank(c), me->rank);
    CHECK_EQ(dt_coll_size(c), me->size);
    for (size_t s = 0; s < SIZES; s++)
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            choose(&b, me, &places[p]);
            check_kinds(&(struct one){c, me, &places[p], &b, sizes[s], DT_F32, DT_SUM});
        }
    buffers_close(&b, c);
    dt_coll_destroy(c);
    CHECK_EQ(count_open(), before);
}

static void all_types_and_operations(struct rank_self *me)
{
    static const size_t some[] = {5, 5000, 17000};
    struct buffers b;
    struct dt_coll *c = rank_open(me);
    buffers_open(&b, c);
    for (int type = 0; type < DT_DTYPES; type++)
        for (int op = DT_SUM; op <= DT_MIN; op++)
            for (int s = 0; s < 3; s++)
                for (size_t p = 0; p < 3; p += 2) {
                    choose(&b, me, &places[p]);
                    check_kinds(&(struct one){c, me, &places[p], &b, some[s], (enum dt_dtype)type,
                                              (enum dt_coll_op)op});
                }
    buffers_close(&b, c);
    dt_coll_destroy(c);
}

TEST(every_kind_gives_what_it_should_in_every_size_and_place)
{
    for (int n = 1; n <= (SANITIZED ? 5 : 9); n++) {
        CHECK_ROW("%d ranks", n);
        ranks_run(n, all_sizes_and_places, NULL);
    }
}

TEST(every_type_and_operation)
{
    for (int n = 1; n <= 4; n++) {
        CHECK_ROW("%d ranks", n);
        ranks_run(n, all_types_and_operations, NULL);
    }
}
