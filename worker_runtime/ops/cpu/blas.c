/* SPDX-License-Identifier: Apache-2.0 */
/* Which CBLAS a process uses, and whether there is something to say about it. */
#include "worker_runtime/ops/cpu/blas.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker_runtime/ops/cpu/blas_library.h"

/* Once per process, by dt_blas_open(). */
static struct {
    pthread_once_t once;
    int rc;
    struct dt_err err;
    struct dt_blas_library library;
    char name[96], advice[320];
} blas = {.once = PTHREAD_ONCE_INIT};

static const char *const usual[] = {"libopenblas.so.0", "libopenblas.so", "libcblas.so.3",
                                    "libblas.so.3",     "libcblas.so",    "libblas.so"};

static int open_any(const char **name, struct dt_err *err)
{
    const char *wanted = getenv("DTRUN_BLAS");
    if (wanted && *wanted) {
        *name = wanted;
        if (dt_blas_library_open(&blas.library, wanted, NULL, err) < 0)
            return dt_err_wrap(err, "DTRUN_BLAS");
        return 0;
    }
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        *name = usual[i];
        if (dt_blas_library_open(&blas.library, usual[i], NULL, NULL) == 0)
            return 0;
    }
    return dt_err_set(err, DT_E_RUNTIME,
                      "training on the CPU needs a BLAS and none is installed; install OpenBLAS "
                      "(Debian and Ubuntu: libopenblas0; Fedora: openblas), or name one in "
                      "DTRUN_BLAS");
}

/* Taken again with the core said, where the user did not say one himself. */
static int cure(const char *name, struct dt_err *err)
{
    if (!blas.library.core)
        return 0;
    const char *better = dt_blas_better_core(blas.library.core(), dt_cpu_level());
    if (!better || getenv("OPENBLAS_CORETYPE"))
        return 0;
    dt_blas_library_close(&blas.library);
    return dt_blas_library_open(&blas.library, name, better, err);
}

static void find_name(const char *library)
{
    const char *config = blas.library.config ? blas.library.config() : "OpenBLAS";
    if (!blas.library.core) {
        snprintf(blas.name, sizeof blas.name, "%s", library);
        return;
    }
    const char *version = strchr(config, ' ');
    int words = version ? (int)(version - config) + 1 + (int)strcspn(version + 1, " ")
                        : (int)strlen(config);
    snprintf(blas.name, sizeof blas.name, "%.*s, %s", words, config, blas.library.core());
}

/* The best of a few products of 256 x 256: no other work of the machine slows down all of them. */
static double measure_gflops(void)
{
    enum { N = 256, TRIES = 6 };
    float *x = calloc(3 * N * N, sizeof *x);
    double best = 0;
    for (int i = 0; x && i < TRIES; i++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        dt_blas_gemm(&(struct dt_gemm){.m = N,
                                       .n = N,
                                       .k = N,
                                       .alpha = 1,
                                       .a = x,
                                       .lda = N,
                                       .b = x + N * N,
                                       .ldb = N,
                                       .c = x + 2 * N * N,
                                       .ldc = N});
        clock_gettime(CLOCK_MONOTONIC, &to);
        double seconds =
            (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
        double gflops = 2e-9 * N * N * N / (seconds > 0 ? seconds : 1e-9);
        best = gflops > best ? gflops : best;
    }
    free(x);
    return best;
}

static void find_advice(void)
{
    enum { SLOW = 12 }; /* GFLOP/s on a processor with AVX2, where good kernels make 50 and more */
    const char *core = blas.library.core ? blas.library.core() : NULL;
    const char *better = core ? dt_blas_better_core(core, dt_cpu_level()) : NULL;
    if (better && getenv("OPENBLAS_CORETYPE"))
        snprintf(blas.advice, sizeof blas.advice,
                 "OPENBLAS_CORETYPE is set and makes %s compute with kernels for old processors; "
                 "unset it, or OPENBLAS_CORETYPE=%s fits this one",
                 blas.name, better);
    else if (better)
        snprintf(blas.advice, sizeof blas.advice,
                 "%s computes with kernels for old processors; OPENBLAS_CORETYPE=%s before the "
                 "start, or a newer OpenBLAS, is several times faster",
                 blas.name, better);
    else if (!core && dt_cpu_level() > DT_CPU_BASE && measure_gflops() < SLOW)
        snprintf(blas.advice, sizeof blas.advice,
                 "%s is a slow BLAS; OpenBLAS (Debian and Ubuntu: libopenblas0; Fedora: openblas) "
                 "is many times faster",
                 blas.name);
}

static void open_once(void)
{
    const char *name = NULL;
    blas.rc = open_any(&name, &blas.err);
    if (blas.rc == 0)
        blas.rc = cure(name, &blas.err);
    if (blas.rc < 0)
        return;
    find_name(name);
    find_advice();
}

int dt_blas_open(struct dt_err *err)
{
    pthread_once(&blas.once, open_once);
    if (blas.rc < 0 && err)
        *err = blas.err;
    return blas.rc;
}

const char *dt_blas_name(void)
{
    return blas.name;
}

const char *dt_blas_advice(void)
{
    return blas.advice[0] ? blas.advice : NULL;
}

/* Of the OpenMP build each thread must be told that it is to compute alone. */
static void stay_alone(void)
{
    static _Thread_local bool told;
    if (told || !blas.library.openmp)
        return;
    blas.library.set_threads(1);
    told = true;
}

void dt_blas_gemm(const struct dt_gemm *g)
{
    enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
    stay_alone();
    blas.library.sgemm(ROW_MAJOR, g->transpose_a ? TRANSPOSED : PLAIN,
                       g->transpose_b ? TRANSPOSED : PLAIN, (int)g->m, (int)g->n, (int)g->k,
                       g->alpha, g->a, (int)g->lda, g->b, (int)g->ldb, g->beta, g->c, (int)g->ldc);
}
