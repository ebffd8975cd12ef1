/* SPDX-License-Identifier: Apache-2.0 */
/* The table of one set of instructions. */
#include "worker_runtime/ops/cpu/cpu.h"
#include "worker_runtime/ops/cpu/tables.h"

const struct dt_ops DT_CPU(ops) = {
    .name = DT_ISA_NAME,
    .elem = DT_F32,
    .embedding_forward = DT_CPU(embedding_forward),
    .embedding_backward = DT_CPU(embedding_backward),
    .norm_forward = DT_CPU(norm_forward),
    .norm_backward = DT_CPU(norm_backward),
    .head_norm_forward = DT_CPU(head_norm_forward),
    .head_norm_backward = DT_CPU(head_norm_backward),
    .rope = DT_CPU(rope),
    .linear_forward = DT_CPU(linear_forward),
    .linear_gelu_forward = DT_CPU(linear_gelu_forward),
    .linear_backward = DT_CPU(linear_backward),
    .attention_forward = DT_CPU(attention_forward),
    .attention_backward = DT_CPU(attention_backward),
    .gelu_forward = DT_CPU(gelu_forward),
    .gelu_backward = DT_CPU(gelu_backward),
    .swiglu_forward = DT_CPU(swiglu_forward),
    .swiglu_backward = DT_CPU(swiglu_backward),
    .geglu_forward = DT_CPU(geglu_forward),
    .geglu_backward = DT_CPU(geglu_backward),
    .cross_entropy = DT_CPU(cross_entropy),
    .add = DT_CPU(add),
    .dropout = DT_CPU(dropout),
    .adamw = DT_CPU(adamw),
    .sum_squares = DT_CPU(sum_squares),
    .cast = DT_CPU(cast),
    .round_to = DT_CPU(round_to),
    .nf4_expand = DT_CPU(nf4_expand),
    .magnitude_norms = DT_CPU(magnitude_norms),
    .magnitude_forward = DT_CPU(magnitude_forward),
    .magnitude_backward = DT_CPU(magnitude_backward),
};
