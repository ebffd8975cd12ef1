/* SPDX-License-Identifier: Apache-2.0 */
/* The fast ops. These files are compiled once for each set of instructions (DT_ISA is base, v3 or
 * v4), so their names carry it; ops/cpu.c picks a table at run time.
 *
 * Loops are plain C that the compiler makes vectors of. Sums and maxima say "omp simd reduction":
 * that allows this one sum another order, and nothing else; infinities and NaN stay what they are.
 * Work is cut in parts by its shape, never by chance, so results repeat. */
#ifndef DT_WORKER_RUNTIME_OPS_CPU_CPU_H
#define DT_WORKER_RUNTIME_OPS_CPU_CPU_H

#include <stddef.h>

#include "worker_runtime/ops/cpu/pool.h"
#include "worker_runtime/ops/cpu/stream.h"
#include "worker_runtime/ops/ops.h"

#define DT_JOIN_AS(a, b) a##_##b
#define DT_JOIN(a, b) DT_JOIN_AS(a, b)
#define DT_CPU(name) DT_JOIN(dt_cpu_##name, DT_ISA)

struct dt_range {
    size_t from, to;
};

/* Parts of SIZE each, the last one shorter. */
static inline size_t dt_parts(size_t n, size_t size)
{
    return (n + size - 1) / size;
}

static inline struct dt_range dt_part(size_t n, size_t size, size_t part)
{
    size_t from = part * size;
    return (struct dt_range){from, n - from < size ? n : from + size};
}

dt_embedding_forward_fn DT_CPU(embedding_forward);
dt_embedding_backward_fn DT_CPU(embedding_backward);
dt_norm_forward_fn DT_CPU(norm_forward);
dt_norm_backward_fn DT_CPU(norm_backward);
dt_head_norm_forward_fn DT_CPU(head_norm_forward);
dt_head_norm_backward_fn DT_CPU(head_norm_backward);
dt_rope_fn DT_CPU(rope);
dt_linear_forward_fn DT_CPU(linear_forward);
dt_linear_gelu_forward_fn DT_CPU(linear_gelu_forward);
dt_linear_gelu_backward_fn DT_CPU(linear_gelu_backward);
dt_linear_backward_fn DT_CPU(linear_backward);
dt_attention_forward_fn DT_CPU(attention_forward);
dt_attention_backward_fn DT_CPU(attention_backward);
dt_gelu_forward_fn DT_CPU(gelu_forward);
dt_gelu_backward_fn DT_CPU(gelu_backward);
dt_swiglu_forward_fn DT_CPU(swiglu_forward);
dt_swiglu_backward_fn DT_CPU(swiglu_backward);
dt_geglu_forward_fn DT_CPU(geglu_forward);
dt_geglu_backward_fn DT_CPU(geglu_backward);
dt_cross_entropy_fn DT_CPU(cross_entropy);
dt_cross_entropy_sums_fn DT_CPU(cross_entropy_sums);
dt_cross_entropy_join_fn DT_CPU(cross_entropy_join);
dt_add_fn DT_CPU(add);
dt_copy_rows_fn DT_CPU(copy_rows);
dt_dropout_fn DT_CPU(dropout);
dt_adamw_fn DT_CPU(adamw);
dt_sum_squares_fn DT_CPU(sum_squares);
dt_cast_fn DT_CPU(cast);
dt_round_to_fn DT_CPU(round_to);
dt_nf4_expand_fn DT_CPU(nf4_expand);
dt_magnitude_norms_fn DT_CPU(magnitude_norms);
dt_magnitude_forward_fn DT_CPU(magnitude_forward);
dt_magnitude_backward_fn DT_CPU(magnitude_backward);
dt_route_fn DT_CPU(route);
dt_route_backward_fn DT_CPU(route_backward);
dt_route_sort_fn DT_CPU(route_sort);
dt_route_spread_fn DT_CPU(route_spread);
dt_route_collect_fn DT_CPU(route_collect);
dt_weigh_forward_fn DT_CPU(weigh_forward);
dt_weigh_backward_fn DT_CPU(weigh_backward);
dt_sigmoid_forward_fn DT_CPU(sigmoid_forward);
dt_sigmoid_backward_fn DT_CPU(sigmoid_backward);

#endif
