/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt as plain loops, by what NVIDIA's documentation says of it: column-major matrices of
 * float or bfloat16, products and sums in float, and the epilogues of bias and GELU (its tanh
 * form). What it refuses a real one may refuse too: an algorithm for other sizes, strides or types
 * than it was found for, pointers less aligned than was promised or seen then, auxiliary leading
 * dimensions that are no multiple of 8. With DT_EMULATOR_PLAIN_PRODUCTS set it has no algorithm for
 * any epilogue; with DT_EMULATOR_WHOLE_PRODUCTS none for what a real one does slowly, products of
 * bfloat16 that are wide and of an extent that is no multiple of 8. Device
 * DT_EMULATOR_WRONG_PRODUCT is broken: the first element of what it puts out is off by 1.
 */
#include "tests/gpu/emulator/memory.h"
#include "tests/gpu/emulator/stream.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

using namespace dt_emulator;

namespace
{

struct layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
};

struct operation {
    cublasComputeType_t compute;
    cudaDataType scale;
    int32_t transposed_a = CUBLAS_OP_N, transposed_b = CUBLAS_OP_N;
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void *bias = nullptr, *aux = nullptr;
    int64_t aux_ld = 0;
    int32_t bias_type = -1, aux_type = -1; /* -1: as D */
};

struct preference {
    uint32_t alignment[4] = {256, 256, 256, 256}; /* of A, B, C, D */
    uint64_t workspace = 0;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK, search = 0;
};

/* One product: D = epilogue(alpha op(A) op(B) + beta C). */
struct problem {
    operation op;
    layout a, b, c, d;
    uint64_t m, n, k;
};

/* What stands in a cublasLtMatmulAlgo_t. */
struct algorithm {
    uint64_t problem;
    uint32_t alignment[4], of_bias, of_aux;
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm is too large");

enum : uint32_t { BIAS = 4, BIAS_GRADIENT = 16, GELU = 32, GELU_GRADIENT = 64, AUX = 128 };

operation *of(cublasLtMatmulDesc_t d)
{
    return reinterpret_cast<operation *>(d);
}

layout *of(cublasLtMatrixLayout_t l)
{
    return reinterpret_cast<layout *>(l);
}

preference *of(cublasLtMatmulPreference_t p)
{
    return reinterpret_cast<preference *>(p);
}

cublasStatus_t refuse(cublasStatus_t status, const char *why)
{
    fprintf(stderr, "emulator: cuBLASLt: %s\n", why);
    return status;
}

template <class T> cublasStatus_t set(T *attribute, const void *from, size_t bytes)
{
    if (bytes != sizeof *attribute)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute of another size");
    memcpy(attribute, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* -- elements --------------------------------------------------------------------------------- */

size_t size_of(int32_t type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

float get(const void *at, size_t i, int32_t type)
{
    return type == CUDA_R_32F ? static_cast<const float *>(at)[i]
                              : __bfloat162float(static_cast<const __nv_bfloat16 *>(at)[i]);
}

void put_element(void *at, size_t i, int32_t type, float x)
{
    if (type == CUDA_R_32F)
        static_cast<float *>(at)[i] = x;
    else
        static_cast<__nv_bfloat16 *>(at)[i] = __float2bfloat16_rn(x);
}

/* op(X) as floats, column by column: ROWS x COLS. */
std::vector<float> read(const void *x, const layout &l, bool transposed, size_t rows, size_t cols)
{
    std::vector<float> all(rows * cols);
    for (size_t j = 0; j < cols; j++)
        for (size_t i = 0; i < rows; i++)
            all[j * rows + i] =
                get(x, transposed ? i * size_t(l.ld) + j : j * size_t(l.ld) + i, l.type);
    return all;
}

/* -- arithmetic ------------------------------------------------------------------------------- */

float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

float gelu_slope(float x)
{
    float t = tanhf(0.79788456f * (x + 0.044715f * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.79788456f * (1 + 3 * 0.044715f * x * x);
}

/* What the epilogue makes of element I, J. */
float finish(const problem &p, float x, size_t i, size_t j)
{
    const operation &op = p.op;
    int32_t aux_type = op.aux_type < 0 ? p.d.type : op.aux_type;
    int32_t bias_type = op.bias_type < 0 ? p.d.type : op.bias_type;
    size_t at = j * size_t(op.aux_ld) + i;
    if (op.epilogue & BIAS)
        x += get(op.bias, i, bias_type);
    if (op.epilogue & GELU_GRADIENT)
        return x * gelu_slope(get(op.aux, at, aux_type));
    if (op.epilogue & AUX)
        put_element(op.aux, at, aux_type, x);
    return op.epilogue & GELU ? gelu(x) : x;
}

/* The sums over k of an input, or of what was put out over its columns. */
void bias_gradients(const problem &p, const std::vector<float> &a, const std::vector<float> &b,
                    const std::vector<float> &rows_of_d)
{
    int32_t type = p.op.bias_type < 0 ? p.d.type : p.op.bias_type;
    if (p.op.epilogue & BIAS_GRADIENT)
        for (size_t i = 0; i < p.m; i++)
            put_element(p.op.bias, i, type, rows_of_d[i]);
    if (p.op.epilogue == CUBLASLT_EPILOGUE_BGRADA)
        for (size_t i = 0; i < p.m; i++) {
            float sum = 0;
            for (size_t k = 0; k < p.k; k++)
                sum += a[k * p.m + i];
            put_element(p.op.bias, i, type, sum);
        }
    if (p.op.epilogue == CUBLASLT_EPILOGUE_BGRADB)
        for (size_t j = 0; j < p.n; j++) {
            float sum = 0;
            for (size_t k = 0; k < p.k; k++)
                sum += b[j * p.k + k];
            put_element(p.op.bias, j, type, sum);
        }
}

void multiply(const problem &p, float alpha, float beta, const void *a, const void *b,
              const void *c, void *d)
{
    std::vector<float> x = read(a, p.a, p.op.transposed_a == CUBLAS_OP_T, p.m, p.k);
    std::vector<float> y = read(b, p.b, p.op.transposed_b == CUBLAS_OP_T, p.k, p.n);
    std::vector<float> column(p.m), rows_of_d(p.m);
    for (size_t j = 0; j < p.n; j++) {
        column.assign(p.m, 0);
        for (size_t k = 0; k < p.k; k++)
            for (size_t i = 0; i < p.m; i++)
                column[i] += x[k * p.m + i] * y[j * p.k + k];
        for (size_t i = 0; i < p.m; i++) {
            float sum = alpha * column[i];
            if (beta != 0)
                sum += beta * get(c, j * size_t(p.c.ld) + i, p.c.type);
            sum = finish(p, sum, i, j);
            rows_of_d[i] += sum;
            put_element(d, j * size_t(p.d.ld) + i, p.d.type, sum);
        }
    }
    bias_gradients(p, x, y, rows_of_d);
}

/* -- what is possible ------------------------------------------------------------------------- */

bool is_known_type(int32_t type)
{
    return type == CUDA_R_32F || type == CUDA_R_16BF;
}

bool is_known_epilogue(uint32_t e)
{
    static const uint32_t known[] = {
        CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,        CUBLASLT_EPILOGUE_GELU,
        CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
        CUBLASLT_EPILOGUE_BGRADB,
    };
    for (uint32_t k : known)
        if (e == k)
            return true;
    return false;
}

cublasStatus_t check_types(const problem &p)
{
    bool exact = p.op.compute == CUBLAS_COMPUTE_32F || p.op.compute == CUBLAS_COMPUTE_32F_PEDANTIC;
    if (!exact && p.op.compute != CUBLAS_COMPUTE_32F_FAST_TF32)
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "a type of arithmetic that is not known here");
    if (p.op.scale != CUDA_R_32F || !is_known_type(p.a.type) || p.a.type != p.b.type ||
        !is_known_type(p.c.type) || p.c.type != p.d.type ||
        (p.a.type == CUDA_R_32F && p.d.type != CUDA_R_32F))
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "types that do not go together");
    if (p.op.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type != CUDA_R_32F)
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "TF32 arithmetic of what is not float");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_extents(const problem &p)
{
    if (p.a.type != CUDA_R_16BF || !getenv("DT_EMULATOR_WHOLE_PRODUCTS"))
        return CUBLAS_STATUS_SUCCESS;
    for (uint64_t extent : {p.m, p.n, p.k})
        if (extent >= 256 && extent % 8 != 0)
            return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_epilogue(const problem &p)
{
    const operation &op = p.op;
    const char *plain = getenv("DT_EMULATOR_PLAIN_PRODUCTS");
    if (op.epilogue != CUBLASLT_EPILOGUE_DEFAULT && plain)
        return strcmp(plain, "invalid") == 0 ? CUBLAS_STATUS_INVALID_VALUE
                                             : CUBLAS_STATUS_NOT_SUPPORTED;
    if (!is_known_epilogue(op.epilogue))
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "an epilogue that is not known here");
    bool flags = op.epilogue < CUBLASLT_EPILOGUE_BGRADA;
    if (flags && (op.epilogue & AUX)) {
        if (op.aux_ld % 8 != 0 || op.aux_ld < int64_t(p.m))
            return refuse(CUBLAS_STATUS_INVALID_VALUE,
                          "the leading dimension of the auxiliary matrix is too small, or no "
                          "multiple of 8");
        if (!op.aux || reinterpret_cast<uintptr_t>(op.aux) % 16 != 0)
            return refuse(CUBLAS_STATUS_INVALID_VALUE,
                          "the auxiliary matrix is not 16-byte aligned");
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t describe(problem *p, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                        cublasLtMatrixLayout_t d)
{
    *p = {*of(op), *of(a), *of(b), *of(c), *of(d), 0, 0, 0};
    bool ta = p->op.transposed_a == CUBLAS_OP_T, tb = p->op.transposed_b == CUBLAS_OP_T;
    p->m = ta ? p->a.cols : p->a.rows;
    p->k = ta ? p->a.rows : p->a.cols;
    p->n = tb ? p->b.rows : p->b.cols;
    if (p->k != (tb ? p->b.cols : p->b.rows) || p->d.rows != p->m || p->d.cols != p->n ||
        p->c.rows != p->m || p->c.cols != p->n)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "sizes that do not go together");
    if (p->m == 0 || p->n == 0 || p->k == 0)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "a matrix without elements");
    for (const layout *l : {&p->a, &p->b, &p->c, &p->d})
        if (l->ld < int64_t(l->rows))
            return refuse(CUBLAS_STATUS_INVALID_VALUE, "a leading dimension less than the rows");
    cublasStatus_t e = check_types(*p);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = check_extents(*p);
    return e == CUBLAS_STATUS_SUCCESS ? check_epilogue(*p) : e;
}

uint64_t fingerprint(const problem &p)
{
    const uint64_t parts[] = {p.m,
                              p.n,
                              p.k,
                              uint64_t(p.a.ld),
                              uint64_t(p.b.ld),
                              uint64_t(p.d.ld),
                              uint64_t(p.a.type),
                              uint64_t(p.d.type),
                              uint64_t(p.op.transposed_a),
                              uint64_t(p.op.transposed_b),
                              uint64_t(p.op.compute),
                              p.op.epilogue};
    uint64_t hash = 1469598103934665603u;
    for (uint64_t part : parts)
        hash = (hash ^ part) * 1099511628211u;
    return hash;
}

/* As far as cuBLASLt may count on it when it looks for an algorithm. */
uint32_t alignment_of(const void *at)
{
    uintptr_t bits = reinterpret_cast<uintptr_t>(at) | 16;
    return uint32_t(bits & -bits);
}

/* Epilogues of bias read or write one value a row of D (a column, for B's gradient). */
cublasStatus_t check_memory(const problem &p, const void *const at[4])
{
    const layout *l[4] = {&p.a, &p.b, &p.c, &p.d};
    for (int i = 0; i < 4; i++) {
        size_t elements = size_t(l[i]->ld) * (l[i]->cols - 1) + l[i]->rows;
        if (at[i] && !device_holds(at[i], elements * size_of(l[i]->type)))
            return refuse(CUBLAS_STATUS_INVALID_VALUE, "a matrix that is not on the device, or "
                                                       "reaches beyond its memory");
    }
    uint32_t e = p.op.epilogue;
    bool of_input = e == CUBLASLT_EPILOGUE_BGRADA || e == CUBLASLT_EPILOGUE_BGRADB;
    if (of_input || (e & (BIAS | BIAS_GRADIENT))) {
        size_t n = e == CUBLASLT_EPILOGUE_BGRADB ? p.n : p.m;
        int32_t type = p.op.bias_type < 0 ? p.d.type : p.op.bias_type;
        if (!device_holds(p.op.bias, n * size_of(type)))
            return refuse(CUBLAS_STATUS_INVALID_VALUE, "a bias that is not on the device");
    }
    if (!of_input && (e & AUX)) {
        int32_t type = p.op.aux_type < 0 ? p.d.type : p.op.aux_type;
        size_t elements = size_t(p.op.aux_ld) * (p.n - 1) + p.m;
        if (!device_holds(p.op.aux, elements * size_of(type)))
            return refuse(CUBLAS_STATUS_INVALID_VALUE,
                          "an auxiliary matrix that is not on the device");
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_algorithm(const problem &p, const cublasLtMatmulAlgo_t *given,
                               const void *const at[4])
{
    algorithm algo;
    if (!given)
        return CUBLAS_STATUS_SUCCESS;
    memcpy(&algo, given, sizeof algo);
    if (algo.problem != fingerprint(p))
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "an algorithm found for another product");
    for (int i = 0; i < 4; i++)
        if (reinterpret_cast<uintptr_t>(at[i]) % algo.alignment[i] != 0)
            return refuse(CUBLAS_STATUS_INVALID_VALUE,
                          "a matrix that is less aligned than the algorithm was asked for");
    if (alignment_of(p.op.bias) < algo.of_bias || alignment_of(p.op.aux) < algo.of_aux)
        return refuse(CUBLAS_STATUS_INVALID_VALUE,
                      "a bias or an auxiliary matrix that is less aligned than the one that the "
                      "algorithm was found for");
    return CUBLAS_STATUS_SUCCESS;
}

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = reinterpret_cast<cublasLtHandle_t>(new int());
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete reinterpret_cast<int *>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "CUBLAS_STATUS of another kind";
    }
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *l = reinterpret_cast<cublasLtMatrixLayout_t>(new layout{type, rows, cols, ld});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    delete of(l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    operation *op = new operation();
    op->compute = compute;
    op->scale = scale;
    *d = reinterpret_cast<cublasLtMatmulDesc_t>(op);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    delete of(d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void *from, size_t bytes)
{
    operation *op = of(d);
    switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&op->transposed_a, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&op->transposed_b, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&op->epilogue, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&op->bias, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return set(&op->bias_type, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return set(&op->aux, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return set(&op->aux_ld, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
        return set(&op->aux_type, from, bytes);
    default:
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "an attribute of products not known here");
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = reinterpret_cast<cublasLtMatmulPreference_t>(new preference());
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete of(p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void *from, size_t bytes)
{
    switch (which) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
        return set(&of(p)->search, from, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(&of(p)->workspace, from, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set(&of(p)->reductions, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return set(&of(p)->alignment[0], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return set(&of(p)->alignment[1], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return set(&of(p)->alignment[2], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(&of(p)->alignment[3], from, bytes);
    default:
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "an attribute of preferences not known here");
    }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t op,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preferred, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    problem p;
    *found = 0;
    cublasStatus_t e = describe(&p, op, a, b, c, d);
    if (e != CUBLAS_STATUS_SUCCESS)
        return e;
    if (wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    algorithm algo = {fingerprint(p), {}, alignment_of(p.op.bias), alignment_of(p.op.aux)};
    memcpy(algo.alignment, of(preferred)->alignment, sizeof algo.alignment);
    memset(results, 0, sizeof *results);
    memcpy(&results->algo, &algo, sizeof algo);
    results->state = CUBLAS_STATUS_SUCCESS;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t op, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t stream)
{
    problem p;
    cublasStatus_t e = describe(&p, op, la, lb, lc, ld);
    if (e != CUBLAS_STATUS_SUCCESS)
        return e;
    float scale = *static_cast<const float *>(alpha), keep = *static_cast<const float *>(beta);
    const void *const at[4] = {a, b, c, d};
    if (!a || !b || !d || (!c && keep != 0) || (c == d && p.c.ld != p.d.ld))
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "a matrix is missing, or C is D, but for ld");
    e = check_algorithm(p, algo, at);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = check_memory(p, at);
    if (e != CUBLAS_STATUS_SUCCESS)
        return e;
    bool wrong = number_from("DT_EMULATOR_WRONG_PRODUCT", SIZE_MAX) == size_t(device_of(stream));
    put(stream, [=] {
        device_work now;
        multiply(p, scale, keep, a, b, c, d);
        if (wrong)
            put_element(d, 0, p.d.type, get(d, 0, p.d.type) + 1);
        return true;
    });
    return CUBLAS_STATUS_SUCCESS;
}

} /* extern "C" */
