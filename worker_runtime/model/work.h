/* SPDX-License-Identifier: Apache-2.0 */
/* What a transformer computes at each stop of its walk, between a unit's parameters gathered and
 * given back. For the files of the transformer. */
#ifndef DT_WORKER_RUNTIME_MODEL_WORK_H
#define DT_WORKER_RUNTIME_MODEL_WORK_H

#include "worker_runtime/model/activations.h"
#include "worker_runtime/model/transformer.h"

struct dt_transformer {
    struct dt_shape shape;
    struct dt_transformer_options options;
    struct dt_device *device;
    struct dt_tape *tape; /* NULL: op by op */
    struct dt_activations a;
    struct dt_stage stage; /* the options', written out */
    /* Where tensors begin in their units, in bytes. */
    size_t embed_at[2], block_at[DT_BLOCK_TENSORS_MOST], head_at[3];
    size_t block_count[DT_BLOCK_TENSORS_MOST]; /* numbers of a block's tensors */
    struct dt_zero *adapters;                  /* NULL: the model alone, and all of it is trained */
    struct dt_lora_pair *pairs;                /* [layers, pair_count]; NULL: no adapters */
    size_t pair_count;
    uint64_t first_sample;  /* of the micro-batch that goes forward next */
    double balance, z_loss; /* of it, too */
    float *losses;          /* host memory, as are these */
    int32_t *places, *words;
    uint64_t forward_ns, backward_ns;
    int64_t since;       /* when computing began that is not counted yet ... */
    uint64_t team_since; /* ... and what the team's sums had taken by then */
};

static inline size_t dt_transformer_head_unit(const struct dt_transformer *t)
{
    return t->shape.layers + 1;
}

enum dt_work_kind {
    DT_EMBED_FORWARD,
    DT_BLOCK_FORWARD,
    DT_LEAVE,  /* what goes to the next stage, behind the block */
    DT_HEAD,   /* the loss; when TRAIN backward as well */
    DT_LOGITS, /* of the last row, into scratch->logits */
    DT_BLOCK_BACKWARD,
    DT_BLOCK_INPUT, /* its halves, as halves.h has them */
    DT_BLOCK_WEIGHTS,
    DT_EMBED_BACKWARD,
};

/* All that it depends on, beside what the transformer is from its beginning: a device may know it
 * again by these bytes, so there are no gaps between them. */
struct dt_work {
    uint64_t kind, slot, batch, block;
    uint64_t positions; /* of each sample here */
    uint64_t first;   /* position of the first of them; those before it were read by earlier work */
    uint64_t chained; /* a block's input is still to be summed up: the one before left it */
    uint64_t again;   /* for backward's sake, as what was kept is gone */
    uint64_t train;   /* a way back follows */
    uint64_t weighed; /* the head: once more, with the slot's weights of rows */
    const char *params, *matrix; /* the unit's; the head's, of another unit where it is tied */
    char *grads, *dmatrix;       /* NULL: there are none, or they are frozen */
    const char *adapters;        /* the unit of them, or what they save of this one; NULL: none */
    char *dadapters;
    double scale; /* of the head's gradients */
};

void dt_work_compute(struct dt_transformer *t, const struct dt_work *w);

void dt_work_start_clock(struct dt_transformer *t);
/* Adds what went by since. A GPU computes behind our back: what it was given here may be done, and
 * counted, at a later stop, unless times are asked for. A failure stays with the device. */
void dt_work_count_time(struct dt_transformer *t, uint64_t *sum);

#endif
