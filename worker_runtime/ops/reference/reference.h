/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of dt_ops_reference, as the table (ops/ops.h) wants them. On this device a
 * dt_elem is a float, and the stream is not looked at. */
#ifndef DT_WORKER_RUNTIME_OPS_REFERENCE_REFERENCE_H
#define DT_WORKER_RUNTIME_OPS_REFERENCE_REFERENCE_H

#include "worker_runtime/ops/ops.h"

dt_embedding_forward_fn dt_ref_embedding_forward;
dt_embedding_backward_fn dt_ref_embedding_backward;
dt_norm_forward_fn dt_ref_norm_forward;
dt_norm_backward_fn dt_ref_norm_backward;
dt_head_norm_forward_fn dt_ref_head_norm_forward;
dt_head_norm_backward_fn dt_ref_head_norm_backward;
dt_rope_fn dt_ref_rope;
dt_linear_forward_fn dt_ref_linear_forward;
dt_linear_gelu_forward_fn dt_ref_linear_gelu_forward;
dt_linear_backward_fn dt_ref_linear_backward;
dt_attention_forward_fn dt_ref_attention_forward;
dt_attention_backward_fn dt_ref_attention_backward;
dt_gelu_forward_fn dt_ref_gelu_forward;
dt_gelu_backward_fn dt_ref_gelu_backward;
dt_swiglu_forward_fn dt_ref_swiglu_forward;
dt_swiglu_backward_fn dt_ref_swiglu_backward;
dt_geglu_forward_fn dt_ref_geglu_forward;
dt_geglu_backward_fn dt_ref_geglu_backward;
dt_cross_entropy_fn dt_ref_cross_entropy;
dt_cross_entropy_sums_fn dt_ref_cross_entropy_sums;
dt_cross_entropy_join_fn dt_ref_cross_entropy_join;
dt_add_fn dt_ref_add;
dt_dropout_fn dt_ref_dropout;
dt_adamw_fn dt_ref_adamw;
dt_sum_squares_fn dt_ref_sum_squares;
dt_cast_fn dt_ref_cast;
dt_round_to_fn dt_ref_round_to;
dt_nf4_expand_fn dt_ref_nf4_expand;
dt_magnitude_norms_fn dt_ref_magnitude_norms;
dt_magnitude_forward_fn dt_ref_magnitude_forward;
dt_magnitude_backward_fn dt_ref_magnitude_backward;

#endif
