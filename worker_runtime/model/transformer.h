/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder-only transformer, forward and backward, written over the table of ops. It holds no
 * parameters: it asks a dt_zero for each unit when it comes to it, and gives it back, so the same
 * code serves every stage. */
#ifndef DT_WORKER_RUNTIME_MODEL_TRANSFORMER_H
#define DT_WORKER_RUNTIME_MODEL_TRANSFORMER_H

#include "worker_runtime/device/device.h"
#include "worker_runtime/mesh/pieces.h"
#include "worker_runtime/mesh/team.h"
#include "worker_runtime/model/lora.h"
#include "worker_runtime/model/stage.h"

struct dt_transformer;

struct dt_transformer_options {
    size_t batch;     /* most samples of a micro-batch */
    size_t positions; /* of each; at most the shape's */
    size_t slots;     /* micro-batches that may be between forward and backward; 0: 1 */
    bool recompute; /* activation checkpointing: keep a block's input only, and go through it again
                     */
    size_t recompute_every; /* blocks between two that are kept, with .recompute; 0: 1 */
    bool halves; /* each way back is one of inputs and one of weights; not with .recompute */
    /* [batch, positions], the caller's, read as ids are: for each position that at which its
     * document begins within its sample (struct dt_attention). No document reads another one, and
     * learned positions are counted from its beginning. NULL: a sample is one document. */
    const int32_t *documents;
    bool timed;   /* wait for the device wherever forward and backward change, to tell them apart */
    bool weighed; /* dt_transformer_weigh() will be called */
    uint64_t seed;              /* of what goes by the shape's dropout */
    bool op_by_op;              /* no tapes, even where the device gains by them */
    const struct dt_lora *lora; /* the adapters there may be; NULL: none. It outlives all. */
    /* The model, then frozen, is kept as dt_packed_tensors() lays it out; numbers that come out of
     * NF4 are rounded to nf4_type. */
    bool nf4;
    enum dt_dtype nf4_type;
    /* Who has the other parts of each block, whose shape then is that of this rank's
     * (dt_shape_cut()), and computes the same samples; the caller's, for the device's memory. There
     * are no tapes then. NULL: blocks are whole. Where it shares rows, those of each micro-batch
     * are a multiple of its ranks. */
    struct dt_team *team;
    /* With a team, which words this rank has, as dt_shape_words() says; parts 0: all there are.
     * What is asked for in bytes alone needs no more than the parts, and whether a team shares
     * rows. */
    struct dt_words words;
    /* Which positions of each sample this rank computes, where CONTEXT, the caller's, has the
     * others: as many as .positions says are those of whole samples. IDS, TARGETS and LOSSES below
     * are then of this rank's rows, as pieces.h has them; documents stay whole. .ranks 0: all. */
    struct dt_pieces pieces;
    struct dt_team *context;
    struct dt_stage stage; /* of a pipeline; zeroed: the whole model */
    /* Who has the other experts of each block, of which the shape says how many are here, and other
     * samples: all of the team make the same calls, with samples or without. The caller's. NULL:
     * all experts are here. */
    struct dt_team *experts;
};

/* Allocates all activations there will be. DEVICE outlives it. */
struct dt_transformer *dt_transformer_create(const struct dt_shape *shape,
                                             const struct dt_transformer_options *o,
                                             struct dt_device *device, struct dt_err *err);
void dt_transformer_destroy(struct dt_transformer *t);

/* From here on Z of the calls below is frozen, and ADAPTERS, made of options.lora's tensors, are
 * what is trained beside it: both are readied by dt_zero_begin(). NULL: the model is as it is
 * without, which it is at first. */
void dt_transformer_adapt(struct dt_transformer *t, struct dt_zero *adapters);
/* The number of the next micro-batch's first sample among all of the run: what goes by dropout
 * hangs on it, and not on the rank. */
void dt_transformer_count(struct dt_transformer *t, uint64_t first_sample);
/* What the auxiliary loss of the next micro-batches counts, whose routers' picks it wants spread
 * evenly over the experts of all blocks: its gradients, multiplied by SHARE, join the others; 0,
 * which it is at first: they do not. Of a shape with balance_experts alone. It is
 *
 *     experts * the sum over experts of (picks / rows) * (mean probability)
 *
 * of the rows of all blocks together, as Hugging Face's classes have it. */
void dt_transformer_balance(struct dt_transformer *t, double share);
/* The same of the z loss of the next micro-batches, which keeps routers' logits small: the mean
 * over rows of the square of a row's log sum exp, summed over blocks. Of a shape with a z_share
 * alone. */
void dt_transformer_z_loss(struct dt_transformer *t, double share);

/* IDS and TARGETS: [batch, positions], host memory; a negative target does not count. *LOSS_SUM
 * grows by the losses of all targets that count, unscaled. Gradients, multiplied by SCALE, are
 * added in Z, which dt_zero_begin() has readied, and each unit is given to dt_zero_reduce() when
 * its last is in. BATCH 0: an empty micro-step: asks for and gives back every unit in the same
 * order, and computes nothing; IDS and TARGETS may be NULL then. */
int dt_transformer_train(struct dt_transformer *t, struct dt_zero *z, size_t batch,
                         const int32_t *ids, const int32_t *targets, float scale, double *loss_sum,
                         struct dt_err *err);
/* dt_transformer_train() in its halves, for a schedule that has several micro-batches under way:
 * each is in a SLOT of its own from its way forward, which ends with the head and the head's
 * gradients, to its way back, at whose end its losses are added to *LOSS_SUM. */
int dt_transformer_forward(struct dt_transformer *t, struct dt_zero *z, size_t slot, size_t batch,
                           const int32_t *ids, const int32_t *targets, float scale,
                           struct dt_err *err);
int dt_transformer_backward(struct dt_transformer *t, struct dt_zero *z, size_t slot,
                            double *loss_sum, struct dt_err *err);
/* dt_transformer_backward() in its own halves, with options.halves, as halves.h tells: behind that
 * of inputs the section in front has all that it waits for; behind that of weights the slot is
 * free. Of each, micro-batches come in the same order. Both add gradients and say so to Z, so with
 * the inputs' it is not the last micro-step of dt_zero_begin() yet. */
int dt_transformer_backward_inputs(struct dt_transformer *t, struct dt_zero *z, size_t slot,
                                   double *loss_sum, struct dt_err *err);
int dt_transformer_backward_weights(struct dt_transformer *t, struct dt_zero *z, size_t slot,
                                    struct dt_err *err);
/* Of a stage in several chunks, from here on SLOT is of that one: it goes through CHUNK alone, with
 * no other one meanwhile. It is of the first at first. */
void dt_transformer_turn(struct dt_transformer *t, size_t slot, size_t chunk);
/* Where options.stage is a part of the model, both halves are of that part: ids are of the first
 * stage alone, targets and losses of the last. Before a way forward dt_transformer_input() has what
 * the stage before gave; behind it, on all stages but the last, dt_transformer_border() has what
 * goes to the next one. Before the way back the same place has the gradient of that; behind it, on
 * all stages but the first, that of the input. Device memory, [batch, positions, width]; of own
 * rows alone where a team shares them. Behind the last row are dt_shape_pick_counts(): onward those
 * of the blocks so far, and back those of all, as an auxiliary loss is of all blocks together. */
void *dt_transformer_input(struct dt_transformer *t, size_t slot);
void *dt_transformer_border(struct dt_transformer *t, size_t slot);
/* dt_transformer_forward() for a loss that follows from those of all rows: LOSSES, [batch,
 * positions] of the host's memory, are those of each target, 0 where it does not count. With TRAIN
 * the head's gradients are still to come: dt_transformer_weigh(), before anything else goes
 * forward, goes through the head once more, in which the gradients of each row are multiplied by
 * its weight and by SCALE. WEIGHTS are as LOSSES; of a batch of 0 both may be NULL. A chunk without
 * the head leaves LOSSES alone, and ends as in dt_transformer_forward(). */
int dt_transformer_lose(struct dt_transformer *t, struct dt_zero *z, size_t slot, size_t batch,
                        const int32_t *ids, const int32_t *targets, bool train, float *losses,
                        struct dt_err *err);
int dt_transformer_weigh(struct dt_transformer *t, struct dt_zero *z, size_t slot,
                         const float *weights, float scale, struct dt_err *err);
/* The losses alone, in slot 0. */
int dt_transformer_loss(struct dt_transformer *t, struct dt_zero *z, size_t batch,
                        const int32_t *ids, const int32_t *targets, double *loss_sum,
                        struct dt_err *err);

/* Nanoseconds spent computing forward and backward since the last call; what is computed a second
 * time is backward's. Waiting for parameters, or for the team, is in neither. */
void dt_transformer_times(struct dt_transformer *t, uint64_t *forward, uint64_t *backward);

/* What it holds. */
size_t dt_transformer_held(const struct dt_transformer *t);
/* How much memory activations take on a device of that form, as dt_transformer_create() asks for
 * it; SIZE_MAX: more than can be counted. For --estimate. Pure. */
size_t dt_transformer_bytes(const struct dt_shape *shape, const struct dt_transformer_options *o,
                            struct dt_device_form form);

#endif
