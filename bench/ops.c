/* SPDX-License-Identifier: Apache-2.0 */
/* What each op of the CPU costs at the shapes of a small GPT-2 (L6 C384 H6 T256 V8192, 4 x 256
 * tokens), beside a bare matrix product of the same BLAS: where a step's time goes, and how far
 * from the roof. Times are the least of many, as other work only ever makes them longer; of one
 * thread it is the processor's time, which other work hardly touches.
 *
 *     ops_bench [threads [tries]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/cpu/blas.h"
#include "worker_runtime/ops/ops.h"

enum { B = 4, T = 256, N = B * T, C = 384, H = 6, V = 8192, F = 4 * C, P = 13900000, ARRAYS = 8 };

struct bench {
    struct dt_device *d;
    const struct dt_ops *o;
    struct dt_stream *s;
    float *x[ARRAYS];
    int32_t *ids;
    int threads, tries;
    double step_ms; /* all ops, each as often as a step has it */
};

static double now_ms(const struct bench *b)
{
    struct timespec t;
    clock_gettime(b->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* EXPR's least time. It is in a step TIMES times, and makes WORK flops or moves WORK bytes. */
#define MEASURE(b, name, times, work, unit, expr)                                                  \
    do {                                                                                           \
        double best = 1e9;                                                                         \
        for (int left = b->tries; left > 0; left--) {                                              \
            double from = now_ms(b);                                                               \
            expr;                                                                                  \
            double took = now_ms(b) - from;                                                        \
            best = took < best ? took : best;                                                      \
        }                                                                                          \
        b->step_ms += (times)*best;                                                                \
        printf("%-34s %9.3f ms %8.1f %s  x%-3d %8.2f ms a step\n", name, best,                     \
               (double)(work) / best * 1e-6, unit, times, (times)*best);                           \
    } while (0)

static void fill(size_t n, float *x)
{
    uint32_t r = 1;
    for (size_t i = 0; i < n; i++) {
        r = r * 1664525 + 1013904223;
        x[i] = ((float)(r >> 8) * 0x1p-24f - 0.5f) * 0.1f;
    }
}

static void linears(struct bench *b)
{
    static const struct {
        const char *name;
        size_t in, out;
        enum dt_weight_layout layout;
        int times;
        bool gelu, bias;
    } rows[] = {
        {"qkv", C, 3 * C, DT_WEIGHT_IN_OUT, 6, false, true},
        {"attention out", C, C, DT_WEIGHT_IN_OUT, 6, false, true},
        {"up + gelu", C, F, DT_WEIGHT_IN_OUT, 6, true, true},
        {"down", F, C, DT_WEIGHT_IN_OUT, 6, false, true},
        {"head", C, V, DT_WEIGHT_OUT_IN, 1, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct dt_linear l = {N, rows[i].in, rows[i].out, 0, rows[i].layout, b->x[0], NULL};
        double flops = 2.0 * N * (double)l.in * (double)l.out;
        char name[64];
        l.bias = rows[i].bias ? b->x[1] : NULL;
        if (rows[i].gelu)
            MEASURE(b, rows[i].name, rows[i].times, flops, "GFLOP/s",
                    b->o->linear_gelu_forward(&l, b->x[2], b->x[3], b->x[4], b->s));
        else
            MEASURE(b, rows[i].name, rows[i].times, flops, "GFLOP/s",
                    b->o->linear_forward(&l, b->x[2], b->x[4], b->s));
        snprintf(name, sizeof name, "%s backward", rows[i].name);
        MEASURE(b, name, rows[i].times, 2 * flops, "GFLOP/s",
                b->o->linear_backward(&l, b->x[2], false, b->x[3], l.bias ? b->x[5] : NULL, b->x[4],
                                      b->x[6], b->s));
    }
}

static void attention(struct bench *b)
{
    struct dt_attention a = {.batch = B,
                             .queries = T,
                             .keys = T,
                             .heads = H,
                             .kv_heads = H,
                             .head_dim = C / H,
                             .q_stride = 3 * C,
                             .k_stride = 3 * C,
                             .v_stride = 3 * C,
                             .out_stride = C,
                             .q = b->x[0],
                             .k = b->x[0] + C,
                             .v = b->x[0] + 2 * C,
                             .logsum = b->x[1]};
    double flops = 2.0 * 2 * B * H * (T + 1) * T / 2 * (C / H);
    MEASURE(b, "attention", 6, flops, "GFLOP/s", b->o->attention_forward(&a, b->x[2], b->s));
    MEASURE(b, "attention backward", 6, 2.5 * flops, "GFLOP/s",
            b->o->attention_backward(&a, b->x[3], b->x[3] + C, b->x[3] + 2 * C, b->x[2], b->x[4],
                                     b->s));
}

static void layers(struct bench *b)
{
    struct dt_embedding e = {N, T, C, V, b->ids, 0, NULL};
    struct dt_norm n = {N, C, 1e-5f, 0, b->x[0], b->x[1], b->x[2], b->x[2] + N};
    struct dt_head_norm h = {N, H, C / H, C, 1e-6f, 0, b->x[0]};
    struct dt_rope r = {N, T, H, C / H, C, b->x[0], 1, 0};
    size_t hidden = (size_t)N * F;
    double row = 4.0 * N * C;
    MEASURE(b, "embedding", 1, 2 * row, "GB/s   ",
            b->o->embedding_forward(&e, b->x[5], b->x[3], b->x[4], b->s));
    MEASURE(b, "embedding backward", 1, 3 * row, "GB/s   ",
            b->o->embedding_backward(&e, b->x[3], b->x[4], b->x[5], b->s));
    MEASURE(b, "norm with residual", 13, 4 * row, "GB/s   ",
            b->o->norm_forward(&n, b->x[3], b->x[4], b->x[5], b->x[6], b->s));
    MEASURE(b, "norm backward", 13, 4 * row, "GB/s   ",
            b->o->norm_backward(&n, b->x[3], b->x[7], b->x[7] + C, b->x[5], b->x[6], b->s));
    MEASURE(b, "norm of heads (Qwen3)", 0, 2 * row, "GB/s   ",
            b->o->head_norm_forward(&h, b->x[3], b->x[5], b->s));
    MEASURE(b, "norm of heads backward", 0, 3 * row, "GB/s   ",
            b->o->head_norm_backward(&h, b->x[3], b->x[7], b->x[5], b->x[6], b->s));
    MEASURE(b, "rope (Llama)", 0, 2 * row, "GB/s   ", b->o->rope(&r, b->x[6], false, b->s));
    MEASURE(b, "gelu (alone)", 0, 8.0 * N * F, "GB/s   ",
            b->o->gelu_forward(hidden, b->x[3], b->x[5], b->s));
    MEASURE(b, "gelu backward", 6, 12.0 * N * F, "GB/s   ",
            b->o->gelu_backward(hidden, b->x[3], b->x[5], b->x[3], b->s));
    MEASURE(b, "swiglu (Llama)", 0, 12.0 * N * F, "GB/s   ",
            b->o->swiglu_forward(&(struct dt_gate){1, hidden, 0}, b->x[3], b->x[5], b->x[6], b->s));
    MEASURE(b, "add", 0, 3 * row, "GB/s   ", b->o->add((size_t)N * C, b->x[3], b->x[5], b->s));
}

static void training(struct bench *b)
{
    struct dt_cross_entropy c = {N, V, V, b->ids, 1e-3f, 0, NULL};
    struct dt_adamw a = {.beta1 = 0.9f,
                         .beta2 = 0.95f,
                         .eps = 1e-8f,
                         .bias1 = 0.1f,
                         .bias2 = 0.05f,
                         .grad_scale = 1,
                         .decoupled = true,
                         .model_type = DT_F32};
    struct dt_adamw_part p = {P, b->x[1], b->x[2], b->x[3], b->x[4], b->x[0], 1e-3f, 0.1f, 0, 0};
    struct dt_adamw_part in_place = p;
    struct dt_squares_part grads = {P, b->x[0]};
    double sum;
    in_place.params = p.master;
    fill((size_t)N * V, b->x[0]);
    MEASURE(b, "cross entropy, loss alone", 0, 4.0 * N * V, "GB/s   ",
            b->o->cross_entropy(&c, b->x[1], b->x[0], false, b->s));
    MEASURE(b, "cross entropy", 1, 8.0 * N * V, "GB/s   ",
            b->o->cross_entropy(&c, b->x[1], b->x[0], true, b->s));
    MEASURE(b, "sum of squares", 1, 4.0 * P, "GB/s   ",
            b->o->sum_squares(b->o->elem, 1, &sum, &grads, b->s));
    memset(b->x[3], 0, P * sizeof(float));
    MEASURE(b, "adamw", 1, 32.0 * P, "GB/s   ", b->o->adamw(&a, 1, &p, b->s));
    MEASURE(b, "adamw, params the master", 0, 28.0 * P, "GB/s   ",
            b->o->adamw(&a, 1, &in_place, b->s));
    MEASURE(b, "clear gradients", 1, 4.0 * P, "GB/s   ",
            b->d->table->clear(b->d, b->x[4], P * sizeof(float)));
    MEASURE(b, "cast to bfloat16", 0, 6.0 * P, "GB/s   ",
            b->o->cast(P, b->x[4], DT_BF16, b->x[0], DT_F32, b->s));
}

int main(int argc, char **argv)
{
    struct dt_err err;
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    struct bench b = {.threads = threads, .tries = argc > 2 ? atoi(argv[2]) : 20};
    b.d = dt_device_open_cpu(threads, &err);
    if (!b.d) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    b.o = b.d->ops;
    b.s = b.d->stream;
    printf("%s\n", b.d->description);
    if (dt_blas_advice())
        printf("%s\n", dt_blas_advice());
    for (int i = 0; i < ARRAYS; i++) {
        b.x[i] = dt_device_alloc(b.d, (P + 64) * sizeof(float), "a benchmark", &err);
        if (!b.x[i])
            return 1;
        fill(P, b.x[i]);
    }
    b.ids = calloc(N, sizeof *b.ids);
    for (int i = 0; i < N && b.ids; i++)
        b.ids[i] = i * 7919 % V;
    struct bench *bare = &b;
    struct dt_gemm g = {.m = N,
                        .n = F,
                        .k = C,
                        .alpha = 1,
                        .a = b.x[0],
                        .lda = C,
                        .b = b.x[1],
                        .ldb = F,
                        .c = b.x[2],
                        .ldc = F};
    MEASURE(bare, "bare product, 1 thread", 0, 2.0 * N * F * C, "GFLOP/s", dt_blas_gemm(&g));
    linears(&b);
    attention(&b);
    layers(&b);
    training(&b);
    printf("%-34s %41.2f ms\n", "a step", b.step_ms);
    for (int i = 0; i < ARRAYS; i++)
        dt_device_free(b.d, b.x[i]);
    free(b.ids);
    dt_device_close(b.d);
    return 0;
}
