/* SPDX-License-Identifier: Apache-2.0 */
/* The mock NCCL, between processes: what its calls give, and what a dead peer does to others. */
#include <nccl.h>
#include <sys/wait.h>

#include "tests/lib/check.h"

enum { RANKS = 3, COUNT = 50001 }; /* more than a pipe between two ranks holds */

/* Runs FN as each of RANKS processes, which meet by one id; all must end well. */
static void on_ranks(void (*fn)(ncclUniqueId id, int rank))
{
    ncclUniqueId id;
    pid_t child[RANKS];
    CHECK_EQ(ncclGetUniqueId(&id), ncclSuccess);
    fflush(stdout);
    for (int r = 0; r < RANKS; r++) {
        child[r] = fork();
        CHECK(child[r] >= 0);
        if (child[r] == 0) {
            check_the.running = false; /* a failed check ends this process */
            fn(id, r);
            _exit(0);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        int status;
        CHECK_ROW("rank %d", r);
        CHECK_EQ(waitpid(child[r], &status, 0), child[r]);
        CHECK_EQ(status, 0);
    }
}

static void *device(size_t bytes)
{
    void *at = NULL;
    CHECK_EQ(cudaMalloc(&at, bytes), cudaSuccess);
    return at;
}

/* Element I of what rank R has. */
static float number(int r, size_t i)
{
    return (float)((i * 7 + (size_t)r * 13) % 101);
}

static float *filled(int r, size_t n)
{
    float *x = malloc(n * sizeof *x), *at = device(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = number(r, i);
    CHECK_EQ(cudaMemcpy(at, x, n * sizeof *x, cudaMemcpyHostToDevice), cudaSuccess);
    free(x);
    return at;
}

static float *back(const float *at, size_t n)
{
    float *x = malloc(n * sizeof *x);
    CHECK_EQ(cudaStreamSynchronize(NULL), cudaSuccess);
    CHECK_EQ(cudaMemcpy(x, at, n * sizeof *x, cudaMemcpyDeviceToHost), cudaSuccess);
    return x;
}

static float sum_of(size_t i)
{
    float sum = 0;
    for (int r = 0; r < RANKS; r++)
        sum += number(r, i);
    return sum;
}

static ncclComm_t blocking(ncclUniqueId id, int rank)
{
    ncclComm_t c;
    CHECK_EQ(ncclCommInitRank(&c, RANKS, id, rank), ncclSuccess);
    return c;
}

static void sums(ncclUniqueId id, int rank)
{
    ncclComm_t c = blocking(id, rank);
    float *x = filled(rank, RANKS * COUNT);
    CHECK_EQ(ncclReduceScatter(x, x + rank * COUNT, COUNT, ncclFloat32, ncclSum, c, NULL),
             ncclSuccess);
    float *part = back(x + rank * COUNT, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(part[i] == sum_of((size_t)rank * COUNT + i));
    CHECK_EQ(ncclAllGather(x + rank * COUNT, x, COUNT, ncclFloat32, c, NULL), ncclSuccess);
    float *all = back(x, RANKS * COUNT);
    for (size_t i = 0; i < RANKS * COUNT; i++)
        CHECK(all[i] == sum_of(i));
    float *y = filled(rank, COUNT);
    CHECK_EQ(ncclAllReduce(y, y, COUNT, ncclFloat32, ncclMax, c, NULL), ncclSuccess);
    float *most = back(y, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        for (int r = 0; r < RANKS; r++)
            CHECK(most[i] >= number(r, i));
    CHECK_EQ(ncclCommFinalize(c), ncclSuccess);
    CHECK_EQ(ncclCommDestroy(c), ncclSuccess);
}

TEST(parts_are_reduced_scattered_and_gathered)
{
    on_ranks(sums);
}

static void messages(ncclUniqueId id, int rank)
{
    ncclComm_t c = blocking(id, rank);
    float *x = filled(rank, RANKS * COUNT), *to = device(RANKS * COUNT * 4);
    CHECK_EQ(ncclAlltoAll(x, to, COUNT, ncclFloat32, c, NULL), ncclSuccess);
    float *got = back(to, RANKS * COUNT);
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < COUNT; i++)
            CHECK(got[(size_t)r * COUNT + i] == number(r, (size_t)rank * COUNT + i));
    /* Around the ring, all at once: alone, each would wait for the next. */
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclSend(x, COUNT, ncclFloat32, (rank + 1) % RANKS, c, NULL), ncclSuccess);
    CHECK_EQ(ncclRecv(to, COUNT, ncclFloat32, (rank + RANKS - 1) % RANKS, c, NULL), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    got = back(to, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(got[i] == number((rank + RANKS - 1) % RANKS, i));
    CHECK_EQ(ncclBroadcast(x, to, COUNT, ncclFloat32, 1, c, NULL), ncclSuccess);
    got = back(to, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(got[i] == number(1, i));
    CHECK_EQ(ncclCommDestroy(c), ncclSuccess);
}

TEST(messages_go_where_they_should)
{
    on_ranks(messages);
}

static void until_ready(ncclComm_t c)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress)
        CHECK_EQ(ncclCommGetAsyncError(c, &state), ncclSuccess);
    CHECK_EQ(state, ncclSuccess);
}

/* Ranks 2 and 0, in this order, and rank 1 alone. */
static void parts(ncclUniqueId id, int rank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t c, part;
    CHECK_EQ(ncclCommInitRankConfig(&c, RANKS, id, rank, &config), ncclInProgress);
    until_ready(c);
    CHECK_EQ(ncclCommSplit(c, rank % 2, -rank, &part, &config), ncclInProgress);
    until_ready(part);
    int own, size;
    CHECK_EQ(ncclCommUserRank(part, &own), ncclSuccess);
    CHECK_EQ(ncclCommCount(part, &size), ncclSuccess);
    CHECK_EQ(size, rank == 1 ? 1 : 2);
    CHECK_EQ(own, rank == 0 ? 1 : 0);
    float *x = filled(rank, COUNT), *to = device(2 * COUNT * 4);
    CHECK_EQ(ncclAllGather(x, to, COUNT, ncclFloat32, part, NULL), ncclSuccess);
    float *got = back(to, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(got[i] == number(rank == 1 ? 1 : 2, i));
    CHECK_EQ(ncclCommDestroy(part), ncclSuccess);
    CHECK_EQ(ncclCommDestroy(c), ncclSuccess);
}

TEST(groups_are_split_by_colour_and_key)
{
    on_ranks(parts);
}

/* What was put behind a collective that cannot end is not done, until the group is aborted. */
static void one_dies(ncclUniqueId id, int rank)
{
    ncclComm_t c = blocking(id, rank);
    if (rank == 2)
        _exit(0);
    float *x = filled(rank, COUNT);
    cudaEvent_t behind;
    CHECK_EQ(cudaEventCreate(&behind), cudaSuccess);
    CHECK_EQ(ncclAllReduce(x, x, COUNT, ncclFloat32, ncclSum, c, NULL), ncclSuccess);
    CHECK_EQ(cudaEventRecord(behind, NULL), cudaSuccess);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(cudaEventQuery(behind), cudaErrorNotReady);
    CHECK_EQ(ncclCommAbort(c), ncclSuccess);
    CHECK_EQ(cudaEventSynchronize(behind), cudaSuccess);
}

TEST(a_dead_peer_leaves_others_waiting_until_they_abort)
{
    on_ranks(one_dies);
}

static void host_memory(ncclUniqueId id, int rank)
{
    ncclComm_t c = blocking(id, rank);
    float here[4] = {0}, *there = device(16);
    CHECK_EQ(ncclAllReduce(here, there, 4, ncclFloat32, ncclSum, c, NULL), ncclInvalidArgument);
    CHECK_EQ(ncclAllReduce(there, there, 5, ncclFloat32, ncclSum, c, NULL), ncclInvalidArgument);
    CHECK(strstr(ncclGetLastError(c), "memory of the device") != NULL);
    CHECK_EQ(ncclCommDestroy(c), ncclSuccess);
}

TEST(buffers_must_be_the_devices)
{
    on_ranks(host_memory);
}
