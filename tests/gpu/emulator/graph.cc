/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA graphs of the mock GPU: a list of work, done again in the order it was recorded in. */
#include "tests/gpu/emulator/stream.h"

using namespace dt_emulator;

struct CUgraph_st {
    std::vector<work> all;
};

struct CUgraphExec_st {
    std::vector<work> all;
};

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode)
{
    return begin_recording(s);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    *status = is_recording(s) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
    std::vector<work> all;
    *graph = nullptr;
    cudaError_t e = end_recording(s, &all);
    if (e == cudaSuccess)
        *graph = new CUgraph_st{std::move(all)};
    return e;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    *exec = new CUgraphExec_st{graph->all};
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    for (const work &each : exec->all)
        put(s, each);
    return cudaSuccess;
}

} /* extern "C" */
