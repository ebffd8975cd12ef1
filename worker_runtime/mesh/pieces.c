/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/mesh/pieces.h"

#include <string.h>

void dt_pieces_reorder(const struct dt_pieces *p, size_t batch, size_t bytes, char *by_rank,
                       char *by_position, bool to_position)
{
    size_t run = dt_pieces_length(p) * bytes;
    for (size_t rank = 0; rank < p->ranks; rank++)
        for (size_t i = 0; i < dt_pieces_count(p); i++)
            for (size_t sample = 0; sample < batch; sample++, by_rank += run) {
                size_t place = sample * p->positions + dt_pieces_first(p, rank, i);
                char *there = by_position + place * bytes;
                memcpy(to_position ? there : by_rank, to_position ? by_rank : there, run);
            }
}
