/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint of a step whose ranks are gone, made of the copies of their shards that are left.
 * One process may have all of them, or several, on hosts that see the same folder, some each. They
 * do not speak: whoever locks a shard first, in DIR/.rescue, writes it; whoever has locked that of
 * rank 0 waits for the parts of the others and commits. Where a later world or another job saves
 * already, nothing is written (fence.c). On a file system without locks each writes what it has,
 * and two that both have rank 0's shard may spoil each other's checkpoint, never one that is whole.
 */
#ifndef DT_WORKER_RUNTIME_CKPT_RESCUE_H
#define DT_WORKER_RUNTIME_CKPT_RESCUE_H

#include "base/clock.h"
#include "worker_runtime/ckpt/checkpoint.h"

struct dt_rescue_shard {
    const float *master, *exp_avg, *exp_avg_sq; /* NULL: this process does not have it */
};

struct dt_rescue_step {
    const struct dt_ckpt_state *state;
    const struct dt_rescue_shard *shards; /* of each rank */
    int world;
    size_t shard;           /* floats in each array */
    const char *companions; /* a folder with the tokenizer and the like; NULL */
    dt_ms patience;         /* for parts that nobody writes yet */
    dt_ms longest;          /* that another process may take for one part */
};

enum dt_rescue_end {
    DT_RESCUE_SAVED,
    DT_RESCUE_ELSEWHERE, /* what is here was written; another process commits, if it can */
    DT_RESCUE_NOT_WHOLE, /* nobody has written what is missing */
    DT_RESCUE_TOO_LATE,  /* a later world, or another job, saves in DIR */
};

/* O: of the world that is over, and of its job; rank, world and rescues do not count. Blocks while
 * others write. */
int dt_ckpt_rescue(const struct dt_ckpt_options *o, const struct dt_rescue_step *s,
                   enum dt_rescue_end *how, struct dt_err *err);

#endif
