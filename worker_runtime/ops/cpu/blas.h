/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by the CBLAS that is installed, opened at run time and kept to one thread: the
 * pool cuts the work.
 *
 * OpenBLAS chooses its kernels by the model of the processor, and an older one on a newer processor
 * takes the most basic ones, at a fifth of the speed. It is opened, asked what it chose, and when
 * the processor's own flags say better it is closed and opened again with the choice made for it.
 * What cannot be cured is told in dt_blas_advice(). */
#ifndef DT_WORKER_RUNTIME_OPS_CPU_BLAS_H
#define DT_WORKER_RUNTIME_OPS_CPU_BLAS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* C[m,n] = alpha * op(A) op(B) + beta * C, row-major; op(A) is [m,k], op(B) is [k,n]. Safe from
 * several threads at once. */
struct dt_gemm {
    bool transpose_a, transpose_b;
    size_t m, n, k;
    float alpha;
    const float *a;
    size_t lda;
    const float *b;
    size_t ldb;
    float beta;
    float *c;
    size_t ldc;
};

/* Opens it once per process: $DTRUN_BLAS, else OpenBLAS, else any CBLAS. A sentence that says what
 * to install when there is none. */
int dt_blas_open(struct dt_err *err);
void dt_blas_gemm(const struct dt_gemm *g); /* on this thread; dt_blas_open() has succeeded */
const char *dt_blas_name(void);             /* "OpenBLAS 0.3.21, SkylakeX" */
const char *dt_blas_advice(void);           /* NULL: nothing to say; else a sentence to warn with */

#endif
