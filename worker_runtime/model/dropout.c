/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/dropout.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Ranks that share samples go from one piece of a sample to the next. */
void dt_drop_rows(const struct dt_block *b, const struct dt_dropout *d, size_t width, dt_elem *out,
                  bool add, const dt_elem *x)
{
    const struct dt_pieces *p = &b->pieces;
    const struct dt_rows r = dt_block_rows(b);
    size_t begin = dt_rows_shared(&r) ? (size_t)b->team->index * b->own_rows : 0;
    size_t run = b->context ? dt_pieces_length(p) : b->rows, end = begin + b->own_rows;
    size_t bytes = width * dt_dtype_size(b->ops->elem);
    for (size_t row = begin; row < end;) {
        struct dt_dropout own = *d;
        size_t sample, place = dt_pieces_place(p, b->batch, row, &sample), at = row - begin;
        size_t n = least(run - row % run, end - row);
        own.start += ((b->first_sample + sample) * p->positions + place) * width;
        b->ops->dropout(&own, n * width, (char *)out + at * bytes, add,
                        (const char *)x + at * bytes, b->stream);
        row += n;
    }
}
