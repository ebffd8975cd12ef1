/* SPDX-License-Identifier: Apache-2.0 */
/* The mock GPU's runtime calls: order of streams, events, memory that runs out. */
#include "tests/gpu/emulator/samples.h"
#include "tests/lib/check.h"

static cudaStream_t stream(void)
{
    cudaStream_t s;
    CHECK_EQ(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
    return s;
}

static cudaEvent_t event(void)
{
    cudaEvent_t e;
    CHECK_EQ(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), cudaSuccess);
    return e;
}

/* One stream sets a number, another takes it to the host, waiting for the first or not. */
static int handed_over(bool wait)
{
    cudaStream_t a = stream(), b = stream();
    cudaEvent_t set = event();
    int *at, *pinned;
    CHECK_EQ(cudaMalloc((void **)&at, sizeof *at), cudaSuccess);
    CHECK_EQ(cudaMallocHost((void **)&pinned, sizeof *pinned), cudaSuccess);
    CHECK_EQ(cudaMemset(at, 0, sizeof *at), cudaSuccess);
    CHECK_EQ(cudaMemsetAsync(at, 1, sizeof *at, a), cudaSuccess);
    CHECK_EQ(cudaEventRecord(set, a), cudaSuccess);
    if (wait)
        CHECK_EQ(cudaStreamWaitEvent(b, set, 0), cudaSuccess);
    CHECK_EQ(cudaMemcpyAsync(pinned, at, sizeof *at, cudaMemcpyDeviceToHost, b), cudaSuccess);
    CHECK_EQ(cudaStreamSynchronize(b), cudaSuccess);
    int got = *pinned;
    CHECK_EQ(cudaFree(at), cudaSuccess);
    CHECK_EQ(cudaFreeHost(pinned), cudaSuccess);
    CHECK_EQ(cudaEventDestroy(set), cudaSuccess);
    CHECK_EQ(cudaStreamDestroy(a), cudaSuccess);
    CHECK_EQ(cudaStreamDestroy(b), cudaSuccess);
    return got;
}

TEST(streams_wait_for_each_others_events)
{
    CHECK_EQ(handed_over(true), 0x01010101);
    setenv("DT_EMULATOR_LAZY", "60000", 1);
    CHECK_EQ(handed_over(true), 0x01010101);
}

TEST(a_missing_wait_shows_when_work_is_put_off)
{
    setenv("DT_EMULATOR_LAZY", "60000", 1);
    CHECK_EQ(handed_over(false), 0);
    unsetenv("DT_EMULATOR_LAZY");
}

TEST(pageable_memory_may_change_after_the_call_and_pinned_may_not)
{
    int pageable = 1, got, *pinned, *at;
    setenv("DT_EMULATOR_LAZY", "60000", 1);
    cudaStream_t s = stream();
    CHECK_EQ(cudaMalloc((void **)&at, 4), cudaSuccess);
    CHECK_EQ(cudaMallocHost((void **)&pinned, 4), cudaSuccess);
    *pinned = 1;
    CHECK_EQ(cudaMemcpyAsync(at, &pageable, 4, cudaMemcpyHostToDevice, s), cudaSuccess);
    pageable = 2;
    CHECK_EQ(cudaMemcpyAsync(&got, at, 4, cudaMemcpyDeviceToHost, s), cudaSuccess);
    CHECK_EQ(got, 1);
    CHECK_EQ(cudaMemcpyAsync(at, pinned, 4, cudaMemcpyHostToDevice, s), cudaSuccess);
    *pinned = 2;
    CHECK_EQ(cudaMemcpyAsync(&got, at, 4, cudaMemcpyDeviceToHost, s), cudaSuccess);
    CHECK_EQ(got, 2);
    unsetenv("DT_EMULATOR_LAZY");
    CHECK_EQ(cudaFree(at), cudaSuccess);
    CHECK_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(work_that_was_put_off_is_done_at_some_time)
{
    setenv("DT_EMULATOR_LAZY", "5", 1);
    cudaStream_t s = stream();
    volatile int *pinned;
    CHECK_EQ(cudaMallocHost((void **)&pinned, 4), cudaSuccess);
    int *at;
    CHECK_EQ(cudaMalloc((void **)&at, 4), cudaSuccess);
    *pinned = 0;
    CHECK_EQ(cudaMemsetAsync(at, 1, 4, s), cudaSuccess);
    CHECK_EQ(cudaMemcpyAsync((int *)pinned, at, 4, cudaMemcpyDeviceToHost, s), cudaSuccess);
    while (*pinned == 0)
        ;
    CHECK_EQ(*pinned, 0x01010101);
    unsetenv("DT_EMULATOR_LAZY");
}

TEST(memory_runs_out_and_comes_back)
{
    void *a, *b;
    size_t left, all;
    setenv("DT_EMULATOR_MEMORY", "1000000", 1);
    CHECK_EQ(cudaMemGetInfo(&left, &all), cudaSuccess);
    CHECK_EQ(all, 1000000);
    size_t most = left;
    CHECK_EQ(cudaMalloc(&a, most - 99), cudaSuccess);
    CHECK_EQ(cudaMalloc(&b, 100), cudaErrorMemoryAllocation);
    CHECK_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK_EQ(cudaGetLastError(), cudaSuccess);
    CHECK_EQ(cudaFree(a), cudaSuccess);
    CHECK_EQ(cudaFree(a), cudaErrorInvalidValue);
    CHECK_EQ(cudaMemGetInfo(&left, &all), cudaSuccess);
    CHECK_EQ(left, most);
    unsetenv("DT_EMULATOR_MEMORY");
}

TEST(copies_stay_within_their_allocations)
{
    char *at, here[200] = {0};
    CHECK_EQ(cudaMalloc((void **)&at, 100), cudaSuccess);
    CHECK_EQ(cudaMemcpy(at, here, 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    CHECK_EQ(cudaMemcpy(at + 1, here, 99, cudaMemcpyHostToDevice), cudaSuccess);
    CHECK_EQ(cudaMemcpy(at, here, 10, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    CHECK_EQ(cudaMemcpy(here, here + 100, 10, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
    CHECK_EQ(cudaMemset(here, 0, 10), cudaErrorInvalidValue);
    CHECK_EQ(cudaFree(at), cudaSuccess);
}

TEST(launches_that_no_gpu_takes_are_refused)
{
    float *x;
    CHECK_EQ(cudaMalloc((void **)&x, 4), cudaSuccess);
    CHECK_EQ(sample_axpy(0, x, 1, x, x, NULL), cudaErrorInvalidConfiguration);
    CHECK_EQ(cudaFree(x), cudaSuccess);
}

/* *AT += 1, as a float */
static void add_one(float *at, const float *one, cudaStream_t s)
{
    CHECK_EQ(sample_axpy(1, at, 1, at, one, s), cudaSuccess);
}

static int value(const float *at, cudaStream_t s)
{
    float got;
    CHECK_EQ(cudaMemcpyAsync(&got, at, sizeof got, cudaMemcpyDeviceToHost, s), cudaSuccess);
    return (int)got;
}

TEST(a_graph_is_done_when_it_is_launched_and_as_often)
{
    cudaStream_t s = stream();
    float *at, *one, number = 1;
    cudaGraph_t graph;
    cudaGraphExec_t twice;
    CHECK_EQ(cudaMalloc((void **)&at, 4), cudaSuccess);
    CHECK_EQ(cudaMalloc((void **)&one, 4), cudaSuccess);
    CHECK_EQ(cudaMemcpy(one, &number, 4, cudaMemcpyHostToDevice), cudaSuccess);
    CHECK_EQ(cudaMemset(at, 0, 4), cudaSuccess);
    CHECK_EQ(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    add_one(at, one, s);
    add_one(at, one, s);
    CHECK_EQ(cudaStreamEndCapture(s, &graph), cudaSuccess);
    CHECK_EQ(value(at, s), 0);
    CHECK_EQ(cudaGraphInstantiate(&twice, graph, 0), cudaSuccess);
    CHECK_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (int i = 1; i < 4; i++) {
        CHECK_EQ(cudaGraphLaunch(twice, s), cudaSuccess);
        CHECK_EQ(value(at, s), 2 * i);
    }
    CHECK_EQ(cudaGraphExecDestroy(twice), cudaSuccess);
    CHECK_EQ(cudaFree(at), cudaSuccess);
    CHECK_EQ(cudaFree(one), cudaSuccess);
    CHECK_EQ(cudaStreamDestroy(s), cudaSuccess);
}

static cudaError_t sync_of(cudaStream_t s)
{
    return cudaStreamSynchronize(s);
}

static cudaError_t query_of(cudaStream_t s)
{
    return cudaStreamQuery(s);
}

static cudaError_t record_on(cudaStream_t s)
{
    cudaEvent_t e = event();
    cudaError_t result = cudaEventRecord(e, s);
    CHECK_EQ(cudaEventDestroy(e), cudaSuccess);
    return result;
}

static cudaError_t allocate(cudaStream_t s)
{
    void *at;
    (void)s;
    return cudaMalloc(&at, 4);
}

static cudaError_t from_pageable(cudaStream_t s)
{
    static void *at;
    int number = 1;
    if (!s)
        return cudaMalloc(&at, 4);
    return cudaMemcpyAsync(at, &number, 4, cudaMemcpyHostToDevice, s);
}

TEST(what_cannot_be_recorded_spoils_the_recording)
{
    cudaError_t (*const all[])(cudaStream_t) = {sync_of, query_of, record_on, allocate,
                                                from_pageable};
    cudaStream_t s = stream();
    float *at;
    CHECK_EQ(from_pageable(NULL), cudaSuccess);
    CHECK_EQ(cudaMalloc((void **)&at, 4), cudaSuccess);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cudaGraph_t graph;
        CHECK_ROW("%zu", i);
        CHECK_EQ(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        CHECK_EQ(all[i](s), cudaErrorStreamCaptureUnsupported);
        CHECK_EQ(sample_axpy(1, at, 1, at, at, s), cudaErrorStreamCaptureInvalidated);
        CHECK_EQ(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
        CHECK(graph == NULL);
        CHECK_EQ(cudaStreamSynchronize(s), cudaSuccess);
    }
    CHECK_EQ(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeThreadLocal),
             cudaErrorStreamCaptureUnsupported);
    CHECK_EQ(cudaFree(at), cudaSuccess);
    CHECK_EQ(cudaStreamDestroy(s), cudaSuccess);
}

TEST(there_may_be_no_device)
{
    int n;
    setenv("DT_EMULATOR_DEVICES", "0", 1);
    CHECK_EQ(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    CHECK_EQ(cudaSetDevice(0), cudaErrorNoDevice);
    setenv("DT_EMULATOR_DEVICES", "3", 1);
    CHECK_EQ(cudaGetDeviceCount(&n), cudaSuccess);
    CHECK_EQ(n, 3);
    CHECK_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
    unsetenv("DT_EMULATOR_DEVICES");
}
