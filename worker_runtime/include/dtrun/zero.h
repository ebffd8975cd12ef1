/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO: parameters, gradients and optimizer state of a model, spread over the ranks of a group, and
 * AdamW over them.
 *
 * A model is a row of *units*, each gathered, computed with, reduced and freed together: for a
 * transformer its blocks. Each unit is a flat buffer of its parameters, padded so that every rank
 * owns an equal part, its shard. Where stage and options leave units whole, one may be empty. The
 * layout is the same at every stage, so what each stage computes has the same bits on CPUs (sums
 * of GPUs are NCCL's, see coll.h); stages differ in who keeps what between steps:
 *
 *     stage  parameters   gradients   optimizer state
 *     0      all          all         all
 *     1      all          all         shard
 *     2      all          shard       shard
 *     3      shard        shard       shard
 *
 * One step: for each micro-batch, for each unit as it is used: gather, compute, release; backward:
 * gather, compute gradients into dt_zero_grads(), reduce, release. Then dt_zero_step().
 *
 * At stages 0, 1, and 2 with full_gradients, micro-steps are added up before ranks are, and a rank
 * may make more of them than another, if at least one; in the last, all reduce their units in one
 * order. At stages 2 without full_gradients and 3, every micro-step is summed over ranks: all make
 * as many and ask for the same units in the same order, a rank without work too (it need not call
 * dt_zero_grads()). There micro-steps are added behind ranks, so several of them over several ranks
 * differ from the other stages in the last bits. */
#ifndef DTRUN_ZERO_H
#define DTRUN_ZERO_H

#include <dtrun/api.h>
#include <dtrun/coll.h>
#include <dtrun/context.h>

DT_BEGIN_C

struct dt_zero;

struct dt_param {
    const char *name;
    size_t count;
    bool decay; /* weight decay applies */
};

struct dt_unit {
    const char *name;
    const struct dt_param *params;
    size_t param_count;
};

struct dt_zero_options {
    int stage;
    enum dt_dtype model_type; /* parameters are rounded to it: DT_F32, DT_BF16, DT_F16 */
    enum dt_dtype comm_type;  /* gradients are rounded to it before they are summed */
    bool full_gradients;      /* stage 2: micro-steps are added up before anything is reduced */
    /* Micro-steps are added up in float, where a device computes with fewer bits: what is kept of
     * gradients are floats, and at stages 0, 1, and 2 with full_gradients ranks are added up so. */
    bool float_sums;
    /* Elements under way at a time, but at least one unit; 0: no limit. A unit is summed where it
     * lies, so units are neither copied together nor cut. */
    size_t reduce_bucket; /* gradients */
    size_t gather_bucket; /* updated parameters */
    /* Stage 3 where ranks do not share memory, in elements: what is gathered ahead (0: none); what
     * may be whole at a time, beyond what is held; what is used again within so many stays (of both
     * 0: no limit); units of so many stay whole always (0: none). */
    size_t prefetch, max_live, max_reuse_distance, persist_below;
    bool overlap; /* reduce while backward goes on */
    /* Stages 1 to 3 of a rank on a GPU: optimizer state, and this rank's part of gradients, lie in
     * the host's memory, and the CPU makes the update. A rank on a CPU has them there anyway. */
    bool offload;
    /* Stage 3, with offload or frozen: parameters too, but for the units that are whole right now.
     */
    bool offload_params;
    /* Parameters that stay as dt_zero_fill() makes them: there is no memory for gradients and
     * optimizer, and what would need them fails. They are kept as at stage 1, or 3. */
    bool frozen;
    /* Of frozen parameters whose model_type is DT_F32: each is 32 bits of somebody's own making,
     * which dt_zero_fill() gives and nobody computes with, whatever the device computes with. */
    bool words;
    /* Parameters of 16 bits are rounded up or down by chance, so that updates too small for them
     * are not lost: by SEED, the step and the element's place in the model alone. */
    bool stochastic_rounding;
    uint64_t seed;
    float beta1, beta2, eps, weight_decay;
    bool decoupled, bias_correction;
};

/* Sets what DeepSpeed's defaults are. */
DT_API void dt_zero_defaults(struct dt_zero_options *o);

/* Collective over the data-parallel group G, which outlives it, as does CONTEXT. UNITS are copied,
 * and their parameters are 0. */
DT_API struct dt_zero *dt_zero_create(struct dt_context *context, struct dt_coll *g,
                                      const struct dt_unit *units, size_t count,
                                      const struct dt_zero_options *o, struct dt_err *err);
DT_API void dt_zero_destroy(struct dt_zero *z);

/* Asks FILL for the first values of each stretch of a parameter this rank owns; no rank asks for
 * all. Collective. */
typedef void (*dt_zero_fill_fn)(void *arg, size_t unit, size_t param, size_t first, size_t count,
                                float *out);
DT_API int dt_zero_fill(struct dt_zero *z, dt_zero_fill_fn fill, void *arg, struct dt_err *err);

/* Begins a micro-step. LAST: this step's last one, behind which gradients are complete. TRAIN:
 * gradients will come. */
DT_API void dt_zero_begin(struct dt_zero *z, bool train, bool last);
/* The unit's parameters, packed in their order, until as many dt_zero_release(). NULL and *err on
 * failure. */
DT_API const void *dt_zero_gather(struct dt_zero *z, size_t unit, struct dt_err *err);
DT_API void dt_zero_release(struct dt_zero *z, size_t unit);
/* Where this micro-step's gradients of the unit are to be added, laid out as the parameters. */
DT_API void *dt_zero_grads(struct dt_zero *z, size_t unit, struct dt_err *err);
/* This micro-step adds no more to them. The pointer from dt_zero_grads() is of no use any more. */
DT_API int dt_zero_reduce(struct dt_zero *z, size_t unit, struct dt_err *err);

struct dt_zero_update {
    float lr;
    float loss_scale; /* gradients are divided by it; 1 without */
    float clip;       /* largest norm of all gradients; 0: none */
};

struct dt_zero_updated {
    double grad_norm; /* before clipping, unscaled */
    bool overflow;    /* an infinite gradient or NaN: nothing was updated */
};

/* Behind the last micro-step: norm, clip, update, and the new parameters everywhere. Gradients are
 * 0 again. Collective. */
DT_API int dt_zero_step(struct dt_zero *z, const struct dt_zero_update *u,
                        struct dt_zero_updated *out, struct dt_err *err);

DT_API int64_t dt_zero_steps(const struct dt_zero *z); /* updates made: Adam's count */
DT_API size_t dt_zero_elements(const struct dt_zero *z);
/* Bytes this rank holds where it computes, a host's shared memory counted by its share; and of the
 * host's what is offloaded to it. */
struct dt_zero_memory {
    size_t params, grads, optimizer, scratch, offloaded;
};
DT_API void dt_zero_memory(const struct dt_zero *z, struct dt_zero_memory *out);
/* Nanoseconds in collectives, and in the update, since the last call. */
DT_API void dt_zero_times(struct dt_zero *z, uint64_t *communication, uint64_t *optimizer);

DT_END_C

#endif
