/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's profiler plugin under many threads, for ThreadSanitizer: communicators that come and go,
 * one that two threads use, and the proxy thread that tells of a GPU's ends. */
#include "tests/runtime/nccl_page.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 20, CALLS = 200 };

static const struct profiled_call call = {
    .function = "AllGather", .datatype = "ncclFloat16", .count = 64, .channels = 2};

static void *come_and_go(void *arg)
{
    struct profiled_nccl mine = *(struct profiled_nccl *)arg;
    for (int round = 0; round < ROUNDS; round++) {
        struct profiled_comm c = {.name = "passing", .hash = 7, .rank = 1, .ranks = 2};
        profiled_comm_open(&mine, &c);
        for (int i = 0; i < CALLS; i++) {
            struct profiled_work work = profiled_comm_collective(&c, &call);
            profiled_comm_exchange(&c, &call);
            profiled_comm_gpu_ends(&c, &work, 2);
        }
        profiled_comm_close(&c);
    }
    return NULL;
}

static void *use_shared(void *arg)
{
    for (int i = 0; i < CALLS * ROUNDS; i++) {
        struct profiled_work work = profiled_comm_collective(arg, &call);
        profiled_comm_gpu_ends(arg, &work, 2);
    }
    return NULL;
}

static void *read_on(void *arg)
{
    for (int i = 0; i < CALLS * ROUNDS; i++) {
        struct dt_comms_told told = nccl_page_read(arg);
        char words[DT_COMM_WORDS];
        if (told.count < 1 || told.count > THREADS + 1)
            return arg;
        dt_comm_describe(&told.at[told.count - 1], words);
    }
    return NULL;
}

TEST(no_call_is_lost_and_none_is_counted_twice)
{
    setenv("DTRUN_NCCL_EVENTS", "kernels", 1);
    for (int version = 4; version <= PROFILED_NCCL_VERSIONS; version++) {
        CHECK_ROW("interface %d", version);
        struct nccl_page p = nccl_page_up();
        struct profiled_nccl n;
        nccl_up(&n, version);
        struct profiled_comm shared = {.name = "shared", .hash = 9, .rank = 0, .ranks = 4};
        profiled_comm_open(&n, &shared);
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL,
                                    i == 0  ? read_on
                                    : i < 3 ? use_shared
                                            : come_and_go,
                                    i == 0  ? (void *)&p
                                    : i < 3 ? (void *)&shared
                                            : (void *)&n),
                     0);
        void *saw = NULL;
        CHECK_EQ(pthread_join(threads[0], &saw), 0);
        for (int i = 1; i < THREADS; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        CHECK(saw == NULL);
        struct dt_comms_told told = nccl_page_read(&p);
        CHECK_EQ(told.count, 1);
        CHECK_EQ(told.at[0].entered, 2 * CALLS * ROUNDS);
        CHECK_EQ(told.at[0].ended, 2 * CALLS * ROUNDS);
        CHECK_EQ(told.left_out, 0);
        profiled_comm_close(&shared);
        profiled_nccl_close(&n);
        nccl_page_down(&p);
    }
}
