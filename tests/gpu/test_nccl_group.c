/* SPDX-License-Identifier: Apache-2.0 */
/* The backend over a table of calls that the test fills: how a group is made, in which order a
 * collective is put on streams, and that all is given back. One process plays each rank in turn. */
#include "tests/gpu/nccl_story.h"

#include <sched.h>

static char memory[64]; /* of the GPU, which is ours */

static void forget_log(void)
{
    fake.log[0] = '\0';
}

static int run(struct dt_nccl *n, struct dt_coll_call call, struct dt_err *err)
{
    struct dt_coll_handle h = {.call = call, .sequence = 1};
    if (dt_cuda_nccl.start(n, &h, err) < 0)
        return -1;
    return h.done ? 0 : dt_cuda_nccl.wait(n, &h, dt_clock_after(dt_clock_monotonic(), 2000), err);
}

/* The device comes to the end of its work after a while. */
static void *end_work(void *arg)
{
    (void)arg;
    dt_ms until = dt_clock_after(dt_clock_monotonic(), 20);
    while (dt_clock_monotonic() < until)
        sched_yield();
    fake.hang = false;
    return NULL;
}

/* -- making one ------------------------------------------------------------------------------- */

GROUP_STORY(rank_0_makes_the_id_and_the_others_take_it)
{
    struct dt_nccl *a = scene_rank(s, 2, 0), *b = scene_rank(s, 2, 1);
    CHECK_EQ(fake.comms, 2);
    CHECK(s->gpu.watchdog != NULL);
    dt_cuda_nccl.close(a);
    CHECK(s->gpu.watchdog != NULL);
    dt_cuda_nccl.close(b);
    CHECK(s->gpu.watchdog == NULL);
    CHECK_EQ(fake.destroys, 2);
}

GROUP_STORY(groups_block_where_the_variable_of_nccl_says_so_and_somebody_can_end_the_process)
{
    static const struct {
        const char *wish;
        bool can_end;
        int blocks;
    } rows[] = {{NULL, true, 0}, {"", true, 0},   {"0", true, 0},
                {"1", true, 1},  {"1", false, 0}, {"2", true, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        if (rows[i].wish)
            setenv("NCCL_COMM_BLOCKING", rows[i].wish, 1);
        s->gpu.give_up = rows[i].can_end ? fake_last.give_up : NULL;
        dt_cuda_nccl.close(scene_rank(s, 2, 0));
        CHECK_EQ(fake.blocking, rows[i].blocks);
        unsetenv("NCCL_COMM_BLOCKING");
    }
}

static void check_does_not_open(struct scene *s, int rank, const char *says)
{
    struct dt_err err = {0};
    struct dt_coll_group g = scene_group(s, 2, rank);
    CHECK_FAIL(scene_open(s, &g, &err) ? 0 : -1, err, says);
    CHECK(s->gpu.watchdog == NULL);
    CHECK_NOTHING_LEFT;
}

GROUP_STORY(where_rank_0_cannot_begin_the_others_are_told_why)
{
    fake.unique_id = ncclInvalidUsage;
    fake.text = "Bootstrap : no socket interface found";
    check_does_not_open(s, 0, "making the id of a group: NCCL says \"invalid usage\" (Bootstrap");
    fake.unique_id = ncclSuccess;
    check_does_not_open(s, 1, "rank 4 could not begin: making the id of a group");
    CHECK_EQ(fake.inits, 0);
}

GROUP_STORY(an_nccl_that_is_too_old_is_refused)
{
    fake.version_is = 21806;
    check_does_not_open(s, 0, "NCCL 2.18.6 is loaded, and 2.19 or newer is needed");
    check_does_not_open(s, 1, "rank 4 could not begin: NCCL 2.18.6 is loaded");
    CHECK_EQ(fake.inits, 0);
}

GROUP_STORY(another_version_of_nccl_is_refused_by_name)
{
    struct dt_nccl *a = scene_rank(s, 2, 0);
    fake.version_is = 22703;
    struct dt_err err = {0};
    struct dt_coll_group g = scene_group(s, 2, 1);
    CHECK_FAIL(scene_open(s, &g, &err) ? 0 : -1, err,
               "rank 5 has NCCL 2.27.3 and rank 4 has NCCL 2.28.9");
    dt_cuda_nccl.close(a);
}

GROUP_STORY(ranks_that_do_not_find_each_other_say_what_to_set)
{
    struct dt_err err = {0};
    fake.init = ncclInProgress;
    fake.polls = 1 << 30;
    struct dt_coll_group g = scene_group(s, 2, 0);
    g.timeout = 30;
    CHECK_FAIL(scene_open(s, &g, &err) ? 0 : -1, err, "NCCL_SOCKET_IFNAME");
    CHECK_FAIL(-1, err, "rank 4 of group world has waited 0.03 s");
    CHECK_EQ(err.code, DT_E_TIMEOUT);
    CHECK_EQ(fake.aborts, 1);
}

GROUP_STORY(a_group_of_one_needs_no_communicator)
{
    struct dt_err err = {0};
    struct dt_nccl *n = scene_rank(s, 1, 0);
    int from[2] = {7, 8}, to[2] = {0};
    struct dt_coll_call call = {DT_ALL_GATHER, from, to, 2, DT_I32, DT_SUM, 0};
    CHECK_OK(run(n, call, &err), err);
    CHECK_EQ(to[1], 8);
    call.recv = from;
    CHECK_OK(run(n, call, &err), err);
    CHECK_OK(run(n, (struct dt_coll_call){.kind = DT_BARRIER}, &err), err);
    CHECK_STR(fake.log, "copy ");
    dt_cuda_nccl.abort(n);
    dt_cuda_nccl.close(n);
}

GROUP_STORY(a_part_is_split_off_its_parent_even_when_it_is_of_one)
{
    struct dt_err err = {0};
    struct dt_nccl *parent = scene_rank(s, 2, 0);
    struct dt_coll_group g = scene_group(s, 1, 0);
    g.parent = parent;
    g.name = "world/0.0";
    struct dt_nccl *part = scene_open(s, &g, &err);
    CHECK_OK(part ? 0 : -1, err);
    CHECK_STR(fake.log, "init split ");
    dt_cuda_nccl.close(part);
    dt_cuda_nccl.close(parent);
}

GROUP_STORY(a_part_is_split_off_behind_the_work_of_its_parent)
{
    pthread_t device;
    struct dt_err err = {0};
    struct dt_nccl *parent = scene_rank(s, 2, 0);
    fake.hang = true;
    CHECK_OK(run(parent, (struct dt_coll_call){DT_ALL_REDUCE, memory, memory, 2, DT_F32, DT_SUM, 0},
                 &err),
             err);
    CHECK_EQ(pthread_create(&device, NULL, end_work, NULL), 0);
    struct dt_coll_group g = scene_group(s, 2, 0);
    g.parent = parent;
    g.name = "world/0.0";
    struct dt_nccl *part = scene_open(s, &g, &err);
    CHECK_OK(part ? 0 : -1, err);
    pthread_join(device, NULL);
    dt_cuda_nccl.close(part);
    fake.hang = true; /* from here on for good */
    CHECK_OK(run(parent, (struct dt_coll_call){DT_ALL_REDUCE, memory, memory, 2, DT_F32, DT_SUM, 0},
                 &err),
             err);
    g.timeout = 30;
    CHECK_FAIL(scene_open(s, &g, &err) ? 0 : -1, err, "rank 4 of group world/0.0");
    CHECK_EQ(err.code, DT_E_TIMEOUT);
    dt_cuda_nccl.abort(parent);
    dt_cuda_nccl.close(parent);
}

GROUP_STORY(where_nccl_cannot_split_a_part_has_an_id_of_its_own)
{
    struct dt_err err = {0};
    struct dt_nccl_calls old = fake_copy();
    old.split = NULL;
    struct dt_coll_group g = scene_group(s, 2, 0);
    g.parent = dt_nccl_open(&old, &g, &s->meeting->table, &err);
    g.name = "world/0.0";
    struct dt_nccl *part = dt_nccl_open(&old, &g, &s->meeting->table, &err);
    CHECK_OK(part ? 0 : -1, err);
    CHECK_STR(fake.log, "init init ");
    CHECK(meeting_find(s->meeting, "coll/3/world/0.0/nccl") != NULL);
    dt_cuda_nccl.close(part);
    dt_cuda_nccl.close(g.parent);
}

/* -- collectives ------------------------------------------------------------------------------ */

struct order {
    struct dt_coll_call call;
    const char *log;
};

/* clang-format off */
static const struct order orders[] = {
    {{DT_ALL_REDUCE, memory, memory, 2, DT_F32, DT_SUM, 0}, "reduce-waits all-reduce compute-waits "},
    {{DT_ALL_REDUCE, memory, memory, 2, DT_BF16, DT_SUM, 0}, "reduce-waits all-reduce-bf16 compute-waits "},
    {{DT_REDUCE_SCATTER, memory, memory, 2, DT_F32, DT_MAX, 0}, "reduce-waits reduce-scatter compute-waits "},
    {{DT_ALL_GATHER, memory, memory, 2, DT_F32, DT_SUM, 0}, "gather-waits all-gather compute-waits "},
    {{DT_BROADCAST, NULL, memory, 2, DT_F64, DT_SUM, 1}, "reduce-waits broadcast compute-waits "},
    {{DT_ALL_TO_ALL, memory, memory + 32, 2, DT_U8, DT_SUM, 0}, "reduce-waits all-to-all compute-waits "},
    {{DT_SEND, memory, NULL, 2, DT_F32, DT_SUM, 1}, "reduce-waits ( send ) compute-waits "},
    {{DT_RECV, NULL, memory, 2, DT_U16, DT_SUM, 1}, "reduce-waits ( recv ) compute-waits "},
    {{.kind = DT_BARRIER}, "reduce-waits all-reduce compute-waits "},
    {{DT_ALL_REDUCE, NULL, NULL, 0, DT_F32, DT_SUM, 0}, ""},
};
/* clang-format on */

GROUP_STORY(a_collective_stands_between_what_was_and_what_comes)
{
    struct dt_nccl *n = scene_rank(s, 2, 0);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct dt_err err = {0};
        CHECK_ROW("kind %d, %zu", (int)orders[i].call.kind, i);
        forget_log();
        CHECK_OK(run(n, orders[i].call, &err), err);
        CHECK_STR(fake.log, orders[i].log);
    }
    CHECK_EQ(fake.events, 2); /* each used the same two */
    dt_cuda_nccl.close(n);
}

GROUP_STORY(sums_of_bf16_are_taken_in_float_where_that_is_wished)
{
    struct dt_err err = {0};
    s->gpu.wide_sums = true;
    struct dt_nccl *n = scene_rank(s, 2, 0);
    struct dt_coll_call call = {DT_REDUCE_SCATTER, memory, memory, 4, DT_BF16, DT_SUM, 0};
    forget_log();
    CHECK_OK(run(n, call, &err), err);
    CHECK_STR(fake.log, "reduce-waits to-float reduce-scatter to-bf16 compute-waits ");
    CHECK_EQ(n->wide_bytes, 2 * 4 * 4);
    call.op = DT_MAX;
    forget_log();
    CHECK_OK(run(n, call, &err), err);
    CHECK_STR(fake.log, "reduce-waits reduce-scatter-bf16 compute-waits ");
    dt_cuda_nccl.close(n);
}

GROUP_STORY(an_old_nccl_exchanges_by_sends_and_receives)
{
    struct dt_err err = {0};
    struct dt_nccl_calls old = fake_copy();
    old.all_to_all = NULL;
    struct dt_coll_group g = scene_group(s, 2, 0);
    struct dt_nccl *n = dt_nccl_open(&old, &g, &s->meeting->table, &err);
    forget_log();
    struct dt_coll_call call = {DT_ALL_TO_ALL, memory, memory + 32, 2, DT_F32, DT_SUM, 0};
    CHECK_OK(run(n, call, &err), err);
    CHECK_STR(fake.log, "reduce-waits ( send recv send recv ) compute-waits ");
    dt_cuda_nccl.close(n);
}

static void start(struct dt_nccl *n, struct dt_coll_handle *h, struct dt_coll_call call)
{
    struct dt_err err = {0};
    *h = (struct dt_coll_handle){.call = call, .sequence = 1};
    CHECK_OK(dt_cuda_nccl.start(n, h, &err), err);
}

GROUP_STORY(sends_and_receives_begin_together)
{
    struct dt_err err = {0};
    struct dt_coll_handle out, in, third;
    struct dt_nccl *n = scene_rank(s, 2, 0);
    forget_log();
    start(n, &out, (struct dt_coll_call){DT_SEND, memory, NULL, 2, DT_F32, DT_SUM, 1});
    start(n, &in, (struct dt_coll_call){DT_RECV, NULL, memory, 2, DT_F32, DT_SUM, 1});
    CHECK_OK(dt_cuda_nccl.wait(n, &in, DT_FOREVER, &err), err);
    CHECK_OK(dt_cuda_nccl.wait(n, &out, DT_FOREVER, &err), err);
    CHECK_STR(fake.log, "reduce-waits reduce-waits ( send recv ) compute-waits compute-waits ");
    forget_log();
    start(n, &out, (struct dt_coll_call){DT_SEND, memory, NULL, 2, DT_F32, DT_SUM, 1});
    start(n, &third, (struct dt_coll_call){DT_ALL_GATHER, memory, memory, 2, DT_F32, DT_SUM, 0});
    CHECK_STR(fake.log, "reduce-waits gather-waits ( send ) all-gather ");
    start(n, &in, (struct dt_coll_call){DT_RECV, NULL, memory, 2, DT_F32, DT_SUM, 1});
    dt_cuda_nccl.close(n); /* with one that never began */
}

GROUP_STORY(memory_that_a_group_lends_is_registered_when_it_is_first_used)
{
    struct dt_err err = {0};
    struct dt_nccl *n = scene_rank(s, 2, 0);
    char *one = dt_cuda_nccl.alloc(n, 64, DT_OWN, &err);
    char *two = dt_cuda_nccl.alloc(n, 64, DT_SHARED, &err);
    CHECK(one && two);
    CHECK_EQ(fake.registered, 0);
    for (int i = 0; i < 3; i++)
        CHECK_OK(
            run(n, (struct dt_coll_call){DT_ALL_GATHER, one + 8, two, 2, DT_F32, DT_SUM, 0}, &err),
            err);
    CHECK_EQ(fake.registered, 2);
    dt_cuda_nccl.release(n, one);
    CHECK_EQ(fake.registered, 1);
    dt_cuda_nccl.close(n);
}

GROUP_STORY(memory_is_taken_back_from_nccl_behind_the_work_that_uses_it)
{
    struct dt_err err = {0};
    pthread_t device;
    struct dt_nccl *n = scene_rank(s, 2, 0);
    char *one = dt_cuda_nccl.alloc(n, 64, DT_OWN, &err);
    char *two = dt_cuda_nccl.alloc(n, 64, DT_OWN, &err);
    struct dt_coll_call call = {DT_ALL_GATHER, one, two, 2, DT_F32, DT_SUM, 0};
    for (int i = 0; i < 2; i++) { /* when it is given back, and when the group ends */
        CHECK_ROW("%d", i);
        fake.hang = true;
        CHECK_OK(run(n, call, &err), err);
        CHECK_EQ(fake.registered, 2 - i);
        CHECK_EQ(pthread_create(&device, NULL, end_work, NULL), 0);
        if (i == 0)
            dt_cuda_nccl.release(n, one);
        else
            dt_cuda_nccl.close(n);
        pthread_join(device, NULL);
        call.send = two + 32;
    }
    CHECK_EQ(fake.aborts, 0);
}

GROUP_STORY(an_nccl_that_does_not_register_well_is_not_asked_to)
{
    struct dt_err err = {0};
    fake.version_is = 22403;
    struct dt_nccl *n = scene_rank(s, 2, 0);
    char *at = dt_cuda_nccl.alloc(n, 64, DT_OWN, &err);
    CHECK_OK(run(n, (struct dt_coll_call){DT_ALL_REDUCE, at, at, 2, DT_F32, DT_SUM, 0}, &err), err);
    CHECK_EQ(fake.registered, 0);
    dt_cuda_nccl.close(n);
}

GROUP_STORY(windows_are_made_before_the_first_call_and_taken_back_before_their_memory)
{
    struct dt_err err = {0};
    setenv("DTRUN_NCCL_WINDOWS", "1", 1);
    struct dt_nccl *n = scene_rank(s, 2, 0);
    char *one = dt_cuda_nccl.alloc(n, 64, DT_OWN, &err);
    char *two = dt_cuda_nccl.alloc(n, 64, DT_OWN, &err);
    CHECK_EQ(fake.lent, 2);
    CHECK(dt_cuda_nccl.lends_better(n)); /* parameters come from there too */
    CHECK_EQ(one[63], 0);
    forget_log();
    for (int i = 0; i < 2; i++)
        CHECK_OK(
            run(n, (struct dt_coll_call){DT_ALL_GATHER, one + 8, two, 2, DT_F32, DT_SUM, 0}, &err),
            err);
    CHECK_STR(fake.log, "gather-waits window window all-gather compute-waits "
                        "gather-waits all-gather compute-waits ");
    CHECK_EQ(fake.registered, 0);
    dt_cuda_nccl.release(n, one);
    CHECK_EQ(fake.lent, 1);
    CHECK_EQ(fake.windows, 1);
    dt_cuda_nccl.close(n);
    unsetenv("DTRUN_NCCL_WINDOWS");
}

GROUP_STORY(a_window_that_cannot_be_made_is_an_error)
{
    struct dt_err err = {0};
    setenv("DTRUN_NCCL_WINDOWS", "1", 1);
    struct dt_nccl *n = scene_rank(s, 2, 0);
    fake.mem_alloc = ncclUnhandledCudaError;
    CHECK_FAIL(dt_cuda_nccl.alloc(n, 64, DT_OWN, &err) ? 0 : -1, err,
               "memory for collective buffers: NCCL says");
    fake.mem_alloc = ncclSuccess;
    char *at = dt_cuda_nccl.alloc(n, 64, DT_OWN, &err);
    fake.window = ncclInvalidArgument;
    CHECK_FAIL(run(n, (struct dt_coll_call){DT_ALL_REDUCE, at, at, 2, DT_F32, DT_SUM, 0}, &err),
               err, "making a buffer known: NCCL says");
    dt_cuda_nccl.close(n);
    unsetenv("DTRUN_NCCL_WINDOWS");
}

GROUP_STORY(an_nccl_without_windows_lends_what_it_lent_before)
{
    struct dt_err err = {0};
    struct dt_nccl_calls calls = fake_copy();
    struct dt_coll_group g = scene_group(s, 2, 0);
    calls.window = NULL;
    setenv("DTRUN_NCCL_WINDOWS", "1", 1);
    struct dt_nccl *n = dt_nccl_open(&calls, &g, &s->meeting->table, &err);
    CHECK_OK(n ? 0 : -1, err);
    char *at = dt_cuda_nccl.alloc(n, 64, DT_OWN, &err);
    CHECK_OK(run(n, (struct dt_coll_call){DT_ALL_REDUCE, at, at, 2, DT_F32, DT_SUM, 0}, &err), err);
    CHECK_EQ(fake.lent, 0);
    CHECK(!dt_cuda_nccl.lends_better(n));
    CHECK_EQ(fake.registered, 1);
    dt_cuda_nccl.close(n);
    unsetenv("DTRUN_NCCL_WINDOWS");
}

GROUP_STORY(a_wish_for_windows_that_is_neither_1_nor_0_is_refused)
{
    static const struct {
        const char *wish;
        bool taken, windows;
    } rows[] = {{"1", true, true},     {"0", true, false},     {"", true, false},
                {"yes", false, false}, {"true", false, false}, {"01", false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        struct dt_coll_group g = scene_group(s, 2, 0);
        CHECK_ROW("DTRUN_NCCL_WINDOWS=%s", rows[i].wish);
        setenv("DTRUN_NCCL_WINDOWS", rows[i].wish, 1);
        struct dt_nccl *n = dt_nccl_open(fake_calls(), &g, &s->meeting->table, &err);
        unsetenv("DTRUN_NCCL_WINDOWS");
        if (rows[i].taken) {
            CHECK_OK(n ? 0 : -1, err);
            CHECK_EQ(dt_cuda_nccl.lends_better(n), rows[i].windows);
        } else {
            CHECK_FAIL(n ? 0 : -1, err, "DTRUN_NCCL_WINDOWS in the environment is \"");
            CHECK_EQ(err.code, DT_E_USAGE);
        }
        dt_cuda_nccl.close(n);
    }
}

GROUP_STORY(a_call_that_cuda_refuses_leaves_nothing)
{
    struct dt_err err = {0};
    struct dt_nccl *n = scene_rank(s, 2, 0);
    fake.event_record = cudaErrorLaunchFailure;
    struct dt_coll_call call = {DT_ALL_REDUCE, memory, memory, 2, DT_F32, DT_SUM, 0};
    CHECK_FAIL(run(n, call, &err), err, "CUDA error 719");
    dt_cuda_nccl.close(n);
}

/* -- failing ---------------------------------------------------------------------------------- */

GROUP_STORY(a_barrier_that_nobody_comes_to_ends_by_the_watchdog_and_says_why)
{
    struct dt_err err = {0};
    struct dt_nccl *n = scene_rank(s, 2, 0);
    fake.hang = true;
    struct dt_coll_handle h;
    start(n, &h, (struct dt_coll_call){.kind = DT_BARRIER});
    fake.async = ncclRemoteError;
    CHECK_FAIL(dt_cuda_nccl.wait(n, &h, DT_FOREVER, &err), err, "another rank ended");
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
    CHECK_STR(fake.lost.text, err.text);
    dt_cuda_nccl.close(n);
    CHECK_EQ(fake.aborts, 1);
}

GROUP_STORY(a_barrier_that_takes_too_long_ends_at_its_deadline)
{
    struct dt_err err = {0};
    struct dt_nccl *n = scene_rank(s, 2, 0);
    fake.hang = true;
    struct dt_coll_handle h;
    start(n, &h, (struct dt_coll_call){.kind = DT_BARRIER});
    dt_ms soon = dt_clock_after(dt_clock_monotonic(), 20);
    CHECK_EQ(dt_cuda_nccl.wait(n, &h, soon, &err), -1);
    CHECK_EQ(err.code, DT_E_TIMEOUT);
    dt_cuda_nccl.abort(n);
    dt_cuda_nccl.close(n);
    CHECK_EQ(fake.aborts, 1);
}

GROUP_STORY(after_an_abort_a_new_epoch_begins_from_nothing)
{
    for (int epoch = 0; epoch < 3; epoch++) {
        struct dt_err err = {0};
        struct dt_coll_group g = scene_group(s, 2, 0);
        struct dt_coll_call call = {DT_ALL_REDUCE, NULL, NULL, 2, DT_F32, DT_SUM, 0};
        CHECK_ROW("epoch %d", epoch);
        g.epoch = epoch;
        struct dt_nccl *n = scene_open(s, &g, &err);
        CHECK_OK(n ? 0 : -1, err);
        call.send = call.recv = dt_cuda_nccl.alloc(n, 64, DT_OWN, &err);
        CHECK_OK(run(n, call, &err), err);
        fake.hang = true;
        CHECK_OK(run(n, call, &err), err); /* nothing waits for it but the device */
        dt_cuda_nccl.abort(n);
        dt_cuda_nccl.abort(n);
        CHECK_FAIL(run(n, call, &err), err, "this rank has aborted its group");
        fake.registered = 0; /* NCCL forgets with the communicator */
        dt_cuda_nccl.close(n);
        CHECK_EQ(fake.aborts, epoch + 1);
        CHECK_NOTHING_LEFT;
        CHECK(s->gpu.watchdog == NULL);
    }
}
