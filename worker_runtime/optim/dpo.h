/* SPDX-License-Identifier: Apache-2.0 */
/* Direct preference optimization: of two answers to one prompt, the chosen one is to become
 * likelier and the rejected one less likely, both measured against a reference, which is the model
 * as it was:
 *
 *     delta = (log p(chosen) - log ref(chosen)) - (log p(rejected) - log ref(rejected))
 *     loss  = -(1 - e) log sigmoid(beta delta) - e log sigmoid(-beta delta)
 *             - sft * log p(chosen) / tokens of the chosen answer
 *
 * where log p is the sum over the tokens of an answer. So each token of an answer has the same
 * factor in the gradient, and what is trained by the cross-entropy of tokens is trained by this
 * with a weight for each answer. Pure. */
#ifndef DT_WORKER_RUNTIME_OPTIM_DPO_H
#define DT_WORKER_RUNTIME_OPTIM_DPO_H

#include <stdbool.h>
#include <stddef.h>

struct dt_dpo {
    bool on;
    double beta;
    double label_smoothing; /* e: the share of pairs that are taken to be the wrong way round */
    double sft;
};

/* Of one answer: the sums over its tokens that count. */
struct dt_dpo_answer {
    double policy, reference; /* log p; of the model, and of it without what is trained */
    double tokens;
};

struct dt_dpo_pair {
    struct dt_dpo_answer chosen, rejected;
};

struct dt_dpo_verdict {
    double loss;
    double reward_chosen, reward_rejected; /* beta (log p - log ref) */
    bool right;                            /* the chosen one has the greater reward */
    /* By which the gradient of the cross-entropy of each token of an answer is multiplied. */
    double weight_chosen, weight_rejected;
};

struct dt_dpo_verdict dt_dpo_judge(const struct dt_dpo *o, const struct dt_dpo_pair *p);

#endif
