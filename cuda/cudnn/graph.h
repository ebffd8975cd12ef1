/* SPDX-License-Identifier: Apache-2.0 */
/* A computation told to cuDNN: tensors of four dimensions and operations on them, then a plan by
 * which it is run. A graph owns each descriptor that was made for it. The first failure is kept
 * with a sentence, and whatever is told from then on does nothing, so it is asked for once, at the
 * end. */
#ifndef DT_CUDA_CUDNN_GRAPH_H
#define DT_CUDA_CUDNN_GRAPH_H

#include "cuda/cudnn/calls.h"

#include <stdbool.h>

enum { DT_CUDNN_DESCRIPTORS = 160, DT_CUDNN_OPERATIONS = 40, DT_CUDNN_DIMS = 4 };

struct dt_cudnn_graph {
    const struct dt_cudnn_calls *calls;
    void *made[DT_CUDNN_DESCRIPTORS];
    int made_count;
    void *operations[DT_CUDNN_OPERATIONS]; /* of those made */
    int operation_count;
    int64_t last_id;
    void *plan; /* of those made */
    size_t workspace;
    struct dt_err failed;
};

struct dt_cudnn_tensor {
    void *descriptor;
    int64_t id;
    enum dt_cudnn_type type;
    int64_t size[DT_CUDNN_DIMS], stride[DT_CUDNN_DIMS];
};

void dt_cudnn_graph_begin(struct dt_cudnn_graph *g, const struct dt_cudnn_calls *calls);
void dt_cudnn_graph_finish(struct dt_cudnn_graph *g); /* also one that failed, or is zeroed */

/* Memory of the device, 16-byte aligned; with ID it is given when the graph runs. */
struct dt_cudnn_tensor dt_cudnn_given(struct dt_cudnn_graph *g, int64_t id, enum dt_cudnn_type type,
                                      const int64_t size[DT_CUDNN_DIMS],
                                      const int64_t stride[DT_CUDNN_DIMS]);
/* A number of the host's, DT_CUDNN_FLOAT or DT_CUDNN_INT32. */
struct dt_cudnn_tensor dt_cudnn_number(struct dt_cudnn_graph *g, int64_t id,
                                       enum dt_cudnn_type type);
/* What one operation hands to others, and nobody else sees. */
struct dt_cudnn_tensor dt_cudnn_between(struct dt_cudnn_graph *g, enum dt_cudnn_type type,
                                        int64_t a, int64_t b, int64_t c, int64_t d);

/* TO = X * B, of their last two dimensions. */
void dt_cudnn_multiply(struct dt_cudnn_graph *g, struct dt_cudnn_tensor to,
                       struct dt_cudnn_tensor x, struct dt_cudnn_tensor b);
/* A new tensor of X's size and, but for floats, its type: of each element of X, and of B where the
 * mode has two. */
struct dt_cudnn_tensor dt_cudnn_each(struct dt_cudnn_graph *g, enum dt_cudnn_mode mode,
                                     struct dt_cudnn_tensor x, const struct dt_cudnn_tensor *b);
/* The same to TO, which exists. */
void dt_cudnn_each_to(struct dt_cudnn_graph *g, enum dt_cudnn_mode mode, struct dt_cudnn_tensor to,
                      struct dt_cudnn_tensor x, const struct dt_cudnn_tensor *b);
/* The position along AXIS of each element that X has. */
struct dt_cudnn_tensor dt_cudnn_index(struct dt_cudnn_graph *g, struct dt_cudnn_tensor x,
                                      int64_t axis);
struct dt_cudnn_tensor dt_cudnn_compare(struct dt_cudnn_graph *g, enum dt_cudnn_mode mode,
                                        struct dt_cudnn_tensor x, struct dt_cudnn_tensor b);
/* X where WHICH is true, else B. */
struct dt_cudnn_tensor dt_cudnn_select(struct dt_cudnn_graph *g, struct dt_cudnn_tensor x,
                                       struct dt_cudnn_tensor b, struct dt_cudnn_tensor which);
/* Along each dimension in which TO has size 1, or a divisor of X's. */
void dt_cudnn_reduce(struct dt_cudnn_graph *g, enum dt_cudnn_reduction op,
                     struct dt_cudnn_tensor to, struct dt_cudnn_tensor x);
/* A new tensor: X with its last two dimensions changed about, as TYPE. */
struct dt_cudnn_tensor dt_cudnn_transpose(struct dt_cudnn_graph *g, struct dt_cudnn_tensor x,
                                          enum dt_cudnn_type type);

/* Where a graph is to run: by a handle, or for a device that is only described, which is enough to
 * plan. */
struct dt_cudnn_where {
    void *handle;
    void *properties;
    bool deterministic; /* engines whose sums vary are left out */
    size_t most;        /* bytes of workspace that a plan may want */
};

/* plan.c. The first engine that cuDNN thinks fit and that can be had. 0, or -1, and G->failed has a
 * sentence. */
int dt_cudnn_graph_plan(struct dt_cudnn_graph *g, const struct dt_cudnn_where *where);

/* Puts the work on the handle's stream. WORKSPACE: of the plan's bytes. What numbers are by value
 * is read before it returns. 0, or -1 and *err. */
int dt_cudnn_graph_run(const struct dt_cudnn_graph *g, void *handle, int count, const int64_t *ids,
                       void *const *at, void *workspace, struct dt_err *err);

/* inside: a descriptor that G owns; NULL once G has failed */
void *dt_cudnn_make(struct dt_cudnn_graph *g, enum dt_cudnn_kind kind);
void dt_cudnn_set(struct dt_cudnn_graph *g, void *descriptor, enum dt_cudnn_attribute attribute,
                  enum dt_cudnn_value type, int64_t count, const void *values);
void dt_cudnn_finalize(struct dt_cudnn_graph *g, void *descriptor, const char *what);
/* "WHAT: cuDNN says ..." to *err, with the status and the reason that cuDNN keeps; returns -1. */
int dt_cudnn_fail(const struct dt_cudnn_calls *calls, int status, const char *what,
                  struct dt_err *err);

#endif
