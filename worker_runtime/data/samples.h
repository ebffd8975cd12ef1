/* SPDX-License-Identifier: Apache-2.0 */
/* What a file of tokens is to training: samples of one length. A file without documents is cut into
 * them; those of one that has documents are packed with whole documents (pack.h), of which each is
 * as if it were alone, or hold one document each. Where these come in pairs, a sample is a pair:
 * the answer that was chosen from position 0 on, and behind it the one that was rejected. */
#ifndef DT_WORKER_RUNTIME_DATA_SAMPLES_H
#define DT_WORKER_RUNTIME_DATA_SAMPLES_H

#include "worker_runtime/data/tokens.h"

struct dt_samples;

/* T outlives it. ALONE: no document shares a sample. NULL and *err, also where there is not one
 * sample. */
struct dt_samples *dt_samples_open(const struct dt_tokens *t, size_t positions, bool alone,
                                   struct dt_err *err);
void dt_samples_close(struct dt_samples *s); /* NULL is fine */

size_t dt_samples_count(const struct dt_samples *s);
/* They are packed with documents. */
bool dt_samples_packed(const struct dt_samples *s);
/* Each is a pair; such a file is packed too. */
bool dt_samples_paired(const struct dt_samples *s);
/* Number I of COUNT samples, of which there are as many at least, that stand for all: the first
 * ones, but of a packed file the middles of COUNT parts, as its first ones hold the longest
 * documents. */
size_t dt_samples_pick(const struct dt_samples *s, size_t i, size_t count);
/* Targets of sample I that count. */
uint64_t dt_samples_targets(const struct dt_samples *s, size_t i);

/* Of a packed file: documents in it, those that are too long for a sample, and positions of all
 * samples that hold a token. */
struct dt_samples_packing {
    size_t documents, left_out;
    uint64_t filled, targets;
};
struct dt_samples_packing dt_samples_packing(const struct dt_samples *s);

/* Sample I, POSITIONS of each. A target that does not count is -1. DOCUMENTS, as struct
 * dt_attention has them, may be NULL where samples are not packed. One thread at a time. */
int dt_samples_read(struct dt_samples *s, size_t i, int32_t *ids, int32_t *targets,
                    int32_t *documents, struct dt_err *err);

#endif
