/* SPDX-License-Identifier: Apache-2.0 */
/* The mock cuBLASLt against products written out: which matrix is turned over, where columns begin,
 * and what each epilogue does. */
#include <cublasLt.h>
#include <math.h>

#include "tests/lib/check.h"
#include "worker_runtime/ops/half.h"

enum { M = 5, N = 7, K = 9, AUX_LD = 8 };

struct sizes {
    bool ta, tb;
    int lda, ldb, ldd;
};

static float number(int i)
{
    return (float)(i * 37 % 23 - 11) / 8;
}

static void *upload(const void *from, size_t bytes)
{
    void *at;
    CHECK_EQ(cudaMalloc(&at, bytes), cudaSuccess);
    CHECK_EQ(cudaMemcpy(at, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return at;
}

/* N numbers from SEED on as floats or bfloat16, which hold them exactly; *X is the same here. */
static void *numbers(int n, int seed, cudaDataType type, float *x)
{
    uint16_t half[256];
    for (int i = 0; i < n; i++) {
        x[i] = number(seed + i);
        half[i] = dt_float_to_bf16(x[i]);
    }
    return type == CUDA_R_32F ? upload(x, (size_t)n * 4) : upload(half, (size_t)n * 2);
}

static void download(float *x, void *at, int n, cudaDataType type)
{
    uint16_t half[256];
    if (type == CUDA_R_32F)
        CHECK_EQ(cudaMemcpy(x, at, (size_t)n * 4, cudaMemcpyDeviceToHost), cudaSuccess);
    else
        CHECK_EQ(cudaMemcpy(half, at, (size_t)n * 2, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; type != CUDA_R_32F && i < n; i++)
        x[i] = dt_bf16_to_float(half[i]);
    CHECK_EQ(cudaFree(at), cudaSuccess);
}

struct run {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, d;
    cudaDataType type;
    struct sizes z;
};

static void set(struct run *r, cublasLtMatmulDescAttributes_t which, const void *at, size_t bytes)
{
    CHECK_EQ(cublasLtMatmulDescSetAttribute(r->op, which, at, bytes), CUBLAS_STATUS_SUCCESS);
}

static struct run open_run(struct sizes z, cudaDataType type, uint32_t epilogue, void *bias,
                           void *aux)
{
    struct run r = {.type = type, .z = z};
    int32_t ta = z.ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = z.tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    int64_t ld = AUX_LD;
    CHECK_EQ(cublasLtMatmulDescCreate(&r.op, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
    set(&r, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta);
    set(&r, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb);
    set(&r, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    set(&r, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    set(&r, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux);
    set(&r, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
    CHECK_EQ(cublasLtMatrixLayoutCreate(&r.a, type, z.ta ? K : M, z.ta ? M : K, z.lda), 0);
    CHECK_EQ(cublasLtMatrixLayoutCreate(&r.b, type, z.tb ? N : K, z.tb ? K : N, z.ldb), 0);
    CHECK_EQ(cublasLtMatrixLayoutCreate(&r.d, type, M, N, z.ldd), 0);
    return r;
}

static void close_run(struct run *r)
{
    cublasLtMatmulDescDestroy(r->op);
    cublasLtMatrixLayoutDestroy(r->a);
    cublasLtMatrixLayoutDestroy(r->b);
    cublasLtMatrixLayoutDestroy(r->d);
}

static cublasStatus_t multiply(struct run *r, const void *a, const void *b, void *d)
{
    float alpha = 2, beta = 0.5f;
    return cublasLtMatmul(NULL, r->op, &alpha, a, r->a, b, r->b, &beta, d, r->d, d, r->d, NULL,
                          NULL, 0, NULL);
}

static float gelu(float x)
{
    return (float)(0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));
}

static bool near(float is, double wanted, cudaDataType type)
{
    return fabs(is - wanted) <= (type == CUDA_R_32F ? 1e-5 : 0.004) * fmax(1, fabs(wanted));
}

/* 2 op(A) op(B) + D / 2 at I, J. */
static double product(const struct run *r, const float *a, const float *b, const float *d, int i,
                      int j)
{
    double sum = 0;
    for (int k = 0; k < K; k++)
        sum += (double)a[r->z.ta ? i * r->z.lda + k : k * r->z.lda + i] *
               b[r->z.tb ? k * r->z.ldb + j : j * r->z.ldb + k];
    return 2 * sum + (double)d[j * r->z.ldd + i] / 2;
}

static void one(struct sizes z, cudaDataType type, uint32_t epilogue)
{
    float a[256], b[256], d[256], bias[256], aux[256], got[256], got_aux[256];
    void *at_a = numbers(z.lda * (z.ta ? M : K), 0, type, a);
    void *at_b = numbers(z.ldb * (z.tb ? K : N), 100, type, b);
    void *at_d = numbers(z.ldd * N, 200, type, d), *at_bias = numbers(M, 300, type, bias);
    void *at_aux = numbers(AUX_LD * N, 400, type, aux);
    struct run r = open_run(z, type, epilogue, at_bias, at_aux);
    CHECK_EQ(multiply(&r, at_a, at_b, at_d), CUBLAS_STATUS_SUCCESS);
    download(got, at_d, z.ldd * N, type);
    download(got_aux, at_aux, AUX_LD * N, type);
    bool with_bias = epilogue & CUBLASLT_EPILOGUE_BIAS,
         with_gelu = epilogue & CUBLASLT_EPILOGUE_GELU;
    bool with_aux = epilogue & 128;
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++) {
            double pre = product(&r, a, b, d, i, j) + (with_bias ? (double)bias[i] : 0);
            CHECK_ROW("row %d column %d", i, j);
            CHECK(near(got[j * z.ldd + i], with_gelu ? (double)gelu((float)pre) : pre, type));
            CHECK(!with_aux || near(got_aux[j * AUX_LD + i], pre, type));
        }
    for (int i = M; i < z.ldd; i++)
        CHECK(got[i] == d[i]); /* between columns nothing is touched */
    close_run(&r);
    cudaFree(at_a);
    cudaFree(at_b);
    cudaFree(at_bias);
}

TEST(products_and_forward_epilogues)
{
    static const struct sizes sizes[] = {{false, false, M, K, M},
                                         {true, false, K, K, 6},
                                         {false, true, 6, N, 7},
                                         {true, true, 10, 8, M}};
    static const uint32_t epilogues[] = {
        CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_GELU,
        CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t e = 0; e < sizeof epilogues / sizeof *epilogues; e++) {
            CHECK_ROW("sizes %zu epilogue %u", s, epilogues[e]);
            one(sizes[s], CUDA_R_32F, epilogues[e]);
            one(sizes[s], CUDA_R_16BF, epilogues[e]);
        }
}

/* The gradients of bias, and of GELU by a difference of two near values. */
TEST(backward_epilogues)
{
    struct sizes z = {false, false, M, K, M};
    float a[256], b[256], d[256], aux[256], got[256], bias[256];
    for (uint32_t e = CUBLASLT_EPILOGUE_DGELU; e <= CUBLASLT_EPILOGUE_BGRADB; e++) {
        if (e != CUBLASLT_EPILOGUE_DGELU && e != CUBLASLT_EPILOGUE_DGELU_BGRAD &&
            e != CUBLASLT_EPILOGUE_BGRADA && e != CUBLASLT_EPILOGUE_BGRADB)
            continue;
        CHECK_ROW("epilogue %u", e);
        void *at_a = numbers(M * K, 0, CUDA_R_32F, a), *at_b = numbers(K * N, 100, CUDA_R_32F, b);
        void *at_d = numbers(M * N, 200, CUDA_R_32F, d), *at_bias = numbers(N, 0, CUDA_R_32F, bias);
        void *at_aux = numbers(AUX_LD * N, 400, CUDA_R_32F, aux);
        struct run r = open_run(z, CUDA_R_32F, e, at_bias, at_aux);
        CHECK_EQ(multiply(&r, at_a, at_b, at_d), CUBLAS_STATUS_SUCCESS);
        download(got, at_d, M * N, CUDA_R_32F);
        download(bias, at_bias, N, CUDA_R_32F);
        double rows[M] = {0};
        for (int j = 0; j < N; j++)
            for (int i = 0; i < M; i++) {
                float x = aux[j * AUX_LD + i];
                double slope = ((double)gelu(x + 0.01f) - (double)gelu(x - 0.01f)) / 0.02;
                double wanted = product(&r, a, b, d, i, j) * (e & 64 ? slope : 1);
                rows[i] += wanted;
                CHECK(fabs(got[j * M + i] - wanted) < 0.01);
            }
        for (int i = 0; i < (e == CUBLASLT_EPILOGUE_BGRADB ? N : M); i++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += (double)(e == CUBLASLT_EPILOGUE_BGRADB ? b[i * K + k] : a[k * M + i]);
            if (e == CUBLASLT_EPILOGUE_DGELU_BGRAD)
                CHECK(fabs(bias[i] - rows[i]) < 0.05);
            else if (e != CUBLASLT_EPILOGUE_DGELU)
                CHECK(near(bias[i], sum, CUDA_R_32F));
        }
        close_run(&r);
        cudaFree(at_a);
        cudaFree(at_b);
        cudaFree(at_aux);
    }
}

TEST(what_does_not_go_together_is_refused)
{
    struct sizes z = {false, false, M, K, M};
    float x[256];
    void *at = numbers(64, 0, CUDA_R_32F, x), *small = numbers(4, 0, CUDA_R_32F, x);
    struct run r = open_run(z, CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT, NULL, NULL);
    CHECK_EQ(multiply(&r, at, at, small), CUBLAS_STATUS_INVALID_VALUE);
    CHECK_EQ(multiply(&r, x, at, at), CUBLAS_STATUS_INVALID_VALUE);
    cublasLtMatrixLayoutDestroy(r.b);
    CHECK_EQ(cublasLtMatrixLayoutCreate(&r.b, CUDA_R_32F, K + 1, N, K + 1), 0);
    CHECK_EQ(multiply(&r, at, at, at), CUBLAS_STATUS_INVALID_VALUE);
    close_run(&r);
    static const uint32_t beside[] = {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_DGELU};
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        void *const aux[] = {(char *)at + 4, small, NULL};
        for (size_t k = 0; k < sizeof aux / sizeof *aux; k++) {
            CHECK_ROW("epilogue %u, auxiliary matrix %zu", beside[i], k);
            r = open_run(z, CUDA_R_32F, beside[i], NULL, aux[k]);
            CHECK_EQ(multiply(&r, at, at, at), CUBLAS_STATUS_INVALID_VALUE);
            close_run(&r);
        }
    }
    cudaFree(at);
    cudaFree(small);
}

/* For matrices that begin at any float. */
static cublasLtMatmulAlgo_t algorithm_of(struct run *r)
{
    cublasLtMatmulHeuristicResult_t found;
    cublasLtMatmulPreference_t any;
    uint32_t aligned = 4;
    int count = 0;
    CHECK_EQ(cublasLtMatmulPreferenceCreate(&any), 0);
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
         i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; i++)
        CHECK_EQ(cublasLtMatmulPreferenceSetAttribute(any, (cublasLtMatmulPreferenceAttributes_t)i,
                                                      &aligned, sizeof aligned),
                 0);
    CHECK_EQ(
        cublasLtMatmulAlgoGetHeuristic(NULL, r->op, r->a, r->b, r->d, r->d, any, 1, &found, &count),
        0);
    CHECK_EQ(count, 1);
    cublasLtMatmulPreferenceDestroy(any);
    return found.algo;
}

/* Each matrix in turn has columns further apart than when the algorithm was found. */
TEST(an_algorithm_is_for_one_stride_of_each_matrix)
{
    static const struct sizes z[] = {{false, false, M, K, M},
                                     {false, false, M + 1, K, M},
                                     {false, false, M, K + 1, M},
                                     {false, false, M, K, M + 1}};
    float x[256], alpha = 1, beta = 0;
    void *at = numbers(100, 0, CUDA_R_32F, x), *to = numbers(100, 0, CUDA_R_32F, x);
    struct run r = open_run(z[0], CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT, NULL, NULL);
    cublasLtMatmulAlgo_t found = algorithm_of(&r);
    close_run(&r);
    for (size_t i = 0; i < sizeof z / sizeof z[0]; i++) {
        CHECK_ROW("columns of A, B, D are %d, %d, %d apart", z[i].lda, z[i].ldb, z[i].ldd);
        r = open_run(z[i], CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT, NULL, NULL);
        CHECK_EQ(cublasLtMatmul(NULL, r.op, &alpha, at, r.a, at, r.b, &beta, to, r.d, to, r.d,
                                &found, NULL, 0, NULL),
                 i == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE);
        close_run(&r);
    }
    cudaFree(at);
    cudaFree(to);
}

/* It may count on what it has seen: a bias that is aligned. */
TEST(an_algorithm_is_for_a_bias_that_begins_as_well)
{
    static const struct sizes z = {false, false, M, K, M};
    float x[256], alpha = 1, beta = 0;
    char *at = numbers(100, 0, CUDA_R_32F, x), *bias[] = {at + 16, at + 4};
    struct run r = open_run(z, CUDA_R_32F, CUBLASLT_EPILOGUE_BGRADA, bias[0], NULL);
    cublasLtMatmulAlgo_t found = algorithm_of(&r);
    for (int i = 0; i < 2; i++) {
        set(&r, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias[i], sizeof bias[i]);
        CHECK_EQ(cublasLtMatmul(NULL, r.op, &alpha, at, r.a, at, r.b, &beta, at, r.d, at, r.d,
                                &found, NULL, 0, NULL),
                 i == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE);
    }
    close_run(&r);
    cudaFree(at);
}
