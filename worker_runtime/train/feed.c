/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a step in the job's one order, of which each rank takes what it was dealt; where
 * several share a sample, all of these read it, and each keeps its pieces. */
#include "worker_runtime/train/inside.h"

struct dt_feed_room dt_feed_room(const struct dt_trainer *t, size_t i)
{
    size_t at = i * t->config->data.positions;
    bool shared = dt_pieces_shared(&t->pieces);
    return (struct dt_feed_room){
        .ids = shared ? t->whole_ids : t->ids + at,
        .targets = shared ? t->whole_targets : t->targets + at,
        .documents = t->documents ? t->documents + at : NULL,
    };
}

void dt_feed_keep(struct dt_trainer *t, size_t i, size_t count)
{
    const struct dt_pieces *p = &t->pieces;
    size_t length = dt_pieces_length(p);
    for (size_t piece = 0; dt_pieces_shared(p) && piece < dt_pieces_count(p); piece++) {
        size_t first = dt_pieces_first(p, p->rank, piece), to = (piece * count + i) * length;
        memcpy(t->ids + to, t->whole_ids + first, length * sizeof *t->ids);
        memcpy(t->targets + to, t->whole_targets + first, length * sizeof *t->targets);
    }
}

uint64_t dt_feed_first(const struct dt_trainer *t, int micro_step)
{
    size_t micro = (size_t)t->batch.micro;
    return t->state.data_position +
           dt_sampler_first(dt_balance_deal(t->balance), dt_trainer_data(t)->index, micro) +
           (uint64_t)micro_step * micro;
}

int dt_feed_micro_batch(struct dt_trainer *t, int micro_step, struct dt_err *err)
{
    size_t micro = (size_t)t->batch.micro;
    uint64_t first = dt_feed_first(t, micro_step);
    for (size_t i = 0; i < micro; i++) {
        const struct dt_feed_room room = dt_feed_room(t, i);
        if (dt_mixture_read(t->train, t->state.seed, first + i, room.ids, room.targets,
                            room.documents, err) < 0)
            return -1;
        dt_feed_keep(t, i, micro);
    }
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
