/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt of one device: its handle, its workspace, and how it does each product that was asked
 * for so far. */
#ifndef DT_CUDA_LINEAR_H
#define DT_CUDA_LINEAR_H

#include "base/err.h"
#include "cuda/device/stream.h"

#include <dtrun/dtype.h>
#include <stdbool.h>
#include <stddef.h>

struct dt_cuda_linear;

/* WORKSPACE is the caller's, memory of the device. Float products are exact ones (no TF32) unless
 * FAST. */
struct dt_cuda_linear *dt_cuda_linear_open(void *workspace, size_t bytes, bool fast,
                                           struct dt_err *err);
void dt_cuda_linear_close(struct dt_cuda_linear *l);

/* Whether a product with GELU is worth asking for: before Hopper, cuBLASLt is slower with it than a
 * kernel of its own is. */
bool dt_cuda_linear_fuses_gelu(const struct dt_cuda_linear *l);
/* Whether it was opened FAST. */
bool dt_cuda_linear_is_fast(const struct dt_cuda_linear *l);

/* What follows a product before it is stored. GELU_KEEP stores what GELU is taken of, too;
 * GELU_SLOPE multiplies by GELU's slope at what was stored so. SUM_A and SUM_B sum up what is
 * multiplied, too, over inner, in an order that cuBLASLt does not tell. */
enum dt_cuda_after {
    DT_CUDA_NOTHING,
    DT_CUDA_BIAS,
    DT_CUDA_GELU,
    DT_CUDA_BIAS_GELU,
    DT_CUDA_GELU_KEEP,
    DT_CUDA_BIAS_GELU_KEEP,
    DT_CUDA_GELU_SLOPE,
    DT_CUDA_SUM_A,
    DT_CUDA_SUM_B,
};

/* to[rows,columns] = a b, row-major; each of a and b may be stored transposed. */
struct dt_cuda_product {
    enum dt_dtype elem;
    size_t rows, columns, inner;
    const void *a, *b;
    bool a_transposed, b_transposed; /* a is [inner,rows], b is [columns,inner] */
    void *to;
    /* From row to row, as each is stored; 0: packed. */
    size_t a_stride, b_stride, to_stride;
    bool add; /* += */
    enum dt_cuda_after after;
    const void *bias; /* [columns] */
    void *keep;       /* [rows,columns] packed, 16-byte aligned, columns a multiple of 8 */
    const void *kept; /* the same, of GELU_SLOPE */
    void *sums;       /* [rows] of a, [columns] of b: assigned */
};

/* cudaErrorNotSupported, and nothing in S->failed, where cuBLASLt does not do what is to follow
 * such a product: the caller then does it. Other failures leave a sentence in S->failed, if it is
 * the first. */
cudaError_t dt_cuda_multiply(const struct dt_cuda_product *p, struct dt_stream *s);

#endif
