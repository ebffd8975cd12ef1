/* SPDX-License-Identifier: Apache-2.0 */
/* A device as attention by cuDNN sees it: its memory is the host's, our kernels and a fake cuDNN
 * fill each result with one number, which a test says. */
#ifndef DT_TESTS_GPU_CUDNN_STORY_H
#define DT_TESTS_GPU_CUDNN_STORY_H

#include "tests/gpu/fake_cudnn.h"

#include <math.h>

enum { BATCH = 2, POSITIONS = 4, HEADS = 4, KV_HEADS = 2, DIM = 8, ROWS = BATCH * POSITIONS };

enum { Q_WIDTH = HEADS * DIM, KV_WIDTH = KV_HEADS * DIM };

/* A device, and what its attention was asked for. */
static struct world {
    struct dt_stream s;
    struct dt_cudnn_attention *c;
    bool recording;
    size_t most; /* bytes that the device has left */
    void *blocks[8];
    int taken;
    int own; /* calls of our kernels */
    int lines;
    char line[700];
    _Alignas(16) uint16_t q[ROWS * Q_WIDTH], k[ROWS * KV_WIDTH], v[ROWS * KV_WIDTH];
    _Alignas(16) uint16_t out[ROWS * Q_WIDTH], dout[ROWS * Q_WIDTH];
    _Alignas(16) uint16_t dq[ROWS * Q_WIDTH], dk[ROWS * KV_WIDTH], dv[ROWS * KV_WIDTH];
    _Alignas(16) float logsum[BATCH * HEADS * POSITIONS];
    _Alignas(16) int32_t documents[ROWS];
    struct dt_attention a;
} w;

static void fill(uint16_t *x, size_t n, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (size_t i = 0; i < n; i++)
        x[i] = (uint16_t)(bits >> 16);
}

static void fill_float(float *x, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value;
}

/* What our kernels give; and cuDNN's, times a factor. */
static float ours, theirs;

static cudaError_t own_forward(const struct dt_attention *a, void *out, struct dt_stream *s)
{
    (void)s;
    w.own++;
    fill(out, ROWS * Q_WIDTH, ours);
    fill_float(a->logsum, BATCH * HEADS * POSITIONS, ours);
    return cudaSuccess;
}

static cudaError_t own_backward(const struct dt_attention *a, void *dq, void *dk, void *dv,
                                const void *out, const void *dout, struct dt_stream *s)
{
    (void)a, (void)s;
    CHECK(out == w.out && dout == w.dout);
    w.own++;
    fill(dq, ROWS * Q_WIDTH, ours);
    fill(dk, ROWS * KV_WIDTH, ours);
    fill(dv, ROWS * KV_WIDTH, ours);
    return cudaSuccess;
}

static bool has(int count, const int64_t *ids, enum dt_cudnn_role role)
{
    for (int i = 0; i < count; i++)
        if (ids[i] == role)
            return true;
    return false;
}

/* To a window, or to documents. */
static bool is_limited(int count, const int64_t *ids)
{
    return has(count, ids, DT_CUDNN_WINDOW) || has(count, ids, DT_CUDNN_DOCUMENTS);
}

static void give(int count, const int64_t *ids, void *const *at)
{
    bool back = has(count, ids, DT_CUDNN_DQ);
    CHECK_EQ(has(count, ids, DT_CUDNN_WINDOW), w.a.window > 0 && w.a.window < POSITIONS);
    CHECK_EQ(has(count, ids, DT_CUDNN_DOCUMENTS), w.a.documents != NULL);
    for (int i = 0; i < count; i++) {
        if (ids[i] == DT_CUDNN_OUT && !back)
            fill(at[i], ROWS * Q_WIDTH, theirs);
        if (ids[i] == DT_CUDNN_STATS && !back)
            fill_float(at[i], BATCH * HEADS * POSITIONS, theirs);
        if (ids[i] == DT_CUDNN_DQ)
            fill(at[i], ROWS * Q_WIDTH, theirs);
        if (ids[i] == DT_CUDNN_DK || ids[i] == DT_CUDNN_DV)
            fill(at[i], ROWS * KV_WIDTH, theirs);
        if (ids[i] == DT_CUDNN_SCALE)
            CHECK(fabsf(*(float *)at[i] - 1 / sqrtf(DIM)) < 1e-6f);
        if (ids[i] == DT_CUDNN_MASKED)
            CHECK(*(float *)at[i] == (is_limited(count, ids) ? -1e30f : -INFINITY));
        if (ids[i] == DT_CUDNN_WINDOW)
            CHECK_EQ(*(int32_t *)at[i], (int32_t)w.a.window);
        if (ids[i] == DT_CUDNN_DOCUMENTS)
            CHECK(at[i] == w.documents);
        /* Room that cuDNN writes to is the workspace's. */
        if (ids[i] == DT_CUDNN_AVERAGE || ids[i] == DT_CUDNN_DQ_SUM)
            CHECK((char *)at[i] < (char *)fake.workspace_at);
    }
}

static void *take(void *arg, size_t bytes, struct dt_err *err)
{
    (void)arg;
    CHECK(!w.recording);
    if (bytes > w.most) {
        dt_err_set(err, DT_E_MEMORY, "the GPU is full");
        return NULL;
    }
    return w.blocks[w.taken++] = malloc(bytes);
}

static cudaError_t fetch(struct dt_stream *s, void *host, const void *at, size_t bytes)
{
    (void)s;
    CHECK(!w.recording);
    memcpy(host, at, bytes);
    return cudaSuccess;
}

static bool is_recording(struct dt_stream *s)
{
    (void)s;
    return w.recording;
}

static void say(void *arg, const char *line)
{
    (void)arg;
    w.lines++;
    snprintf(w.line, sizeof w.line, "%s", line);
}

static struct dt_cudnn_under under(void)
{
    return (struct dt_cudnn_under){.calls = fake_calls(),
                                   .forward = own_forward,
                                   .backward = own_backward,
                                   .take = take,
                                   .fetch = fetch,
                                   .is_recording = is_recording,
                                   .say = say};
}

static void begin(bool fast)
{
    struct dt_err err = {0};
    fake_reset();
    fake.result = give;
    memset(&w, 0, sizeof w);
    ours = theirs = 1;
    w.most = 1 << 20;
    w.s.fast = fast;
    w.a = (struct dt_attention){.batch = BATCH,
                                .queries = POSITIONS,
                                .keys = POSITIONS,
                                .heads = HEADS,
                                .kv_heads = KV_HEADS,
                                .head_dim = DIM,
                                .q_stride = Q_WIDTH,
                                .k_stride = KV_WIDTH,
                                .v_stride = KV_WIDTH,
                                .out_stride = Q_WIDTH,
                                .q = w.q,
                                .k = w.k,
                                .v = w.v,
                                .logsum = w.logsum};
    struct dt_cudnn_under u = under();
    w.c = dt_cudnn_attention_open(&u, &w.s, &err);
    CHECK_OK(w.c ? 0 : -1, err);
}

static void end(void)
{
    dt_cudnn_attention_close(w.c);
    for (int i = 0; i < w.taken; i++)
        free(w.blocks[i]);
    CHECK_EQ(fake.made, 0);
    CHECK_EQ(fake.handles, 0);
    CHECK_EQ(w.s.failed.code, DT_E_NONE);
}

static float first(const uint16_t *x)
{
    float value;
    uint32_t bits = (uint32_t)x[0] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float forward(void)
{
    CHECK_EQ(dt_cudnn_attention_forward(w.c, &w.a, w.out, &w.s), cudaSuccess);
    CHECK_EQ((int)w.logsum[0], (int)first(w.out));
    return first(w.out);
}

static float backward(void)
{
    CHECK_EQ(dt_cudnn_attention_backward(w.c, &w.a, w.dq, w.dk, w.dv, w.out, w.dout, &w.s),
             cudaSuccess);
    CHECK_EQ((int)first(w.dq), (int)first(w.dk));
    CHECK_EQ((int)first(w.dq), (int)first(w.dv));
    return first(w.dq);
}

#define CHECK_SAID(text)                                                                           \
    do {                                                                                           \
        CHECK_ROW("%s", w.line);                                                                   \
        CHECK(strstr(w.line, text) != NULL);                                                       \
        CHECK_EQ(w.lines, 1);                                                                      \
    } while (0)

#endif
