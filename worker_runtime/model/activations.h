/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a forward and a backward pass: one piece of the device's, laid out once, and a
 * little one of the host's, for what the host reads.
 *
 * What backward needs of a block and what can be had again cheaply are told apart. Kept are the
 * outputs of matrix products and of attention; the outputs of norms and activation functions are
 * computed a second time, from their inputs, which costs a hundredth of a product and saves more
 * than a third of the memory. */
#ifndef DT_WORKER_RUNTIME_MODEL_ACTIVATIONS_H
#define DT_WORKER_RUNTIME_MODEL_ACTIVATIONS_H

#include "worker_runtime/model/halves.h"
#include "worker_runtime/model/transformer.h"
#include "worker_runtime/ops/ops.h"

/* Letters as in ops.h, and Q = heads * head_dim, K = kv_heads * head_dim, I = inner. M = N, or of
 * these a rank's own, where a team shares rows. Where there are experts, E of them, of which a row
 * goes through P: I = P * expert_inner, since so much is there of a row, and S = shared_inner. [P
 * N] is in the order of experts. Where R ranks share them, X each, a rank may be sent O = R * N *
 * min(P, X) rows; there I is as much wider. */

/* Of one block, from its forward to its backward. */
struct dt_kept {
    dt_elem *qkv; /* [N, Q + 2 K]: each row's queries, keys, values; before their norms, where they
                     have some */
    dt_elem *attended;  /* [N, Q] */
    dt_elem *middle;    /* [M, C]: the stream between the two branches */
    dt_elem *pre;       /* [N, I]: into the GELU; a Llama's gate */
    dt_elem *up;        /* [N, I]: a Llama's */
    size_t gate_stride; /* of these, from row to row: I; or 2 I where they are halves of one row,
                           which on the way back become their own gradients */
    dt_elem *gave[2];   /* [M, C]: by the branches, before their norms; NULL where they have none */
    float *mean[2], *rstd[2]; /* [M]: of the two norms; no mean in a Llama */
    float *gave_rstd[2];      /* [M]: of those of the branches */
    float *logsum;            /* [batch, heads, T]: of attention */
    /* Of experts, and NULL without. */
    float *probs, *weights;          /* [N, E], [N, P] */
    float *router_logsums;           /* [N]; NULL: no z loss */
    int32_t *experts;                /* [N, P] */
    struct dt_route_order order;     /* of them */
    int32_t *first;                  /* the host's: as ORDER has it */
    dt_elem *shared_pre, *shared_up; /* [N, S] */
    float *shared_weight;            /* [N] */
    /* Where ranks share experts, and else NULL. */
    int32_t *counts, *own_first; /* the host's: [R, E], rows of each rank for each; [X + 1] */
    float *own_weights;          /* [O] */
};

/* Of whoever computes: nothing stays in it from one block to the next but branch, when going
 * forward. */
struct dt_scratch {
    dt_elem *branch; /* [N, max(C, Q)]: what a branch adds to the stream, or the gradient there */
    dt_elem *normed; /* [N, C]: out of a norm */
    dt_elem *wide;   /* [N, max(I, Q + 2 K)] */
    dt_elem *dwide;  /* [N, I]; [N, max(I, Q + 2 K)] where queries and keys are normed, and [N,
                        max(I, Q + 2 K, C)] with adapters, whose sum it is forward */
    /* Of adapters: what went through A, its gradient, and what dropout left of their input. */
    dt_elem *low, *dlow; /* [N, r], of the largest rank */
    dt_elem *dropped;    /* [N, max(I, Q + 2 K, C)]; NULL without dropout */
    dt_elem *weight;     /* of the linear layer at hand, out of NF4; NULL where none is kept so */
    /* Of experts, and NULL without: rows on their way there or back, logits of a router or of the
     * shared expert's weight, their gradients, and those of weights. */
    dt_elem *spread; /* [P N, C] */
    dt_elem *scores; /* [N, E] */
    float *dweights; /* [N, P] */
    /* Where ranks share experts, and else NULL. */
    int32_t *firsts, *told_firsts; /* [R, E + 1]: as dt_route_order has them; the host's */
    size_t hall_rows;              /* from one rank to another, at most */
    dt_elem *hall[2];              /* [O, C]: rows of others, and on their way */
    float *picks[3];               /* [O]: weights likewise, and before they leave */
    /* Of adapters with magnitudes, and NULL without: what they make, what the layer makes of the
     * same, and the gradients of both. */
    dt_elem *sum, *base; /* [N, max(I, Q + 2 K, C)] */
    /* Of ranks that share positions, and NULL without: keys and values, side by side, of all
     * positions: rank by rank, and in their order; and gradients. */
    dt_elem *ranks_pairs, *pairs, *dpairs; /* [batch * positions, 2 K] */
    /* The same of ranks that swap positions for heads: what they read and what they give, and on
     * its way. */
    dt_elem *heads_qkv[2], *heads_out[2]; /* [N, Q + 2 K], [N, Q] */
    /* The same of ranks among which they go round: what is here and what comes, and gradients,
     * here, to come, and of what is here. */
    dt_elem *round_pairs[2], *round_dpairs[3]; /* [N, 2 K] */
    /* For the head, in the same memory as the two above: R rows are gone through at once. */
    dt_elem *logits;    /* [R, logits_stride], the first of each row are words */
    dt_elem *dnormed;   /* [R, C] */
    float *mean, *rstd; /* [R]; [M] where rows are shared */
    float *sums;        /* [ranks, R, 3]: of their losses; NULL where no ranks share the words */
    size_t logits_stride;
};

/* Of one micro-batch, from its way forward to its way back. */
struct dt_activation_slot {
    size_t batch;           /* samples in it */
    uint64_t first_sample;  /* of the run */
    int32_t *ids, *targets; /* [N] */
    int32_t *documents;     /* [batch * positions], as attention has them; NULL: a sample is one */
    int32_t *places;      /* [N]: of rows in their documents, for learned positions; NULL: rows are
                             those of whole samples, and each is one document */
    float *losses;        /* [N] */
    float *weights;       /* [N]: of their gradients; NULL: they have none */
    dt_elem *dstream;     /* [M, C]: the gradient of the stream, from the head on; before that, on a
                             stage     with no head, the stream that it ends with. On a stage of
                             several there is room for the counts behind it */
    double balance;       /* what the routers' auxiliary loss counts, in gradients ... */
    double z_loss;        /* ... and their z loss */
    int32_t *counts;      /* [layers, E], the host's: picks of each expert; NULL: that loss is not
                             wanted */
    size_t chunk;         /* of the stage, that it goes through */
    dt_elem **inputs;     /* by block: the stream at its start, [M, C]; of other stages NULL. Behind
                             the first of a chunk there is room as behind dstream */
    struct dt_kept *kept; /* by block; blocks that are recomputed share, as do chunks */
    struct dt_held *held; /* by block; NULL where ways back have no halves */
};

struct dt_activations {
    struct dt_activation_slot *slots;
    size_t slot_count;
    float *speeds;       /* [head_dim / 2]: of rotary positions; NULL in a GPT-2 */
    float *local_speeds; /* of layers that local_theta is of; NULL: there are none */
    /* [layers, outputs that have adapters]: 1 / norm of each, from forward on; NULL: no magnitudes
     */
    float *rnorms;
    size_t block_rnorms; /* of a block */
    float *dprobs; /* [E]: what the auxiliary loss means for a probability of each; NULL: nothing */
    struct dt_scratch scratch;
    size_t head_rows; /* R */
    size_t segment;   /* blocks from one whose input is kept to the next: all others of a segment
                         are recomputed; 0: none is */
    void *memory;
    size_t bytes; /* of it */
    void *host;   /* pinned, for a GPU */
};

int dt_activations_create(struct dt_activations *a, const struct dt_shape *s,
                          const struct dt_transformer_options *o, struct dt_device *device,
                          struct dt_err *err);
void dt_activations_destroy(struct dt_activations *a, struct dt_device *device);

#endif
