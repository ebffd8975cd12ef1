/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a step in the job's one order, of which each rank takes what it was dealt. */
#include "worker_runtime/train/inside.h"

int dt_feed_micro_batch(struct dt_trainer *t, int micro_step, struct dt_err *err)
{
    size_t micro = (size_t)t->batch.micro, positions = t->config->data.positions;
    uint64_t first =
        t->state.data_position +
        dt_sampler_first(dt_balance_deal(t->balance), dt_trainer_data(t)->index, micro) +
        (uint64_t)micro_step * micro;
    t->first_sample = first;
    for (size_t i = 0; i < micro; i++)
        if (dt_mixture_read(t->train, t->state.seed, first + i, t->ids + i * positions,
                            t->targets + i * positions,
                            t->documents ? t->documents + i * positions : NULL, err) < 0)
            return -1;
    return 0;
}

/* Each rank counts them for itself: it takes no reading, and no message. */
uint64_t dt_feed_targets(const struct dt_trainer *t)
{
    uint64_t targets = 0;
    if (t->config->dpo.on)
        return (uint64_t)t->batch.train; /* a sample is a pair */
    for (uint64_t i = 0; i < (uint64_t)t->batch.train; i++)
        targets += dt_mixture_targets(t->train, t->state.seed, t->state.data_position + i);
    return targets ? targets : 1;
}
