/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cudnn/graph.h"

#include <string.h>

enum { ALIGNED = 16 }; /* bytes: of all memory that is given */

void dt_cudnn_graph_begin(struct dt_cudnn_graph *g, const struct dt_cudnn_calls *calls)
{
    *g = (struct dt_cudnn_graph){.calls = calls};
}

/* The last that was made is built on those before it. */
void dt_cudnn_graph_finish(struct dt_cudnn_graph *g)
{
    while (g->made_count > 0)
        g->calls->unmake(g->made[--g->made_count]);
    *g = (struct dt_cudnn_graph){0};
}

int dt_cudnn_fail(const struct dt_cudnn_calls *calls, int status, const char *what,
                  struct dt_err *err)
{
    char reason[300] = "";
    calls->last_error(reason, sizeof reason);
    reason[sizeof reason - 1] = '\0';
    return dt_err_set(err, DT_E_RUNTIME, "%s: cuDNN says %s%s%s%s", what, calls->text(status),
                      reason[0] ? " (" : "", reason, reason[0] ? ")" : "");
}

static bool has_failed(const struct dt_cudnn_graph *g)
{
    return g->failed.code != DT_E_NONE;
}

/* The first status that is none of success is the graph's. */
static void keep(struct dt_cudnn_graph *g, int status, const char *what)
{
    if (status != DT_CUDNN_SUCCESS && !has_failed(g))
        dt_cudnn_fail(g->calls, status, what, &g->failed);
}

void *dt_cudnn_make(struct dt_cudnn_graph *g, enum dt_cudnn_kind kind)
{
    void *made = NULL;
    if (has_failed(g))
        return NULL;
    if (g->made_count == DT_CUDNN_DESCRIPTORS) {
        dt_err_set(&g->failed, DT_E_RUNTIME, "a graph for cuDNN has more than %d descriptors",
                   DT_CUDNN_DESCRIPTORS);
        return NULL;
    }
    int status = g->calls->make(kind, &made);
    if (status == DT_CUDNN_SUCCESS)
        g->made[g->made_count++] = made;
    keep(g, status, "making a descriptor");
    return status == DT_CUDNN_SUCCESS ? made : NULL;
}

void dt_cudnn_set(struct dt_cudnn_graph *g, void *descriptor, enum dt_cudnn_attribute attribute,
                  enum dt_cudnn_value type, int64_t count, const void *values)
{
    if (!has_failed(g))
        keep(g, g->calls->set(descriptor, attribute, type, count, values), "describing a graph");
}

void dt_cudnn_finalize(struct dt_cudnn_graph *g, void *descriptor, const char *what)
{
    if (!has_failed(g))
        keep(g, g->calls->finalize(descriptor), what);
}

/* -- tensors ---------------------------------------------------------------------------------- */

enum lasting { GIVEN, BY_VALUE, VIRTUAL };

static struct dt_cudnn_tensor tensor(struct dt_cudnn_graph *g, int64_t id, enum dt_cudnn_type type,
                                     const int64_t size[DT_CUDNN_DIMS],
                                     const int64_t stride[DT_CUDNN_DIMS], enum lasting lasting)
{
    struct dt_cudnn_tensor t = {dt_cudnn_make(g, DT_CUDNN_TENSOR), .id = id, .type = type};
    const int64_t aligned = ALIGNED;
    const bool yes = true;
    memcpy(t.size, size, sizeof t.size);
    memcpy(t.stride, stride, sizeof t.stride);
    dt_cudnn_set(g, t.descriptor, DT_CUDNN_TENSOR_TYPE, DT_CUDNN_OF_DATA_TYPE, 1, &type);
    dt_cudnn_set(g, t.descriptor, DT_CUDNN_TENSOR_SIZES, DT_CUDNN_OF_INT64, DT_CUDNN_DIMS, size);
    dt_cudnn_set(g, t.descriptor, DT_CUDNN_TENSOR_STRIDES, DT_CUDNN_OF_INT64, DT_CUDNN_DIMS,
                 stride);
    dt_cudnn_set(g, t.descriptor, DT_CUDNN_TENSOR_ID, DT_CUDNN_OF_INT64, 1, &id);
    dt_cudnn_set(g, t.descriptor, DT_CUDNN_TENSOR_ALIGNMENT, DT_CUDNN_OF_INT64, 1, &aligned);
    if (lasting == BY_VALUE)
        dt_cudnn_set(g, t.descriptor, DT_CUDNN_TENSOR_IS_BY_VALUE, DT_CUDNN_OF_BOOL, 1, &yes);
    if (lasting == VIRTUAL)
        dt_cudnn_set(g, t.descriptor, DT_CUDNN_TENSOR_IS_VIRTUAL, DT_CUDNN_OF_BOOL, 1, &yes);
    dt_cudnn_finalize(g, t.descriptor, "a tensor");
    return t;
}

struct dt_cudnn_tensor dt_cudnn_given(struct dt_cudnn_graph *g, int64_t id, enum dt_cudnn_type type,
                                      const int64_t size[DT_CUDNN_DIMS],
                                      const int64_t stride[DT_CUDNN_DIMS])
{
    return tensor(g, id, type, size, stride, GIVEN);
}

struct dt_cudnn_tensor dt_cudnn_number(struct dt_cudnn_graph *g, int64_t id,
                                       enum dt_cudnn_type type)
{
    const int64_t ones[DT_CUDNN_DIMS] = {1, 1, 1, 1};
    return tensor(g, id, type, ones, ones, BY_VALUE);
}

/* Their ids are beyond those that callers give. */
static struct dt_cudnn_tensor unseen(struct dt_cudnn_graph *g, enum dt_cudnn_type type,
                                     const int64_t size[DT_CUDNN_DIMS],
                                     const int64_t stride[DT_CUDNN_DIMS])
{
    enum { FIRST = 1000 };
    return tensor(g, FIRST + g->last_id++, type, size, stride, VIRTUAL);
}

struct dt_cudnn_tensor dt_cudnn_between(struct dt_cudnn_graph *g, enum dt_cudnn_type type,
                                        int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t size[DT_CUDNN_DIMS] = {a, b, c, d};
    const int64_t stride[DT_CUDNN_DIMS] = {b * c * d, c * d, d, 1};
    return unseen(g, type, size, stride);
}

static struct dt_cudnn_tensor like(struct dt_cudnn_graph *g, enum dt_cudnn_type type,
                                   struct dt_cudnn_tensor x)
{
    return dt_cudnn_between(g, type, x.size[0], x.size[1], x.size[2], x.size[3]);
}

/* -- operations ------------------------------------------------------------------------------- */

static void point_at(struct dt_cudnn_graph *g, void *operation, enum dt_cudnn_attribute attribute,
                     void *descriptor)
{
    dt_cudnn_set(g, operation, attribute, DT_CUDNN_OF_DESCRIPTOR, 1, &descriptor);
}

static void add_operation(struct dt_cudnn_graph *g, void *operation, const char *what)
{
    dt_cudnn_finalize(g, operation, what);
    if (has_failed(g))
        return;
    if (g->operation_count == DT_CUDNN_OPERATIONS) {
        dt_err_set(&g->failed, DT_E_RUNTIME, "a graph for cuDNN has more than %d operations",
                   DT_CUDNN_OPERATIONS);
        return;
    }
    g->operations[g->operation_count++] = operation;
}

void dt_cudnn_multiply(struct dt_cudnn_graph *g, struct dt_cudnn_tensor to,
                       struct dt_cudnn_tensor x, struct dt_cudnn_tensor b)
{
    const enum dt_cudnn_type precision = DT_CUDNN_FLOAT;
    void *what = dt_cudnn_make(g, DT_CUDNN_MATMUL);
    dt_cudnn_set(g, what, DT_CUDNN_MATMUL_PRECISION, DT_CUDNN_OF_DATA_TYPE, 1, &precision);
    dt_cudnn_finalize(g, what, "a product of matrices");
    void *operation = dt_cudnn_make(g, DT_CUDNN_MATMUL_OPERATION);
    point_at(g, operation, DT_CUDNN_MATMUL_OPERATION_A, x.descriptor);
    point_at(g, operation, DT_CUDNN_MATMUL_OPERATION_B, b.descriptor);
    point_at(g, operation, DT_CUDNN_MATMUL_OPERATION_C, to.descriptor);
    point_at(g, operation, DT_CUDNN_MATMUL_OPERATION_WHAT, what);
    add_operation(g, operation, "a product of matrices");
}

struct pointwise {
    enum dt_cudnn_mode mode;
    enum dt_cudnn_type precision;
    int64_t axis; /* -1: none */
};

static void pointwise(struct dt_cudnn_graph *g, struct pointwise p, struct dt_cudnn_tensor to,
                      struct dt_cudnn_tensor x, const struct dt_cudnn_tensor *b,
                      const struct dt_cudnn_tensor *t)
{
    void *what = dt_cudnn_make(g, DT_CUDNN_POINTWISE);
    dt_cudnn_set(g, what, DT_CUDNN_POINTWISE_MODE, DT_CUDNN_OF_POINTWISE_MODE, 1, &p.mode);
    dt_cudnn_set(g, what, DT_CUDNN_POINTWISE_PRECISION, DT_CUDNN_OF_DATA_TYPE, 1, &p.precision);
    if (p.axis >= 0)
        dt_cudnn_set(g, what, DT_CUDNN_POINTWISE_AXIS, DT_CUDNN_OF_INT64, 1, &p.axis);
    dt_cudnn_finalize(g, what, "an operation on each element");
    void *operation = dt_cudnn_make(g, DT_CUDNN_POINTWISE_OPERATION);
    point_at(g, operation, DT_CUDNN_POINTWISE_OPERATION_WHAT, what);
    point_at(g, operation, DT_CUDNN_POINTWISE_OPERATION_X, x.descriptor);
    point_at(g, operation, DT_CUDNN_POINTWISE_OPERATION_Y, to.descriptor);
    if (b)
        point_at(g, operation, DT_CUDNN_POINTWISE_OPERATION_B, b->descriptor);
    if (t)
        point_at(g, operation, DT_CUDNN_POINTWISE_OPERATION_T, t->descriptor);
    add_operation(g, operation, "an operation on each element");
}

void dt_cudnn_each_to(struct dt_cudnn_graph *g, enum dt_cudnn_mode mode, struct dt_cudnn_tensor to,
                      struct dt_cudnn_tensor x, const struct dt_cudnn_tensor *b)
{
    enum dt_cudnn_type precision = to.type == DT_CUDNN_INT32 ? DT_CUDNN_INT32 : DT_CUDNN_FLOAT;
    pointwise(g, (struct pointwise){mode, precision, -1}, to, x, b, NULL);
}

struct dt_cudnn_tensor dt_cudnn_each(struct dt_cudnn_graph *g, enum dt_cudnn_mode mode,
                                     struct dt_cudnn_tensor x, const struct dt_cudnn_tensor *b)
{
    enum dt_cudnn_type type = x.type == DT_CUDNN_INT32 ? DT_CUDNN_INT32 : DT_CUDNN_FLOAT;
    struct dt_cudnn_tensor to = like(g, type, x);
    dt_cudnn_each_to(g, mode, to, x, b);
    return to;
}

struct dt_cudnn_tensor dt_cudnn_index(struct dt_cudnn_graph *g, struct dt_cudnn_tensor x,
                                      int64_t axis)
{
    struct dt_cudnn_tensor to = like(g, DT_CUDNN_INT32, x);
    pointwise(g, (struct pointwise){DT_CUDNN_INDEX, DT_CUDNN_FLOAT, axis}, to, x, NULL, NULL);
    return to;
}

struct dt_cudnn_tensor dt_cudnn_compare(struct dt_cudnn_graph *g, enum dt_cudnn_mode mode,
                                        struct dt_cudnn_tensor x, struct dt_cudnn_tensor b)
{
    struct dt_cudnn_tensor to = like(g, DT_CUDNN_BOOLEAN, x);
    pointwise(g, (struct pointwise){mode, DT_CUDNN_BOOLEAN, -1}, to, x, &b, NULL);
    return to;
}

struct dt_cudnn_tensor dt_cudnn_select(struct dt_cudnn_graph *g, struct dt_cudnn_tensor x,
                                       struct dt_cudnn_tensor b, struct dt_cudnn_tensor which)
{
    struct dt_cudnn_tensor to = like(g, DT_CUDNN_FLOAT, x);
    pointwise(g, (struct pointwise){DT_CUDNN_SELECT, DT_CUDNN_FLOAT, -1}, to, x, &b, &which);
    return to;
}

void dt_cudnn_reduce(struct dt_cudnn_graph *g, enum dt_cudnn_reduction op,
                     struct dt_cudnn_tensor to, struct dt_cudnn_tensor x)
{
    const enum dt_cudnn_type precision = DT_CUDNN_FLOAT;
    void *what = dt_cudnn_make(g, DT_CUDNN_REDUCTION);
    dt_cudnn_set(g, what, DT_CUDNN_REDUCTION_OPERATOR, DT_CUDNN_OF_REDUCTION_OPERATOR, 1, &op);
    dt_cudnn_set(g, what, DT_CUDNN_REDUCTION_PRECISION, DT_CUDNN_OF_DATA_TYPE, 1, &precision);
    dt_cudnn_finalize(g, what, "a reduction");
    void *operation = dt_cudnn_make(g, DT_CUDNN_REDUCTION_OPERATION);
    point_at(g, operation, DT_CUDNN_REDUCTION_OPERATION_X, x.descriptor);
    point_at(g, operation, DT_CUDNN_REDUCTION_OPERATION_Y, to.descriptor);
    point_at(g, operation, DT_CUDNN_REDUCTION_OPERATION_WHAT, what);
    add_operation(g, operation, "a reduction");
}

static struct dt_cudnn_tensor reshape(struct dt_cudnn_graph *g, struct dt_cudnn_tensor x,
                                      struct dt_cudnn_tensor to)
{
    void *operation = dt_cudnn_make(g, DT_CUDNN_RESHAPE_OPERATION);
    point_at(g, operation, DT_CUDNN_RESHAPE_OPERATION_X, x.descriptor);
    point_at(g, operation, DT_CUDNN_RESHAPE_OPERATION_Y, to.descriptor);
    add_operation(g, operation, "a transposition");
    return to;
}

/* The same elements in the same places: the strides change about, too. */
struct dt_cudnn_tensor dt_cudnn_transpose(struct dt_cudnn_graph *g, struct dt_cudnn_tensor x,
                                          enum dt_cudnn_type type)
{
    const int64_t size[DT_CUDNN_DIMS] = {x.size[0], x.size[1], x.size[3], x.size[2]};
    const int64_t stride[DT_CUDNN_DIMS] = {x.stride[0], x.stride[1], x.stride[3], x.stride[2]};
    return reshape(g, x, unseen(g, type, size, stride));
}
