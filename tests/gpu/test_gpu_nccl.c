/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between GPUs, by the plugin's backend: ranks are processes with a GPU each, as many
 * as there are (a mock GPU is there three times). All numbers are small and whole, so that each
 * type holds them and results are exact. CUDA does not survive a fork: this process never calls it.
 */
#include "tests/gpu/gpu_ranks.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/half.h"
#include "worker_runtime/device/cuda_plugin.h"

static int gpus;

BEFORE_ALL
{
    gpus = gpu_ranks_or_skip("3");
}

/* -- a rank ----------------------------------------------------------------------------------- */

struct gpu_rank {
    struct rank_self *self;
    int rank, size;
    struct dt_device *device;
    const struct dt_coll_backend *nccl;
    void *group;
    struct dt_coll_member members[RANKS_MAX];
    uint64_t calls;
};

/* All ranks' process ids, by the meeting. */
static void meet(struct gpu_rank *g)
{
    struct dt_meeting *m = &g->self->meeting->table;
    struct dt_err err = {0};
    char key[32];
    for (int r = 0; r < g->size; r++) {
        int pid = getpid();
        snprintf(key, sizeof key, "pid/%d", r);
        CHECK_OK(r == g->rank ? m->set(m, key, &pid, sizeof pid, &err)
                              : m->get(m, key, &pid, sizeof pid, 60 * DT_SECOND, &err),
                 err);
        g->members[r] = (struct dt_coll_member){.world_rank = r, .pid = pid};
    }
}

static void open_device(struct gpu_rank *g, struct rank_self *self, bool wide)
{
    struct dt_err err = {0};
    *g = (struct gpu_rank){.self = self, .rank = self->rank, .size = self->size};
    struct dt_device_wish w = {.kind = "cuda",
                               .local_rank = self->rank,
                               .local_world = self->size,
                               .elem = DT_BF16,
                               .wide_sums = wide};
    const struct dt_cuda_plugin *p = dt_cuda_plugin_load(&err);
    g->device = p ? p->open(&w, &err) : NULL;
    CHECK_OK(g->device ? 0 : -1, err);
    g->nccl = g->device->coll;
    meet(g);
}

static void *open_group(struct gpu_rank *g, int64_t epoch, dt_ms timeout)
{
    struct dt_err err = {0};
    struct dt_coll_group all = {.members = g->members,
                                .size = g->size,
                                .rank = g->rank,
                                .epoch = epoch,
                                .name = "world",
                                .timeout = timeout,
                                .device = g->device};
    void *group = g->nccl->open(&all, &g->self->meeting->table, &err);
    CHECK_OK(group ? 0 : -1, err);
    return group;
}

static void open_all(struct gpu_rank *g, struct rank_self *self, bool wide, dt_ms timeout)
{
    open_device(g, self, wide);
    g->group = open_group(g, 1, timeout);
}

static void close_all(struct gpu_rank *g)
{
    g->nccl->close(g->group);
    dt_device_close(g->device);
}

static int start(struct gpu_rank *g, struct dt_coll_handle *h, struct dt_coll_call call,
                 struct dt_err *err)
{
    *h = (struct dt_coll_handle){.call = call, .sequence = ++g->calls};
    return g->nccl->start(g->group, h, err);
}

static int wait_for(struct gpu_rank *g, struct dt_coll_handle *h, dt_ms timeout, struct dt_err *err)
{
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), timeout);
    return h->done ? 0 : g->nccl->wait(g->group, h, deadline, err);
}

static void run(struct gpu_rank *g, struct dt_coll_call call)
{
    struct dt_err err = {0};
    struct dt_coll_handle h;
    CHECK_OK(start(g, &h, call, &err), err);
    CHECK_OK(wait_for(g, &h, 60 * DT_SECOND, &err), err);
    CHECK(h.done);
}

/* -- numbers ---------------------------------------------------------------------------------- */

static void store(enum dt_dtype type, void *at, size_t i, double x)
{
    if (type == DT_F32)
        ((float *)at)[i] = (float)x;
    if (type == DT_BF16)
        ((uint16_t *)at)[i] = dt_float_to_bf16((float)x);
    if (type == DT_F16)
        ((uint16_t *)at)[i] = dt_float_to_f16((float)x);
    if (type == DT_F64)
        ((double *)at)[i] = x;
    if (type == DT_I32)
        ((int32_t *)at)[i] = (int32_t)x;
    if (type == DT_I64)
        ((int64_t *)at)[i] = (int64_t)x;
    if (type == DT_U8)
        ((uint8_t *)at)[i] = (uint8_t)x;
    if (type == DT_U16)
        ((uint16_t *)at)[i] = (uint16_t)x;
}

static double load(enum dt_dtype type, const void *at, size_t i)
{
    switch (type) {
    case DT_F32:
        return (double)((const float *)at)[i];
    case DT_BF16:
        return (double)dt_bf16_to_float(((const uint16_t *)at)[i]);
    case DT_F16:
        return (double)dt_f16_to_float(((const uint16_t *)at)[i]);
    case DT_F64:
        return ((const double *)at)[i];
    case DT_I32:
        return (double)((const int32_t *)at)[i];
    case DT_I64:
        return (double)((const int64_t *)at)[i];
    case DT_U8:
        return (double)((const uint8_t *)at)[i];
    case DT_U16:
        return (double)((const uint16_t *)at)[i];
    case DT_DTYPES:
        break;
    }
    return -1;
}

/* Element I of what rank R gives. */
static double given(int r, size_t i)
{
    return (double)(3 * (r + 1)) + (double)(i % 7);
}

static void *up(struct gpu_rank *g, enum dt_dtype type, size_t n, int r)
{
    struct dt_err err = {0};
    size_t bytes = n * dt_dtype_size(type);
    void *host = calloc(1, bytes + 1), *at = g->nccl->alloc(g->group, bytes, DT_OWN, &err);
    CHECK_OK(at ? 0 : -1, err);
    for (size_t i = 0; i < n; i++)
        store(type, host, i, given(r, i));
    g->device->table->from_host(g->device, at, host, bytes);
    free(host);
    return at;
}

/* -- what comes out --------------------------------------------------------------------------- */

static double reduced(const struct gpu_rank *g, enum dt_coll_op op, size_t i)
{
    double all = given(0, i);
    for (int r = 1; r < g->size; r++) {
        double x = given(r, i);
        all = op == DT_SUM ? all + x : op == DT_MAX ? (x > all ? x : all) : (x < all ? x : all);
    }
    return all;
}

static double wanted(const struct gpu_rank *g, const struct dt_coll_call *c, size_t i)
{
    size_t part = c->count * (size_t)g->rank;
    switch (c->kind) {
    case DT_ALL_REDUCE:
        return reduced(g, c->op, i);
    case DT_REDUCE_SCATTER:
        return reduced(g, c->op, part + i);
    case DT_ALL_GATHER:
        return given((int)(i / c->count), i % c->count);
    case DT_ALL_TO_ALL:
        return given((int)(i / c->count), part + i % c->count);
    case DT_BROADCAST:
    case DT_RECV:
        return given(c->peer, i);
    default:
        return -1;
    }
}

static size_t results(const struct gpu_rank *g, const struct dt_coll_call *c)
{
    bool each = c->kind == DT_ALL_GATHER || c->kind == DT_ALL_TO_ALL;
    return each ? c->count * (size_t)g->size : c->count;
}

static void check_result(struct gpu_rank *g, const struct dt_coll_call *c)
{
    struct dt_err err = {0};
    size_t n = results(g, c), bytes = n * dt_dtype_size(c->type), wrong = 0;
    void *host = calloc(1, bytes + 1);
    g->device->table->to_host(g->device, host, c->recv, bytes);
    CHECK_OK(dt_device_sync(g->device, &err), err);
    while (wrong < n && load(c->type, host, wrong) == wanted(g, c, wrong))
        wrong++;
    CHECK_ROW("element %zu is %g, wanted %g", wrong, wrong < n ? load(c->type, host, wrong) : 0,
              wanted(g, c, wrong));
    CHECK_EQ(wrong, n);
    free(host);
}

static const char *const kinds[] = {"all-reduce", "reduce-scatter", "all-gather", "all-to-all",
                                    "broadcast"};

static bool parts_sent(enum dt_coll_kind kind)
{
    return kind == DT_REDUCE_SCATTER || kind == DT_ALL_TO_ALL;
}

static void try_one(struct gpu_rank *g, enum dt_coll_kind kind, enum dt_dtype type,
                    enum dt_coll_op op, size_t count)
{
    CHECK_ROW("rank %d of %d, %s of %zu elements of type %d, operation %d", g->rank, g->size,
              kinds[kind], count, (int)type, (int)op);
    struct dt_coll_call c = {.kind = kind, .count = count, .type = type, .op = op};
    c.peer = g->size - 1;
    void *send = up(g, type, parts_sent(kind) ? count * (size_t)g->size : count, g->rank);
    void *recv = up(g, type, results(g, &c), g->rank);
    c.send = kind == DT_BROADCAST ? NULL : send;
    c.recv = recv;
    run(g, c);
    check_result(g, &c);
    g->nccl->release(g->group, send);
    g->nccl->release(g->group, recv);
}

static void each_kind_and_type(struct rank_self *self)
{
    static const size_t counts[] = {1, 5, 1000};
    struct gpu_rank g;
    open_all(&g, self, false, 60 * DT_SECOND);
    for (enum dt_dtype type = 0; type < DT_DTYPES; type++)
        for (size_t n = 0; n < 3; n++) {
            for (enum dt_coll_op op = DT_SUM; op <= DT_MIN && type != DT_U16; op++) {
                try_one(&g, DT_ALL_REDUCE, type, op, counts[n]);
                try_one(&g, DT_REDUCE_SCATTER, type, op, counts[n]);
            }
            try_one(&g, DT_ALL_GATHER, type, DT_SUM, counts[n]);
            try_one(&g, DT_ALL_TO_ALL, type, DT_SUM, counts[n]);
            try_one(&g, DT_BROADCAST, type, DT_SUM, counts[n]);
        }
    run(&g, (struct dt_coll_call){.kind = DT_BARRIER});
    close_all(&g);
}

/* For as many ranks as there are GPUs, up to three. */
static void for_sizes(int least, rank_fn fn)
{
    if (gpus < least)
        SKIP("%d GPUs are needed, and there is %d", least, gpus);
    for (int size = least; size <= gpus && size <= 3; size++) {
        CHECK_ROW("%d ranks", size);
        ranks_run(size, fn, NULL);
    }
}

TEST(each_kind_gives_what_it_should_for_each_type)
{
    for_sizes(1, each_kind_and_type);
}

/* -- in place, and many at a time ------------------------------------------------------------- */

static void in_place(struct rank_self *self)
{
    enum { COUNT = 300 };
    struct gpu_rank g;
    open_all(&g, self, false, 60 * DT_SECOND);
    size_t all = (size_t)g.size * COUNT, ours = (size_t)g.rank * COUNT;
    float *sum = up(&g, DT_F32, COUNT, g.rank), *scatter = up(&g, DT_F32, all, g.rank);
    struct dt_coll_call c = {DT_ALL_REDUCE, sum, sum, COUNT, DT_F32, DT_SUM, 0};
    run(&g, c);
    check_result(&g, &c);
    c = (struct dt_coll_call){DT_REDUCE_SCATTER, scatter, scatter + ours, COUNT, DT_F32, DT_SUM, 0};
    run(&g, c);
    check_result(&g, &c);
    float *gather = up(&g, DT_F32, all, 40), *own = up(&g, DT_F32, COUNT, g.rank);
    c = (struct dt_coll_call){DT_BROADCAST, NULL, own, COUNT, DT_F32, DT_SUM, 0};
    run(&g, c);
    check_result(&g, &c);
    float host[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        store(DT_F32, host, i, given(g.rank, i));
    g.device->table->from_host(g.device, gather + ours, host, sizeof host);
    c = (struct dt_coll_call){DT_ALL_GATHER, gather + ours, gather, COUNT, DT_F32, DT_SUM, 0};
    run(&g, c);
    check_result(&g, &c);
    close_all(&g);
}

TEST(results_may_lie_where_inputs_do)
{
    for_sizes(1, in_place);
}

static void many_at_a_time(struct rank_self *self)
{
    struct gpu_rank g;
    struct dt_coll_handle h[DT_COLL_PENDING];
    open_all(&g, self, false, 60 * DT_SECOND);
    for (int i = 0; i < DT_COLL_PENDING; i++) {
        struct dt_err err = {0};
        struct dt_coll_call c = {.kind = i % 2 ? DT_ALL_GATHER : DT_ALL_REDUCE,
                                 .count = 100 + (size_t)i,
                                 .type = DT_BF16};
        c.send = up(&g, DT_BF16, c.count, g.rank);
        c.recv = up(&g, DT_BF16, results(&g, &c), 9);
        CHECK_OK(start(&g, &h[i], c, &err), err);
    }
    for (int i = DT_COLL_PENDING - 1; i >= 0; i--) {
        struct dt_err err = {0};
        CHECK_OK(wait_for(&g, &h[i], 60 * DT_SECOND, &err), err);
        check_result(&g, &h[i].call);
    }
    close_all(&g);
}

TEST(many_are_under_way_and_are_waited_for_in_any_order)
{
    for_sizes(1, many_at_a_time);
}

static void around(struct rank_self *self)
{
    struct gpu_rank g;
    struct dt_coll_handle out, in;
    struct dt_err err = {0};
    open_all(&g, self, false, 60 * DT_SECOND);
    int next = (g.rank + 1) % g.size, before = (g.rank + g.size - 1) % g.size;
    struct dt_coll_call send = {DT_SEND, NULL, NULL, 70000, DT_F32, DT_SUM, next};
    struct dt_coll_call recv = {DT_RECV, NULL, NULL, 70000, DT_F32, DT_SUM, before};
    send.send = up(&g, DT_F32, send.count, g.rank);
    recv.recv = up(&g, DT_F32, recv.count, 9);
    CHECK_OK(start(&g, &out, send, &err), err);
    CHECK_OK(start(&g, &in, recv, &err), err);
    CHECK_OK(wait_for(&g, &out, 60 * DT_SECOND, &err), err);
    CHECK_OK(wait_for(&g, &in, 60 * DT_SECOND, &err), err);
    check_result(&g, &recv);
    close_all(&g);
}

TEST(ranks_that_all_send_first_do_not_wait_for_each_other)
{
    for_sizes(2, around);
}

/* -- sums in float ---------------------------------------------------------------------------- */

/* 256 + 1 is no bfloat16 and falls back to 256; in float, 256 + 1 + 1 becomes 258, which is one. */
static void wide(struct rank_self *self)
{
    struct gpu_rank g;
    struct dt_err err = {0};
    open_all(&g, self, true, 60 * DT_SECOND);
    uint16_t x[3], all[2];
    size_t ours = (size_t)g.rank;
    for (int i = 0; i < 3; i++)
        x[i] = dt_float_to_bf16(g.rank == 0 ? 256 : 1);
    uint16_t *at = up(&g, DT_BF16, 3, 0);
    g.device->table->from_host(g.device, at, x, sizeof x);
    run(&g, (struct dt_coll_call){DT_REDUCE_SCATTER, at, at + ours, 1, DT_BF16, DT_SUM, 0});
    g.device->table->to_host(g.device, all, at + ours, sizeof *all);
    CHECK_OK(dt_device_sync(g.device, &err), err);
    CHECK_EQ(all[0], dt_float_to_bf16(258));
    close_all(&g);
}

TEST(sums_of_bfloat16_can_be_rounded_once)
{
    if (gpus < 3)
        SKIP("3 GPUs are needed, and there is %d", gpus);
    ranks_run(3, wide, NULL);
}

/* -- parts ------------------------------------------------------------------------------------ */

static void odd_and_even(struct rank_self *self)
{
    struct gpu_rank g;
    struct dt_err err = {0};
    open_all(&g, self, false, 60 * DT_SECOND);
    struct dt_coll_member who[RANKS_MAX];
    struct dt_coll_group part = {.members = who,
                                 .epoch = 1,
                                 .name = g.rank % 2 ? "world/1.0" : "world/0.0",
                                 .timeout = 60 * DT_SECOND,
                                 .device = g.device,
                                 .parent = g.group,
                                 .colour = g.rank % 2,
                                 .key = g.rank};
    for (int r = g.rank % 2; r < g.size; r += 2) {
        if (r == g.rank)
            part.rank = part.size;
        who[part.size++] = g.members[r];
    }
    void *world = g.group;
    g.group = g.nccl->open(&part, &self->meeting->table, &err);
    CHECK_OK(g.group ? 0 : -1, err);
    int32_t *at = up(&g, DT_I32, 1, g.rank), got = 0;
    run(&g, (struct dt_coll_call){DT_ALL_REDUCE, at, at, 1, DT_I32, DT_SUM, 0});
    g.device->table->to_host(g.device, &got, at, sizeof got);
    int32_t sum = 0;
    for (int r = g.rank % 2; r < g.size; r += 2)
        sum += (int32_t)given(r, 0);
    CHECK_EQ(got, sum);
    g.nccl->close(g.group);
    g.group = world;
    run(&g, (struct dt_coll_call){.kind = DT_BARRIER});
    close_all(&g);
}

TEST(parts_work_beside_the_whole)
{
    for_sizes(2, odd_and_even);
}

/* -- failing ---------------------------------------------------------------------------------- */

/* The last rank is killed in a collective that it does not come to. */
static void one_dies(struct rank_self *self)
{
    struct gpu_rank g;
    struct dt_err err = {0};
    struct dt_coll_handle h;
    char says[80];
    open_all(&g, self, false, 60 * DT_SECOND);
    run(&g, (struct dt_coll_call){.kind = DT_BARRIER});
    if (g.rank == g.size - 1)
        raise(SIGKILL);
    float *at = up(&g, DT_F32, 1000, g.rank);
    snprintf(says, sizeof says, "rank %d (pid %d on this host) ended while", g.size - 1,
             g.members[g.size - 1].pid);
    int rc =
        start(&g, &h, (struct dt_coll_call){DT_ALL_REDUCE, at, at, 1000, DT_F32, DT_SUM, 0}, &err);
    if (rc == 0)
        rc = wait_for(&g, &h, 60 * DT_SECOND, &err);
    if (rc == 0)
        rc = dt_device_sync(g.device, &err);
    CHECK_FAIL(rc, err, says);
    close_all(&g);
}

TEST(a_rank_that_dies_is_named_by_the_others)
{
    if (gpus < 2)
        SKIP("2 GPUs are needed, and there is %d", gpus);
    for (int size = 2; size <= gpus && size <= 3; size++) {
        CHECK_ROW("%d ranks", size);
        struct ranks *r = ranks_start(size, one_dies, NULL);
        r->wanted[size - 1] = SIGKILL;
        ranks_end(r);
    }
}

/* Rank 0 waits in a collective of which the others know nothing, until its time is over. */
static void one_is_alone(struct rank_self *self)
{
    struct gpu_rank g;
    struct dt_err err = {0};
    struct dt_coll_handle h;
    struct dt_meeting *m = &self->meeting->table;
    open_all(&g, self, false, 60 * DT_SECOND);
    float *at = up(&g, DT_F32, 1000, g.rank);
    if (g.rank == 0) {
        int rc = start(&g, &h,
                       (struct dt_coll_call){DT_ALL_REDUCE, at, at, 1000, DT_F32, DT_SUM, 0}, &err);
        if (rc == 0)
            rc = wait_for(&g, &h, 300, &err);
        if (rc == 0)
            rc = dt_device_sync(g.device, &err);
        CHECK_FAIL(rc, err, "all-reduce number 1 of group world has not ended in 0.");
        CHECK_EQ(err.code, DT_E_TIMEOUT);
        CHECK_OK(m->set(m, "over", &rc, sizeof rc, &err), err);
    } else {
        int rc;
        CHECK_OK(m->get(m, "over", &rc, sizeof rc, 60 * DT_SECOND, &err), err);
    }
    g.nccl->abort(g.group);
    close_all(&g);
}

TEST(a_collective_that_others_do_not_come_to_ends_in_time)
{
    for_sizes(2, one_is_alone);
}

static void epochs(struct rank_self *self)
{
    struct gpu_rank g;
    open_device(&g, self, false);
    for (int64_t epoch = 1; epoch <= 3; epoch++) {
        g.group = open_group(&g, epoch, 60 * DT_SECOND);
        try_one(&g, DT_ALL_REDUCE, DT_F32, DT_SUM, 100);
        if (epoch == 1)
            g.nccl->abort(g.group);
        g.nccl->close(g.group);
    }
    dt_device_close(g.device);
}

TEST(a_new_epoch_begins_after_an_abort)
{
    for_sizes(1, epochs);
}
