/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of a device that computes with bfloat16, as a GPU does: those that a dt_zero calls. */
#ifndef DT_TESTS_RUNTIME_ZERO_HALF_H
#define DT_TESTS_RUNTIME_ZERO_HALF_H

#include "worker_runtime/ops/ops.h"

#include <stdlib.h>

static inline void half_add(size_t n, dt_elem *to_, const dt_elem *from_, struct dt_stream *s)
{
    uint16_t *to = to_;
    const uint16_t *from = from_;
    for (size_t i = 0; i < n; i++) {
        float x[2];
        dt_ops_reference.cast(1, &x[0], DT_F32, to + i, DT_BF16, s);
        dt_ops_reference.cast(1, &x[1], DT_F32, from + i, DT_BF16, s);
        x[0] += x[1];
        dt_ops_reference.cast(1, to + i, DT_BF16, x, DT_F32, s);
    }
}

static inline void half_add_to_floats(size_t n, dt_elem *to_, const dt_elem *from,
                                      struct dt_stream *s)
{
    float *to = to_, *x = calloc(n, sizeof *x);
    dt_ops_reference.cast(n, x, DT_F32, from, DT_BF16, s);
    dt_ops_reference.add(n, to, x, s);
    free(x);
}

static inline void half_adamw(const struct dt_adamw *a, size_t parts,
                              const struct dt_adamw_part *part, struct dt_stream *s)
{
    for (size_t i = 0; i < parts; i++) {
        struct dt_adamw_part p = part[i];
        float *grads = calloc(p.count, sizeof *grads), *out = calloc(p.count, sizeof *out);
        if (!a->float_grads)
            dt_ops_reference.cast(p.count, grads, DT_F32, p.grads, DT_BF16, s);
        p.grads = a->float_grads ? p.grads : grads;
        p.params = out;
        dt_ops_reference.adamw(a, 1, &p, s);
        dt_ops_reference.cast(p.count, part[i].params, DT_BF16, out, DT_F32, s);
        free(out);
        free(grads);
    }
}

static inline void half_sum_squares(enum dt_dtype type, size_t parts, double *sums,
                                    const struct dt_squares_part *part, struct dt_stream *s)
{
    for (size_t i = 0; i < parts; i++) {
        float *x = calloc(part[i].count, sizeof *x);
        dt_ops_reference.cast(part[i].count, x, DT_F32, part[i].x, type, s);
        dt_ops_reference.sum_squares(DT_F32, 1, &sums[i],
                                     &(struct dt_squares_part){part[i].count, x}, s);
        free(x);
    }
}

static inline struct dt_ops half_ops(void)
{
    struct dt_ops ops = dt_ops_reference;
    ops.elem = DT_BF16;
    ops.add = half_add;
    ops.add_to_floats = half_add_to_floats;
    ops.adamw = half_adamw;
    ops.sum_squares = half_sum_squares;
    return ops;
}

#endif
