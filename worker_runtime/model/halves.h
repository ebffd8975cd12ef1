/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of a block's way back, for a schedule that has the gradients of weights wait. The
 * inputs' half takes the stream's gradient through the whole block, and adds those of the norms'
 * parameters, which are small; only after it is the stage before served. The weights' half adds for
 * each linear layer what its input X and the gradient dY of its output make: dW += X' dY, db += the
 * sum of dY. It needs nothing of another section, so it may come any time later.
 *
 * Of the inputs X the slot keeps all anyhow, or what they are made of again: a norm's output from
 * the stream, an activation's from what went into it (activations.h). So what is held beside them
 * are the gradients dY alone, which a whole way back leaves in scratch memory for a moment. For
 * each row, in numbers of the type that is computed with and letters as in activations.h, that is
 *
 *     2 C + (Q + 2 K) + I      in a GPT-2,
 *     2 C + (Q + 2 K) + 2 I    in a Llama and its kin,
 *
 * of each block; about as much as the slot keeps without them. A rank of a team holds its part, as
 * it does of all else. It is the slot's, from the inputs' half to the weights' half of the same
 * micro-batch, and is of no use before and behind; nobody frees it but with all activations.
 *
 * The embedding has a weights' half alone: the stream's gradient at its end is still in the slot.
 * The head has no halves: it goes back as soon as it has gone forward. Blocks that are gone through
 * again would have to be a third time, experts are not taken apart so far, and beside adapters
 * there is next to nothing to put off: all three are refused with such a schedule. */
#ifndef DT_WORKER_RUNTIME_MODEL_HALVES_H
#define DT_WORKER_RUNTIME_MODEL_HALVES_H

#include "worker_runtime/ops/ops.h"

enum dt_half { DT_BOTH_HALVES, DT_INPUT_HALF, DT_WEIGHT_HALF };

/* Of one block: gradients of what came out of ... */
struct dt_held {
    dt_elem *dgave[2]; /* [M, C]: the last linear layer of each branch */
    dt_elem *dqkv;     /* [N, Q + 2 K]: that of queries, keys and values */
    dt_elem *dpre;     /* [N, I]: that in front of the GELU; a Llama's gate */
    dt_elem *dup;      /* [N, I]: a Llama's; halves of one row where those forward are */
};

#endif
