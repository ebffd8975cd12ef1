/* SPDX-License-Identifier: Apache-2.0 */
/* See hist.h. Values below 64 have a cell each; above, the cell is named by the position of the
 * highest bit and the six bits after it. */
#include "bench/hist.h"

static unsigned cell_of(uint64_t v)
{
    if (v < (1u << HIST_SUB_BITS))
        return (unsigned)v;
    unsigned shift = 63u - (unsigned)__builtin_clzll(v) - HIST_SUB_BITS;
    return ((shift + 1) << HIST_SUB_BITS) + (unsigned)((v >> shift) & ((1u << HIST_SUB_BITS) - 1));
}

/* The largest value that falls into CELL. */
static uint64_t top_of(unsigned cell)
{
    if (cell < (1u << HIST_SUB_BITS))
        return cell;
    unsigned shift = (cell >> HIST_SUB_BITS) - 1;
    uint64_t mantissa = (1u << HIST_SUB_BITS) | (cell & ((1u << HIST_SUB_BITS) - 1));
    return (mantissa << shift) + (((uint64_t)1 << shift) - 1);
}

void hist_add(struct hist *h, uint64_t value)
{
    h->cell[cell_of(value)]++;
    h->count++;
    if (value > h->max)
        h->max = value;
}

uint64_t hist_quantile(const struct hist *h, double quantile)
{
    double want = quantile * (double)h->count;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HIST_CELLS; i++) {
        seen += h->cell[i];
        if (h->cell[i] > 0 && (double)seen >= want)
            return top_of(i) < h->max ? top_of(i) : h->max;
    }
    return h->max;
}
