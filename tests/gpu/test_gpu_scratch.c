/* SPDX-License-Identifier: Apache-2.0 */
/* An op that wants more scratch than there is takes fewer, larger parts, and the results are the
 * same to the bit. No test has as much work as fills what a device has, so here it is made less. */
#include "cuda/device/stream.h"
#include "tests/gpu/gpu_kit.h"

/* Bytes that attention's way back keeps for a head of A: 8 of each query, padded to 128 of them;
 * and on tensor cores, as these heads are too few for a GPU, floats of dk and dv. */
static size_t kept_of_head(const struct gpu_kit *g, const struct dt_attention *a)
{
    size_t padded = (a->queries + 127) / 128 * 128;
    bool on_tensor_cores = g->elem == DT_BF16 && a->head_dim % 64 == 0;
    return padded * (8 + (on_tensor_cores ? 2 * a->head_dim * sizeof(float) : 0));
}

/* What an op left there is not to help the next. */
static void spoil_scratch(struct gpu_kit *g)
{
    const size_t bytes = 2 << 20;
    uint8_t *nans = kit_alloc(&g->k, bytes);
    memset(nans, 0xff, bytes);
    g->device->table->from_host(g->device, g->s->scratch, nans, bytes);
}

/* The gradients, with scratch for HEADS heads; 0: as much as there is. */
static uint8_t *gradients(struct gpu_kit *g, const struct dt_attention *a, const void *out,
                          const void *dout, size_t heads)
{
    size_t before = g->s->scratch_bytes, n = a->batch * a->queries * a->q_stride * gpu_size(g);
    uint8_t *at = gpu_bytes(g, n, NULL, 0), *bytes = kit_alloc(&g->k, n);
    size_t k_at = a->heads * a->head_dim, v_at = k_at + a->kv_heads * a->head_dim;
    spoil_scratch(g);
    if (heads > 0)
        g->s->scratch_bytes = heads * kept_of_head(g, a);
    g->ops->attention_backward(a, at, at + k_at * gpu_size(g), at + v_at * gpu_size(g), out, dout,
                               g->s);
    g->s->scratch_bytes = before;
    gpu_to_host(g, bytes, at, n);
    return bytes;
}

static void attention(struct gpu_kit *g)
{
    static const size_t dims[] = {64, 128, 24};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        CHECK_ROW("dim %zu", dims[i]);
        size_t D = dims[i], positions = 40, q_stride = 12 * D; /* 6 heads; 3 of keys, 3 of values */
        struct dt_attention a = {.batch = 2,
                                 .queries = positions,
                                 .keys = positions,
                                 .heads = 6,
                                 .kv_heads = 3,
                                 .head_dim = D,
                                 .q_stride = q_stride,
                                 .k_stride = q_stride,
                                 .v_stride = q_stride,
                                 .out_stride = 6 * D};
        size_t rows = a.batch * positions, n = rows * q_stride, n_out = rows * a.out_stride;
        uint8_t *qkv = gpu_up(g, n, gpu_numbers(g, n));
        a.q = qkv;
        a.k = qkv + 6 * D * gpu_size(g);
        a.v = qkv + 9 * D * gpu_size(g);
        a.logsum = gpu_bytes(g, a.batch * a.heads * positions * sizeof(float), NULL, 0);
        void *out = gpu_up(g, n_out, NULL), *dout = gpu_up(g, n_out, gpu_numbers(g, n_out));
        g->ops->attention_forward(&a, out, g->s);
        const uint8_t *wanted = gradients(g, &a, out, dout, 0);
        /* Of 12 heads in groups of two: one group a part, two and a half, all but one. */
        static const size_t heads[] = {2, 5, 11, 12};
        for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++) {
            CHECK_ROW("scratch for %zu heads", heads[h]);
            CHECK_BYTES(gradients(g, &a, out, dout, heads[h]), n * gpu_size(g), wanted,
                        n * gpu_size(g));
        }
        gpu_free(g);
    }
}

TEST(attention_goes_back_in_as_many_parts_as_scratch_wants)
{
    gpu_each(attention);
}

BEFORE_ALL
{
    gpu_plugin_or_skip();
}
