/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks agree on a save. Each writes its part; when the last is on disk, rank 0 gives the
 * checkpoint its name; when that is done it is saved. What a rank knows it tells as three numbers,
 * whoever drives this sums them over the ranks, and all hear the sums: so all go from phase to
 * phase together. What fails on one is given up on all, who hear why. */
#ifndef DT_WORKER_RUNTIME_CKPT_SAVING_H
#define DT_WORKER_RUNTIME_CKPT_SAVING_H

#include "worker_runtime/ckpt/checkpoint.h"

enum dt_saving_phase { DT_SAVING_NONE, DT_SAVING_WRITING, DT_SAVING_NAMING };

struct dt_saving {
    struct dt_ckpt *ckpt;
    enum dt_saving_phase phase;
    bool failed;       /* on this rank, and not yet told */
    bool told_waiting; /* of the save under way */
    struct dt_err why;
    int64_t step;  /* of the save under way */
    int64_t saved; /* the last one that a checkpoint holds; -1: none */
};

struct dt_saving_news {
    double busy, failed, waiting; /* ranks */
};

/* Begins a save; the one before it is to be at its end: dt_saving_finish(). */
int dt_saving_begin(struct dt_saving *s, struct dt_zero *z, const struct dt_ckpt_state *state,
                    struct dt_err *err);
/* What this rank knows. */
void dt_saving_tell(struct dt_saving *s, struct dt_saving_news *mine);
/* What all know. SAID: sentences for a person, a line each, the same on all ranks of G. Collective.
 */
int dt_saving_hear(struct dt_saving *s, const struct dt_saving_news *mine,
                   const struct dt_saving_news *sum, struct dt_coll *g, struct dt_buf *said,
                   struct dt_err *err);
/* Both, by a sum of its own; none when nothing is under way. Collective over G. */
int dt_saving_poll(struct dt_saving *s, struct dt_coll *g, struct dt_buf *said, struct dt_err *err);
/* The same until nothing is under way. */
int dt_saving_finish(struct dt_saving *s, struct dt_coll *g, struct dt_buf *said,
                     struct dt_err *err);

#endif
