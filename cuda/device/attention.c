/* SPDX-License-Identifier: Apache-2.0 */
/* What cuDNN's attention stands on, of a GPU. */
#include "cuda/device/attention.h"

#include "cuda/cudnn/attention.h"
#include "cuda/kernels/kernels.h"
#include "cuda/memory/memory.h"

#include <stdio.h>

static cudaError_t forward(const struct dt_attention *a, void *out, struct dt_stream *s)
{
    return dt_cuda_attention_forward(DT_BF16, a, out, s);
}

static cudaError_t backward(const struct dt_attention *a, void *dq, void *dk, void *dv,
                            const void *out, const void *dout, struct dt_stream *s)
{
    return dt_cuda_attention_backward(DT_BF16, a, dq, dk, dv, out, dout, s);
}

static void *take(void *arg, size_t bytes, struct dt_err *err)
{
    struct dt_cuda *c = arg;
    return dt_cuda_memory_alloc(c->memory, bytes, "workspace of cuDNN", err);
}

static cudaError_t fetch(struct dt_stream *s, void *host, const void *at, size_t bytes)
{
    cudaError_t e = cudaMemcpyAsync(host, at, bytes, cudaMemcpyDeviceToHost, s->compute);
    return e == cudaSuccess ? cudaStreamSynchronize(s->compute) : e;
}

static bool is_recording(struct dt_stream *s)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(s->compute, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
}

static void say(void *arg, const char *line)
{
    const struct dt_cuda *c = arg;
    if (c->say)
        c->say(c->say_arg, line);
}

void dt_cuda_open_attention(struct dt_cuda *c, const struct dt_device_wish *w)
{
    struct dt_cudnn_under under = {.forward = forward,
                                   .backward = backward,
                                   .take = take,
                                   .fetch = fetch,
                                   .is_recording = is_recording,
                                   .say = say,
                                   .arg = c};
    struct dt_err err = {0};
    char line[700];
    if (!w->cudnn)
        return;
    if (w->elem != DT_BF16)
        dt_err_set(&err, DT_E_RUNTIME, "it computes in bfloat16, and this run does not");
    else if ((under.calls = dt_cudnn_load(&err)))
        c->stream.attention = dt_cudnn_attention_open(&under, &c->stream, &err);
    if (c->stream.attention)
        return;
    snprintf(line, sizeof line,
             "train.attention \"cudnn\": attention is computed by dtrun's own kernels: %s",
             err.text);
    say(c, line);
}
