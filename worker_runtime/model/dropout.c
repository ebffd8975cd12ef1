/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/dropout.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Of the rows from BEGIN to below END, the first of which is at X. Ranks that share samples go from
 * one piece of a sample to the next. */
static void drop(const struct dt_block *b, const struct dt_dropout *d, size_t begin, size_t end,
                 const struct dt_inputs *of, dt_elem *out, bool add, const dt_elem *x)
{
    const struct dt_pieces *p = &b->pieces;
    size_t run = b->context ? dt_pieces_length(p) : b->rows;
    size_t bytes = of->width * dt_dtype_size(b->ops->elem);
    for (size_t row = begin; row < end;) {
        struct dt_dropout own = *d;
        size_t sample, place = dt_pieces_place(p, b->batch, row, &sample), at = row - begin;
        size_t n = least(run - row % run, end - row);
        own.start += ((b->first_sample + sample) * p->positions + place) * of->all + of->from;
        own.width = of->width < of->all ? of->width : 0;
        own.pitch = of->all;
        b->ops->dropout(&own, n * of->width, (char *)out + at * bytes, add,
                        (const char *)x + at * bytes, b->stream);
        row += n;
    }
}

void dt_drop_rows(const struct dt_block *b, const struct dt_dropout *d, size_t width, dt_elem *out,
                  bool add, const dt_elem *x)
{
    const struct dt_rows r = dt_block_rows(b);
    const struct dt_inputs whole = {width, 0, width};
    size_t begin = dt_rows_shared(&r) ? (size_t)b->team->index * b->own_rows : 0;
    drop(b, d, begin, begin + b->own_rows, &whole, out, add, x);
}

void dt_drop_inputs(const struct dt_block *b, const struct dt_dropout *d,
                    const struct dt_inputs *inputs, dt_elem *out, bool add, const dt_elem *x)
{
    drop(b, d, 0, b->rows, inputs, out, add, x);
}
