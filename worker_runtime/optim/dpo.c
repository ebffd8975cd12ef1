/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/optim/dpo.h"

#include <math.h>

/* Neither overflows, however far X is from 0. */
static double log_sigmoid(double x)
{
    return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x));
}

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double reward(const struct dt_dpo *o, const struct dt_dpo_answer *a)
{
    return o->beta * (a->policy - a->reference);
}

/* d loss / d log p of the chosen answer is -PULL, of the rejected one PULL; and a token's
 * cross-entropy is -log p of it. */
struct dt_dpo_verdict dt_dpo_judge(const struct dt_dpo *o, const struct dt_dpo_pair *p)
{
    double chosen = reward(o, &p->chosen), rejected = reward(o, &p->rejected);
    double x = chosen - rejected, e = o->label_smoothing;
    double pull = o->beta * ((1 - e) * sigmoid(-x) - e * sigmoid(x));
    double sft = p->chosen.tokens > 0 ? o->sft / p->chosen.tokens : 0;
    return (struct dt_dpo_verdict){
        .loss = -(1 - e) * log_sigmoid(x) - e * log_sigmoid(-x) - sft * p->chosen.policy,
        .reward_chosen = chosen,
        .reward_rejected = rejected,
        .right = chosen > rejected,
        .weight_chosen = pull + sft,
        .weight_rejected = -pull,
    };
}
