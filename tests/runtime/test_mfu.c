/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/mfu.h"

#include "tests/lib/check.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

TEST(what_a_gpu_can_do_follows_from_its_name)
{
    static const struct {
        const char *description;
        enum dt_dtype elem;
        double tera;
    } rows[] = {
        {"cuda:0, NVIDIA H200, 139.8 GiB, CUDA 12.4", DT_BF16, 989},
        {"cuda:0, NVIDIA H200, 139.8 GiB, CUDA 12.4", DT_F16, 989},
        {"cuda:0, NVIDIA H200, 139.8 GiB, CUDA 12.4", DT_F32, 0},
        {"cuda:1, NVIDIA H100 80GB HBM3, 79.1 GiB, CUDA 12.4", DT_BF16, 989},
        {"cuda:1, NVIDIA H100 PCIe, 79.1 GiB, CUDA 12.4", DT_BF16, 756},
        {"cuda:0, NVIDIA A100-SXM4-40GB, 39.4 GiB, CUDA 12.4", DT_BF16, 312},
        {"cuda:0, NVIDIA L40S, 44.4 GiB, CUDA 12.4", DT_BF16, 362},
        {"cuda:0, NVIDIA L4, 22.0 GiB, CUDA 12.4", DT_BF16, 121},
        {"h100 pcie", DT_BF16, 756},
        {"RTX A1000", DT_BF16, 0},
        {"cuda:0, NVIDIA A10G, 22.0 GiB, CUDA 12.4", DT_BF16, 0},
        {"CPU, x86-64-v4, 2 threads, OpenBLAS 0.3.21 SkylakeX", DT_BF16, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%s", rows[i].description);
        CHECK_EQ((int64_t)(dt_mfu_peak(rows[i].description, rows[i].elem) / 1e9),
                 (int64_t)(rows[i].tera * 1e3));
    }
}

/* 124 M parameters, of which 0.8 M are positions; with the usual 1024 of them 0.85 GFLOPs. */
TEST(flops_of_a_token_are_those_of_its_products)
{
    struct dt_shape s = {.family = DT_GPT2,
                         .layers = 12,
                         .heads = 12,
                         .kv_heads = 12,
                         .width = 768,
                         .head_dim = 64,
                         .inner = 3072,
                         .positions = 1024,
                         .vocabulary = 50257,
                         .tied = true};
    double products = (double)dt_shape_params(&s) - 1024 * 768;
    CHECK_EQ((int64_t)dt_mfu_flops_per_token(&s, 1024),
             (int64_t)(6 * products + 12.0 * 12 * 768 * 1024));
    CHECK_EQ((int64_t)(dt_mfu_flops_per_token(&s, 1024) / 1e7), 85);
    struct dt_shape some = s; /* a token goes through two of five experts */
    some.family = DT_MIXTRAL;
    some.experts = 5;
    some.expert_picks = 2;
    some.expert_inner = 100;
    products = (double)dt_shape_params(&some) - 12.0 * 3 * 3 * 100 * 768;
    CHECK_EQ((int64_t)dt_mfu_flops_per_token(&some, 1024),
             (int64_t)(6 * products + 12.0 * 12 * 768 * 1024));
    products = (double)dt_shape_params(&s) - 1024 * 768;
    s.window = 100;
    s.full_layers = 2;
    CHECK_EQ((int64_t)dt_mfu_flops_per_token(&s, 1024),
             (int64_t)(6 * products + 12.0 * 768 * (2 * 1024 + 10 * 100)));
    CHECK_EQ((int64_t)dt_mfu_flops_per_token(&s, 50),
             (int64_t)(6 * products + 12.0 * 768 * 12 * 50));
    s.full_layers = 0;
    s.full_every = 6; /* as in a Gemma 3 */
    CHECK_EQ((int64_t)dt_mfu_flops_per_token(&s, 1024),
             (int64_t)(6 * products + 12.0 * 768 * (2 * 1024 + 10 * 100)));
}
