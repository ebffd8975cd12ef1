/* SPDX-License-Identifier: Apache-2.0 */
/* The reference as a device's table of ops. */
#include "worker_runtime/ops/reference/reference.h"

const struct dt_ops dt_ops_reference = {
    .name = "reference",
    .elem = DT_F32,
    .embedding_forward = dt_ref_embedding_forward,
    .embedding_backward = dt_ref_embedding_backward,
    .norm_forward = dt_ref_norm_forward,
    .norm_backward = dt_ref_norm_backward,
    .head_norm_forward = dt_ref_head_norm_forward,
    .head_norm_backward = dt_ref_head_norm_backward,
    .rope = dt_ref_rope,
    .linear_forward = dt_ref_linear_forward,
    .linear_gelu_forward = dt_ref_linear_gelu_forward,
    .linear_backward = dt_ref_linear_backward,
    .attention_forward = dt_ref_attention_forward,
    .attention_backward = dt_ref_attention_backward,
    .gelu_forward = dt_ref_gelu_forward,
    .gelu_backward = dt_ref_gelu_backward,
    .swiglu_forward = dt_ref_swiglu_forward,
    .swiglu_backward = dt_ref_swiglu_backward,
    .geglu_forward = dt_ref_geglu_forward,
    .geglu_backward = dt_ref_geglu_backward,
    .cross_entropy = dt_ref_cross_entropy,
    .add = dt_ref_add,
    .dropout = dt_ref_dropout,
    .adamw = dt_ref_adamw,
    .sum_squares = dt_ref_sum_squares,
    .cast = dt_ref_cast,
    .round_to = dt_ref_round_to,
    .nf4_expand = dt_ref_nf4_expand,
};
