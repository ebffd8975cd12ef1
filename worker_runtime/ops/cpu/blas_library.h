/* SPDX-License-Identifier: Apache-2.0 */
/* One CBLAS library, opened at run time: what blas.h chooses among. */
#ifndef DT_WORKER_RUNTIME_OPS_CPU_BLAS_LIBRARY_H
#define DT_WORKER_RUNTIME_OPS_CPU_BLAS_LIBRARY_H

#include <stdbool.h>

#include "base/err.h"
#include "worker_runtime/ops/cpu/cpu_level.h"

typedef void dt_cblas_sgemm_fn(int order, int transpose_a, int transpose_b, int m, int n, int k,
                               float alpha, const float *a, int lda, const float *b, int ldb,
                               float beta, float *c, int ldc);

struct dt_blas_library {
    void *handle;
    dt_cblas_sgemm_fn *sgemm;
    void (*set_threads)(int threads); /* OpenBLAS; else NULL */
    const char *(*core)(void);        /* OpenBLAS: whose kernels it took; else NULL */
    const char *(*config)(void);      /* OpenBLAS: "OpenBLAS 0.3.21 ..."; else NULL */
    bool openmp;                      /* how many threads is a thing of each calling thread */
};

/* NAME is for dlopen(). One thread computes. CORE: whose kernels OpenBLAS is to take; NULL: its
 * choice, or the user's $OPENBLAS_CORETYPE. The environment is changed while it loads. */
int dt_blas_library_open(struct dt_blas_library *l, const char *name, const char *core,
                         struct dt_err *err);
void dt_blas_library_close(struct dt_blas_library *l);

/* The core to ask for where OpenBLAS took CHOSEN on a processor of LEVEL; NULL: leave it. */
const char *dt_blas_better_core(const char *chosen, enum dt_cpu_level level);

#endif
