/* SPDX-License-Identifier: Apache-2.0 */
/* The BLAS that is installed: its products, which kernels it takes, and what is said about it.
 * What is decided once per process is asked of a child with its own environment. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/lib/check.h"
#include "worker_runtime/ops/cpu/blas.h"
#include "worker_runtime/ops/cpu/blas_library.h"

/* The environment of whoever runs the tests may choose kernels, and each story here makes its own
 * choice. */
BEFORE_ALL
{
    unsetenv("OPENBLAS_CORETYPE");
}

TEST(a_basic_choice_is_made_better_and_a_good_one_kept)
{
    static const struct {
        const char *chosen;
        enum dt_cpu_level level;
        const char *better;
    } rows[] = {
        {"Prescott", DT_CPU_BASE, NULL},
        {"Prescott", DT_CPU_V3, "Haswell"},
        {"Prescott", DT_CPU_V4, "SkylakeX"},
        {"Core2", DT_CPU_V4, "SkylakeX"},
        {"Nehalem", DT_CPU_V3, "Haswell"},
        {"Sandybridge", DT_CPU_V3, "Haswell"},
        {"GENERIC", DT_CPU_V4, "SkylakeX"},
        {"Barcelona", DT_CPU_V3, "Haswell"},
        {"Haswell", DT_CPU_V3, NULL},
        {"Haswell", DT_CPU_V4, NULL},
        {"Zen", DT_CPU_V4, NULL},
        {"SkylakeX", DT_CPU_V4, NULL},
        {"Sapphirerapids", DT_CPU_V4, NULL},
        {"one of the future", DT_CPU_V4, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_ROW("%s at level %d", rows[i].chosen, rows[i].level);
        CHECK_STR(dt_blas_better_core(rows[i].chosen, rows[i].level), rows[i].better);
    }
}

/* What a process says of its BLAS that starts with NAME=VALUE: "name|advice", or "error: ...". This
 * process has not opened one before its last test. */
static void ask_child(const char *name, const char *value, char *text, size_t size)
{
    int ends[2], status = -1;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct dt_err err;
        setenv(name, value, 1);
        if (dt_blas_open(&err) < 0)
            dprintf(ends[1], "error: %s", err.text);
        else
            dprintf(ends[1], "%s|%s", dt_blas_name(), dt_blas_advice() ? dt_blas_advice() : "");
        _exit(0);
    }
    close(ends[1]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    ssize_t n = read(ends[0], text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
}

TEST(a_user_who_forces_old_kernels_is_told_what_that_costs)
{
    char text[600];
    if (dt_cpu_level() == DT_CPU_BASE)
        SKIP("no kernels are too old for this processor");
    ask_child("OPENBLAS_CORETYPE", "Prescott", text, sizeof text);
    CHECK_ROW("%s", text);
    CHECK(strstr(text, "Prescott|") != NULL);
    CHECK(strstr(text, "unset it") != NULL);
}

TEST(a_fitting_core_needs_no_advice)
{
    char text[600];
    if (dt_cpu_level() == DT_CPU_BASE)
        SKIP("Haswell's kernels do not run here");
    ask_child("OPENBLAS_CORETYPE", "Haswell", text, sizeof text);
    CHECK_ROW("%s", text);
    CHECK(strstr(text, "Haswell|") != NULL);
    CHECK_STR(strchr(text, '|'), "|");
}

TEST(a_library_that_is_not_there_is_named)
{
    char text[600];
    ask_child("DTRUN_BLAS", "libnosuchblas.so.9", text, sizeof text);
    CHECK_ROW("%s", text);
    CHECK(strstr(text, "error: DTRUN_BLAS: cannot load the BLAS \"libnosuchblas.so.9\"") != NULL);
    ask_child("DTRUN_BLAS", "libm.so.6", text, sizeof text);
    CHECK(strstr(text, "is no CBLAS") != NULL);
}

TEST(a_basic_choice_is_cured_or_told_of)
{
    char text[600];
    if (dt_cpu_level() == DT_CPU_BASE)
        SKIP("no kernels are too old for this processor");
    const char *library = getenv("BASIC_OPENBLAS");
    CHECK_ROW("meson test puts the path of basic_openblas in $BASIC_OPENBLAS");
    CHECK(library != NULL);
    ask_child("DTRUN_BLAS", library, text, sizeof text);
    CHECK_STR(text, dt_cpu_level() == DT_CPU_V4 ? "OpenBLAS 0.1.2, SkylakeX|"
                                                : "OpenBLAS 0.1.2, Haswell|");
    setenv("BASIC_OPENBLAS_STUBBORN", "1", 1);
    ask_child("DTRUN_BLAS", library, text, sizeof text);
    unsetenv("BASIC_OPENBLAS_STUBBORN");
    CHECK_ROW("%s", text);
    CHECK(strstr(text, "OpenBLAS 0.1.2, Prescott|") == text);
    CHECK(strstr(text, "or a newer OpenBLAS") != NULL);
}

/* The same with the one that is installed. The environment is afterwards as it was. */
TEST(openblas_opened_again_chooses_again)
{
    static const char *const cores[] = {"Prescott", "Haswell", "Nehalem"};
    if (dt_cpu_level() == DT_CPU_BASE)
        SKIP("Haswell's kernels do not run here");
    setenv("OMP_NUM_THREADS", "5", 1);
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++) {
        struct dt_blas_library l;
        struct dt_err err;
        CHECK_ROW("as %s", cores[i]);
        CHECK_OK(dt_blas_library_open(&l, "libopenblas.so.0", cores[i], &err), err);
        CHECK_STR(l.core(), cores[i]);
        CHECK_STR(getenv("OMP_NUM_THREADS"), "5");
        CHECK(getenv("OPENBLAS_NUM_THREADS") == NULL);
        CHECK(getenv("OPENBLAS_CORETYPE") == NULL);
        dt_blas_library_close(&l);
    }
    unsetenv("OMP_NUM_THREADS");
}

/* All four ways of lying in memory, of a product that is a piece of larger arrays. */
static void multiply(void)
{
    enum { M = 5, N = 7, K = 6, LD = 11 };
    float a[LD * LD], b[LD * LD];
    for (int i = 0; i < LD * LD; i++) {
        a[i] = (float)(i % 13) - 6;
        b[i] = (float)(i % 7) - 3;
    }
    for (int how = 0; how < 4; how++) {
        bool ta = how & 1, tb = how & 2;
        float c[LD * LD];
        CHECK_ROW("transpose %d %d", ta, tb);
        for (int i = 0; i < LD * LD; i++)
            c[i] = 1;
        dt_blas_gemm(&(struct dt_gemm){ta, tb, M, N, K, 2, a, LD, b, LD, 3, c, LD});
        for (int m = 0; m < M; m++) {
            for (int n = 0; n < N; n++) {
                float sum = 3;
                for (int k = 0; k < K; k++)
                    sum += 2 * (ta ? a[k * LD + m] : a[m * LD + k]) *
                           (tb ? b[n * LD + k] : b[k * LD + n]);
                if (c[m * LD + n] != sum)
                    CHECK(c[m * LD + n] == sum);
            }
            CHECK(c[m * LD + N] == 1);
        }
    }
}

TEST(products_are_products)
{
    struct dt_err err;
    CHECK_OK(dt_blas_open(&err), err);
    CHECK_OK(dt_blas_open(&err), err);
    printf("# %s\n", dt_blas_name());
    CHECK(dt_blas_name()[0] != '\0');
    multiply();
}

static void *multiply_often(void *arg)
{
    enum { N = 130 };
    float *x = arg, *c = x + 2 * N * N;
    for (int i = 0; i < 40; i++)
        dt_blas_gemm(&(struct dt_gemm){.m = N,
                                       .n = N,
                                       .k = N,
                                       .alpha = 1,
                                       .a = x,
                                       .lda = N,
                                       .b = x + N * N,
                                       .ldb = N,
                                       .c = c,
                                       .ldc = N});
    return NULL;
}

TEST(several_threads_multiply_at_once)
{
    enum { THREADS = 4, SIZE = 3 * 130 * 130 };
    static float x[THREADS][SIZE];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < SIZE; i++)
            x[t][i] = (float)(i % 11) - 5;
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, multiply_often, x[t]) == 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int t = 1; t < THREADS; t++)
        CHECK_BYTES(x[t], sizeof x[t], x[0], sizeof x[0]);
}
