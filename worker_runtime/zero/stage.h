/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO: a model's parameters, gradients and optimizer state, divided among ranks. What differs
 * between the stages, and what they share; the contract is dtrun/zero.h.
 *
 * All that a dt_zero keeps stands in *rows*: parameters, gradients, and the optimizer's master,
 * exp_avg and exp_avg_sq. A row is either full (all padded units, one behind the other) or sharded
 * (this rank's shards, one behind the other); the stage says which, and that is the table in
 * dtrun/zero.h. The way of one gradient from the loss to the shard that owns it, at stage 2:
 *
 *     train/train.c          compute()           a micro-batch there and back, for a scaled loss
 *     model/transformer.c    block_backward()    adds to what dt_zero_grads() lent for its unit;
 *                                                dt_zero_reduce() says that it adds no more
 *     zero/stage2.c          dt_shard_reduce()   hands the buffer over, to be summed over ranks
 *     zero/queue.c           dt_queue_push()     starts that, while backward goes on;
 *                            dt_queue_settle()   waits for it
 *     coll/host/collective.c direct_read()       sums this rank's part, read where each rank has it
 *     zero/stage2.c          dt_shard_arrived()  keeps the sum in the row of this rank's shards,
 *                                                or has offload.c fetch it into the host's memory
 *
 * There update.c finds it: norm, clip, AdamW over the part; stage->publish() shows the result to
 * all. At stages 0 and 1 the unit's place in a full row takes the part of the lent buffer; where
 * that row is of floats and the device computes with fewer bits, a buffer is lent there too, and
 * added to the row when its micro-step is through. Between hosts the sum is coll/hosts/sum.c's. */
#ifndef DT_WORKER_RUNTIME_ZERO_STAGE_H
#define DT_WORKER_RUNTIME_ZERO_STAGE_H

#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/zero/create.h"
#include "worker_runtime/zero/layout.h"

struct dt_zero_stage {
    bool params_sharded, grads_sharded, state_sharded;
    int (*open)(struct dt_zero *z, struct dt_err *err); /* makes the rows of params and grads */
    void (*begin)(struct dt_zero *z);                   /* a micro-step; may be NULL */
    const void *(*gather)(struct dt_zero *z, size_t unit, struct dt_err *err);
    void (*release)(struct dt_zero *z, size_t unit);
    void *(*grads)(struct dt_zero *z, size_t unit, struct dt_err *err);
    int (*reduce)(struct dt_zero *z, size_t unit, struct dt_err *err);
    /* BUFFER has UNIT's sum; may be NULL. */
    int (*arrived)(struct dt_zero *z, size_t unit, void *buffer, struct dt_err *err);
    int (*finish)(struct dt_zero *z, struct dt_err *err); /* all sums of this step are here */
    int (*publish)(struct dt_zero *z, struct dt_err *err);
};

extern const struct dt_zero_stage dt_zero_stage0, dt_zero_stage1, dt_zero_stage2, dt_zero_stage3;

/* A GPU shares no memory with another, and its collectives take any memory of its own: there OWN
 * and SHARED are as DEVICE, and both as OWN where its collectives lend better. HOME is where the
 * optimizer is: the same device, or the CPU beside it.
 */
enum dt_row_memory { DT_ROW_DEVICE, DT_ROW_HOME, DT_ROW_OWN, DT_ROW_SHARED };

struct dt_row {
    void *at;
    enum dt_dtype type;
    size_t elem, bytes; /* of an element; of all */
    enum dt_row_memory memory;
    bool sharded;
};

/* Who have a part of one parameter's gradients: a team of those that share tensors, and one of
 * those that share experts. */
#define DT_ZERO_TEAMS_MOST 2

struct dt_zero_unit {
    char *name;
    size_t params;
    size_t *param_at; /* [params + 1]: where each begins in the unit */
    char **param_name;
    bool *decay;
    float *rate;
    uint64_t *chance;
    bool *elsewhere; /* another dt_zero has the same, and counts it in the norm */
    /* Who has the rest of its gradients; NULL: nobody, or nobody else. */
    struct dt_coll *(*partial)[DT_ZERO_TEAMS_MOST];
    bool reduced; /* full gradients: the step's sum is under way or here */
    bool added;   /* sharded gradients: the shard holds the sum of an earlier micro-step */
};

/* Sums under way, oldest first. */
#define DT_QUEUE_MAX 8
struct dt_reduction {
    size_t unit, elements;
    void *buffer;
    struct dt_coll_handle handle;
};
struct dt_queue {
    struct dt_reduction ring[DT_QUEUE_MAX];
    size_t first, count, elements;
};

struct dt_loans;   /* loans.h: buffers for gradients on their way */
struct dt_offload; /* offload.h: the optimizer of a GPU's rank in the host's memory */
struct dt_slots;   /* slots.h: gathered parameters */

struct dt_zero {
    const struct dt_zero_stage *stage;
    struct dt_zero_options o;
    struct dt_zero_place place;
    struct dt_device *device, *home; /* home: of master and moments */
    struct dt_coll *host;            /* the group we were given: for numbers of the host */
    /* For what the rows hold: the same, or one beside it for a GPU's memory. */
    struct dt_coll *coll;
    size_t rank, world;
    struct dt_layout layout;
    size_t units;
    struct dt_zero_unit *unit;
    enum dt_dtype elem; /* of parameters and gradients, as the device computes */
    struct dt_row params, grads, master, exp_avg, exp_avg_sq;
    bool master_is_params; /* both are float32, or frozen in floats: one row serves as both */
    struct dt_queue queue;
    struct dt_loans *loans;
    struct dt_slots *slots;
    struct dt_offload *offload; /* NULL: home is device */
    bool has_partial;           /* one at least has others that have a part of its gradients */
    float *scratch;             /* a shard in float, of frozen parameters that are none */
    size_t scratch_bytes;
    bool train, last;
    int64_t steps;
    uint64_t communication_ns, optimizer_ns;
};

/* Where OWNER's part of UNIT is in a row; the whole unit begins at owner 0's, in a full row. */
static inline void *dt_row_at(const struct dt_zero *z, const struct dt_row *r, size_t unit,
                              size_t owner)
{
    const struct dt_layout_unit *u = &z->layout.unit[unit];
    size_t at = r->sharded ? u->shard_at : u->padded_at + owner * u->shard;
    return (char *)r->at + at * r->elem;
}

/* zero.c: nothing but what dt_zero_fill() gave is there where Z is frozen. */
int dt_zero_check_trained(const struct dt_zero *z, struct dt_err *err);
bool dt_zero_offloads_params(const struct dt_zero *z); /* of a GPU, to the host */

/* What gradients are kept in between micro-steps. */
enum dt_dtype dt_zero_sum_type(const struct dt_zero *z);

/* rows.c */
int dt_row_open(struct dt_zero *z, struct dt_row *r, enum dt_dtype type, bool sharded,
                enum dt_row_memory memory, const char *what, struct dt_err *err);
void dt_row_close(struct dt_zero *z, struct dt_row *r);
size_t dt_row_held(const struct dt_zero *z, const struct dt_row *r); /* bytes of this rank */
float *dt_zero_master(const struct dt_zero *z, size_t unit, size_t owner);
/* OWNER's parameters become what its master copy says. */
void dt_zero_derive(struct dt_zero *z, size_t unit, size_t owner);
/* What OWNER has of parameter PARAM: COUNT elements from its FIRST, at AT in the shard. */
struct dt_piece {
    size_t first, count, at;
};
bool dt_zero_piece(const struct dt_zero *z, size_t unit, size_t owner, size_t param,
                   struct dt_piece *out);
/* Whose shards this rank keeps and updates: from FIRST to below END. */
void dt_zero_owners(const struct dt_zero *z, size_t *first, size_t *end);

/* queue.c: collectives that are timed, and whose errors name the unit */
int dt_zero_start(struct dt_zero *z, const struct dt_coll_call *call, struct dt_coll_handle *h,
                  size_t unit, struct dt_err *err);
int dt_zero_wait(struct dt_zero *z, struct dt_coll_handle *h, size_t unit, struct dt_err *err);
int dt_zero_barrier(struct dt_zero *z, struct dt_err *err);
/* Starts the sum over ranks of BUFFER, a whole unit of TYPE, first rounded to comm_type. */
int dt_queue_push(struct dt_zero *z, size_t unit, enum dt_coll_kind kind, void *buffer,
                  enum dt_dtype type, struct dt_err *err);
int dt_queue_settle(struct dt_zero *z, struct dt_err *err); /* the oldest */
int dt_queue_drain(struct dt_zero *z, struct dt_err *err);

/* What two stages have in common. stage1.c: whole units in a full row; stage2.c: shards. */
bool dt_zero_one_copy(const struct dt_zero *z); /* of the parameters, that all ranks see */
int dt_full_open_params(struct dt_zero *z, struct dt_err *err);
const void *dt_full_gather(struct dt_zero *z, size_t unit, struct dt_err *err);
void dt_full_release(struct dt_zero *z, size_t unit);
int dt_full_open_grads(struct dt_zero *z, struct dt_err *err);
void *dt_full_grads(struct dt_zero *z, size_t unit, struct dt_err *err);
int dt_full_reduce(struct dt_zero *z, size_t unit, enum dt_coll_kind kind, struct dt_err *err);
int dt_full_finish(struct dt_zero *z, enum dt_coll_kind kind, struct dt_err *err);
int dt_full_arrived(struct dt_zero *z, size_t unit, void *buffer, struct dt_err *err);
int dt_full_publish(struct dt_zero *z, struct dt_err *err);
int dt_shard_open_grads(struct dt_zero *z, struct dt_err *err);
void *dt_shard_grads(struct dt_zero *z, size_t unit, struct dt_err *err);
int dt_shard_reduce(struct dt_zero *z, size_t unit, struct dt_err *err);
int dt_shard_arrived(struct dt_zero *z, size_t unit, void *buffer, struct dt_err *err);

#endif
