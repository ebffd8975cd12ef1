/* SPDX-License-Identifier: Apache-2.0 */
/* Which documents share a sample, so that little of it stays empty: of those that are left, the
 * longest that fits, and among equals the first of the file. Or two that are a pair, and nothing
 * beside them. Follows from the lengths alone, so all ranks come to the same. Pure. */
#ifndef DT_WORKER_RUNTIME_DATA_PACK_H
#define DT_WORKER_RUNTIME_DATA_PACK_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct dt_pack {
    size_t samples;
    size_t *first;   /* [samples + 1]: where the documents of each begin in ORDER */
    uint32_t *order; /* documents by their number, those of a sample behind each other */
    size_t left_out; /* documents that no sample has room for */
};

/* LENGTHS of COUNT documents in samples of POSITIONS, at least 1; one of 0 is in no sample. -1:
 * nothing is to be finished. */
int dt_pack_make(struct dt_pack *p, const uint32_t *lengths, size_t count, size_t positions,
                 struct dt_err *err);
/* The same of documents that come in pairs: each pair that fits is a sample, in the order of the
 * file. COUNT is even. */
int dt_pack_pairs(struct dt_pack *p, const uint32_t *lengths, size_t count, size_t positions,
                  struct dt_err *err);
/* One document in each sample, in the order of the file. */
int dt_pack_alone(struct dt_pack *p, const uint32_t *lengths, size_t count, size_t positions,
                  struct dt_err *err);
void dt_pack_finish(struct dt_pack *p); /* zeroed memory is fine */

#endif
