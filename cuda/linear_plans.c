/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt is asked for a product in three steps: describe it, have the best algorithm found, run
 * that. The first two cost as much as a small product, so they are kept as a plan and done once for
 * each kind of product that a model has: a few dozen.
 *
 * cuBLASLt counts matrices by columns. What is row-major here is the transpose there, and as
 * (a b)' = b' a', the two change places: "A" below is our b, and D has our columns as its rows.
 *
 * The same product always has the same plan: no algorithm is tried out, pointers count only by
 * their alignment, and a sum is cut in parts only where these are kept as floats and joined in
 * order. */
#include "cuda/linear.h"

#include <cublasLt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLANS = 128,
    CANDIDATES = 8,
    ALIGNED = 16, /* bytes: more is of no use to any instruction */
};

/* All that an algorithm is chosen by. Numbers of one size, so that memcmp() sees no gaps. */
struct key {
    uint64_t elem, rows, columns, inner, a_transposed, b_transposed, add, after;
    uint64_t a_stride, b_stride, to_stride;
    uint64_t a_aligned, b_aligned, to_aligned, bias_aligned;
};

struct plan {
    struct key key;
    uint64_t used; /* when, by dt_cuda_linear.now; 0: empty */
    bool none;     /* cuBLASLt has no algorithm for it */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
};

struct dt_cuda_linear {
    cublasLtHandle_t handle;
    void *workspace;
    size_t bytes;
    bool fast, fuses_gelu;
    uint64_t now;
    int used; /* of plans, from the first */
    struct plan plans[PLANS];
};

static bool is_hopper_or_later(void)
{
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major >= 9;
}

struct dt_cuda_linear *dt_cuda_linear_open(void *workspace, size_t bytes, bool fast,
                                           struct dt_err *err)
{
    struct dt_cuda_linear *l = calloc(1, sizeof *l);
    if (!l) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the plans of matrix products");
        return NULL;
    }
    cublasStatus_t status = cublasLtCreate(&l->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        dt_err_set(err, DT_E_RUNTIME,
                   "cuBLASLt could not be started: %s; see that the libcublasLt that is loaded is "
                   "one for this driver",
                   cublasLtGetStatusName(status));
        free(l);
        return NULL;
    }
    l->workspace = workspace;
    l->bytes = workspace ? bytes : 0;
    l->fast = fast;
    l->fuses_gelu = is_hopper_or_later();
    return l;
}

bool dt_cuda_linear_fuses_gelu(const struct dt_cuda_linear *l)
{
    return l->fuses_gelu;
}

bool dt_cuda_linear_is_fast(const struct dt_cuda_linear *l)
{
    return l->fast;
}

static void plan_finish(struct plan *p)
{
    if (p->product)
        cublasLtMatmulDescDestroy(p->product);
    if (p->a)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->b)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->d)
        cublasLtMatrixLayoutDestroy(p->d);
    memset(p, 0, sizeof *p);
}

void dt_cuda_linear_close(struct dt_cuda_linear *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->used; i++)
        plan_finish(&l->plans[i]);
    cublasLtDestroy(l->handle);
    free(l);
}

static uint32_t alignment(const void *p)
{
    uintptr_t at = (uintptr_t)p | ALIGNED;
    return (uint32_t)(at & -at);
}

static size_t a_stride(const struct dt_cuda_product *p)
{
    size_t packed = p->a_transposed ? p->rows : p->inner;
    return p->a_stride ? p->a_stride : packed;
}

static size_t b_stride(const struct dt_cuda_product *p)
{
    size_t packed = p->b_transposed ? p->inner : p->columns;
    return p->b_stride ? p->b_stride : packed;
}

static size_t to_stride(const struct dt_cuda_product *p)
{
    return p->to_stride ? p->to_stride : p->columns;
}

/* A bias that is read, or one's gradient that is written; NULL: neither. */
static const void *bias_of(const struct dt_cuda_product *p)
{
    switch (p->after) {
    case DT_CUDA_BIAS:
    case DT_CUDA_BIAS_GELU:
    case DT_CUDA_BIAS_GELU_KEEP:
        return p->bias;
    case DT_CUDA_SUM_A:
    case DT_CUDA_SUM_B:
        return p->sums;
    default:
        return NULL;
    }
}

static struct key key_of(const struct dt_cuda_product *p)
{
    return (struct key){
        .elem = p->elem,
        .rows = p->rows,
        .columns = p->columns,
        .inner = p->inner,
        .a_transposed = p->a_transposed,
        .b_transposed = p->b_transposed,
        .add = p->add,
        .after = p->after,
        .a_stride = a_stride(p),
        .b_stride = b_stride(p),
        .to_stride = to_stride(p),
        .a_aligned = alignment(p->a),
        .b_aligned = alignment(p->b),
        .to_aligned = alignment(p->to),
        .bias_aligned = alignment(bias_of(p)),
    };
}

static bool keeps(enum dt_cuda_after after)
{
    return after == DT_CUDA_GELU_KEEP || after == DT_CUDA_BIAS_GELU_KEEP;
}

/* What cuBLASLt writes or reads beside the product, which it calls auxiliary; NULL: nothing. */
static const void *beside(const struct dt_cuda_product *p)
{
    if (keeps(p->after))
        return p->keep;
    return p->after == DT_CUDA_GELU_SLOPE ? p->kept : NULL;
}

static cublasLtEpilogue_t epilogue_of(enum dt_cuda_after after)
{
    switch (after) {
    case DT_CUDA_NOTHING:
        return CUBLASLT_EPILOGUE_DEFAULT;
    case DT_CUDA_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case DT_CUDA_GELU:
        return CUBLASLT_EPILOGUE_GELU;
    case DT_CUDA_BIAS_GELU:
        return CUBLASLT_EPILOGUE_GELU_BIAS;
    case DT_CUDA_GELU_KEEP:
        return CUBLASLT_EPILOGUE_GELU_AUX;
    case DT_CUDA_BIAS_GELU_KEEP:
        return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case DT_CUDA_GELU_SLOPE:
        return CUBLASLT_EPILOGUE_DGELU;
    case DT_CUDA_SUM_A:
        return CUBLASLT_EPILOGUE_BGRADB;
    case DT_CUDA_SUM_B:
        return CUBLASLT_EPILOGUE_BGRADA;
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
}

static cudaError_t cuda_error_of(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return cudaSuccess;
    case CUBLAS_STATUS_ALLOC_FAILED:
        return cudaErrorMemoryAllocation;
    case CUBLAS_STATUS_INVALID_VALUE:
        return cudaErrorInvalidValue;
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return cudaErrorNoKernelImageForDevice;
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return cudaErrorLaunchFailure;
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return cudaErrorNotSupported;
    default:
        return cudaErrorUnknown;
    }
}

/* A cudaError_t says too little of what cuBLASLt met, so the sentence is written here. */
static cudaError_t fail(const struct dt_cuda_product *p, cublasStatus_t status, struct dt_stream *s)
{
    if (s->failed.code == DT_E_NONE)
        dt_err_set(&s->failed, DT_E_RUNTIME,
                   "cuBLASLt could not multiply [%zu,%zu]%s by [%zu,%zu]%s of %s: %s", p->rows,
                   p->inner, p->a_transposed ? " (transposed)" : "", p->inner, p->columns,
                   p->b_transposed ? " (transposed)" : "", p->elem == DT_F32 ? "float" : "bfloat16",
                   cublasLtGetStatusName(status));
    return cuda_error_of(status);
}

/* STATUS if that is a failure already: a chain of these ends with the first. */
static cublasStatus_t describe(cublasStatus_t status, struct plan *plan,
                               cublasLtMatmulDescAttributes_t attribute, const void *value,
                               size_t size)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    return cublasLtMatmulDescSetAttribute(plan->product, attribute, value, size);
}

static cublasStatus_t prefer(cublasStatus_t status, cublasLtMatmulPreference_t preference,
                             cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                             size_t size)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    return cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, size);
}

/* A row-major matrix, as cuBLASLt sees it. */
static cublasStatus_t lay_out(cublasStatus_t status, cublasLtMatrixLayout_t *layout,
                              cudaDataType_t type, size_t rows, size_t columns, size_t stride)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    return cublasLtMatrixLayoutCreate(layout, type, columns, rows, (int64_t)stride);
}

/* Pointers are told before each use: cuBLASLt looks at them while the call lasts. */
static cublasStatus_t describe_pointers(cublasStatus_t status, struct plan *plan,
                                        const struct dt_cuda_product *p)
{
    const void *aux = beside(p), *bias = bias_of(p);
    if (bias)
        status = describe(status, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (aux)
        status =
            describe(status, plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux);
    return status;
}

static cublasStatus_t plan_describe(struct plan *plan, const struct dt_cuda_product *p, bool fast)
{
    bool exact = p->elem != DT_F32 || !fast;
    cudaDataType_t type = p->elem == DT_F32 ? CUDA_R_32F : CUDA_R_16BF;
    int32_t transpose_a = p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    int32_t transpose_b = p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint32_t epilogue = epilogue_of(p->after);
    int64_t aux_stride = (int64_t)p->columns;
    cublasStatus_t status = cublasLtMatmulDescCreate(
        &plan->product, exact ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F);

    status = describe(status, plan, CUBLASLT_MATMUL_DESC_TRANSA, &transpose_a, sizeof transpose_a);
    status = describe(status, plan, CUBLASLT_MATMUL_DESC_TRANSB, &transpose_b, sizeof transpose_b);
    status = describe(status, plan, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (beside(p))
        status = describe(status, plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_stride,
                          sizeof aux_stride);
    status = describe_pointers(status, plan, p);

    status = lay_out(status, &plan->a, type, p->b_transposed ? p->columns : p->inner,
                     p->b_transposed ? p->inner : p->columns, b_stride(p));
    status = lay_out(status, &plan->b, type, p->a_transposed ? p->inner : p->rows,
                     p->a_transposed ? p->rows : p->inner, a_stride(p));
    return lay_out(status, &plan->d, type, p->rows, p->columns, to_stride(p));
}

static cublasStatus_t state_preference(cublasLtMatmulPreference_t preference,
                                       const struct dt_cuda_linear *l,
                                       const struct dt_cuda_product *p)
{
    uint64_t workspace = l->bytes;
    uint32_t in_parts =
        l->fast ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t a = alignment(p->b), b = alignment(p->a), d = alignment(p->to);
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    status = prefer(status, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                    sizeof workspace);
    status = prefer(status, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &in_parts,
                    sizeof in_parts);
    status = prefer(status, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a);
    status = prefer(status, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b);
    status = prefer(status, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &d, sizeof d);
    return prefer(status, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d, sizeof d);
}

/* The first candidate that can be run is the one thought fastest. */
static cublasStatus_t plan_choose(struct plan *plan, const struct dt_cuda_linear *l,
                                  const struct dt_cuda_product *p)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    cublasLtMatmulPreference_t preference;
    int count = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);

    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    status = state_preference(preference, l, p);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(l->handle, plan->product, plan->a, plan->b, plan->d,
                                                plan->d, preference, CANDIDATES, found, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    for (int i = 0; i < count; i++) {
        if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= l->bytes) {
            plan->algorithm = found[i].algo;
            return CUBLAS_STATUS_SUCCESS;
        }
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* An empty place, or that of the plan that was not used for longest. */
static struct plan *place_for_plan(struct dt_cuda_linear *l)
{
    if (l->used < PLANS)
        return &l->plans[l->used++];
    struct plan *oldest = &l->plans[0];
    for (int i = 1; i < PLANS; i++)
        if (l->plans[i].used < oldest->used)
            oldest = &l->plans[i];
    plan_finish(oldest);
    return oldest;
}

/* An epilogue that cuBLASLt does not know for a type it may call an invalid value: to who asks, it
 * is one that is not there. */
static cublasStatus_t judge(cublasStatus_t status, const struct dt_cuda_product *p)
{
    bool invalid = status == CUBLAS_STATUS_INVALID_VALUE;
    return invalid && p->after != DT_CUDA_NOTHING ? CUBLAS_STATUS_NOT_SUPPORTED : status;
}

/* That there is no algorithm is a plan too; one that failed otherwise leaves its place empty, to be
 * the first that is taken again once all are full. */
static cublasStatus_t find_plan(struct dt_cuda_linear *l, const struct dt_cuda_product *p,
                                struct plan **plan)
{
    struct key key = key_of(p);
    for (int i = 0; i < l->used; i++) {
        *plan = &l->plans[i];
        if (l->plans[i].used && !memcmp(&key, &l->plans[i].key, sizeof key)) {
            l->plans[i].used = ++l->now;
            return l->plans[i].none ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
        }
    }
    *plan = place_for_plan(l);
    cublasStatus_t status = plan_describe(*plan, p, l->fast);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = plan_choose(*plan, l, p);
    status = judge(status, p);
    if (status != CUBLAS_STATUS_SUCCESS)
        plan_finish(*plan);
    if (status == CUBLAS_STATUS_SUCCESS || status == CUBLAS_STATUS_NOT_SUPPORTED) {
        (*plan)->key = key;
        (*plan)->used = ++l->now;
        (*plan)->none = status == CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return status;
}

cudaError_t dt_cuda_multiply(const struct dt_cuda_product *p, struct dt_stream *s)
{
    struct dt_cuda_linear *l = s->linear;
    const float one = 1, zero = 0;
    struct plan *plan;

    if (p->elem != DT_F32 && p->elem != DT_BF16)
        return fail(p, CUBLAS_STATUS_INVALID_VALUE, s);
    cublasStatus_t status = find_plan(l, p, &plan);
    status = describe_pointers(status, plan, p);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmul(l->handle, plan->product, &one, p->b, plan->a, p->a, plan->b,
                                p->add ? &one : &zero, p->to, plan->d, p->to, plan->d,
                                &plan->algorithm, l->workspace, l->bytes, s->compute);
    status = judge(status, p);
    if (status == CUBLAS_STATUS_SUCCESS)
        return cudaSuccess;
    return status == CUBLAS_STATUS_NOT_SUPPORTED && p->after != DT_CUDA_NOTHING
               ? cudaErrorNotSupported
               : fail(p, status, s);
}
