/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples a step trains on: one endless order for the whole job, epochs one behind the other,
 * that depends on seed and epoch only. A step takes the next train_batch samples of it, whoever
 * computes them, so neither the number of ranks nor the size of the batch moves a sample; the batch
 * in which an epoch ends is filled up from the next. Pure. */
#ifndef DT_WORKER_RUNTIME_DATA_SAMPLER_H
#define DT_WORKER_RUNTIME_DATA_SAMPLER_H

#include <dtrun/data.h>

/* How the train batch of a step is dealt out: ranks in order, to each of them micro_steps[rank]
 * micro-batches of MICRO samples. Gives FIRST, the place in the batch of RANK's first sample: its
 * sample i of micro-step m is at place FIRST + m * MICRO + i, and at step k of a run whose steps
 * all take train_batch samples, at position k * train_batch + that of the order. */
uint64_t dt_sampler_first(const int *micro_steps, int rank, size_t micro);

#endif
