/* SPDX-License-Identifier: Apache-2.0 */
/* How far two results of the same computation are apart. */
#ifndef DT_CUDA_CUDNN_COMPARE_H
#define DT_CUDA_CUDNN_COMPARE_H

#include <dtrun/dtype.h>
#include <stddef.h>

/* ROWS of WIDTH elements of TYPE (DT_F32 or DT_BF16), STRIDE elements apart. */
struct dt_cudnn_array {
    enum dt_dtype type;
    size_t rows, width, stride;
};

/* Bytes from the first element to behind the last. */
size_t dt_cudnn_array_bytes(const struct dt_cudnn_array *a);
/* The norm of THEIRS - OURS over the norm of OURS. Negative where that says nothing: OURS is zero,
 * or has an element that is no number. Not a number where THEIRS has such a one. */
double dt_cudnn_apart(const struct dt_cudnn_array *a, const void *ours, const void *theirs);

#endif
