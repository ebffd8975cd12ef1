/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/ring.h"

#include "worker_runtime/model/spread.h"

#include <string.h>

static size_t elem_of(const struct dt_block *b)
{
    return dt_dtype_size(b->ops->elem);
}

/* Numbers that a rank has of such. */
static size_t own_numbers(const struct dt_block *b)
{
    return b->rows * dt_spread_pair(b);
}

/* Whose keys and values are here at that STEP. */
static size_t owner_at(const struct dt_block *b, size_t step)
{
    return (b->pieces.rank + b->pieces.ranks - step) % b->pieces.ranks;
}

/* Queries of this rank's piece I, and keys and values of OWNER's piece J, which are among PAIRS. */
static struct dt_attention meeting(const struct dt_block *b, const struct dt_attention *a, size_t i,
                                   size_t owner, size_t j, const char *pairs)
{
    size_t rows = dt_spread_rows_before(b, i), elem = elem_of(b);
    struct dt_attention one = *a;
    one.queries = dt_pieces_length(&b->pieces);
    one.first = dt_pieces_first(&b->pieces, b->pieces.rank, i);
    one.keys = b->pieces.positions;
    one.keys_from = dt_pieces_first(&b->pieces, owner, j);
    one.keys_to = one.keys_from + dt_pieces_length(&b->pieces);
    one.q = (const char *)a->q + rows * a->q_stride * elem;
    one.k = pairs + dt_spread_rows_before(b, j) * dt_spread_pair(b) * elem;
    one.v = (const char *)one.k + dt_spread_pair(b) / 2 * elem;
    one.k_stride = one.v_stride = dt_spread_pair(b);
    one.logsum = a->logsum + rows * a->heads;
    return one;
}

static bool is_behind(const struct dt_attention *one)
{
    return one->keys_from > one->first;
}

static void pass_on(const struct dt_block *b, struct dt_team_round *r, const dt_elem *from,
                    dt_elem *to)
{
    dt_team_pass_on(b->context, r, from, to, own_numbers(b), b->ops->elem);
}

static void step_forward(const struct dt_block *b, const struct dt_attention *a, size_t step,
                         const char *pairs)
{
    size_t pieces = dt_pieces_count(&b->pieces);
    for (size_t n = 0; n < pieces * pieces; n++) {
        size_t i = n / pieces, j = n % pieces;
        struct dt_attention one = meeting(b, a, i, owner_at(b, step), j, pairs);
        size_t at = dt_spread_rows_before(b, i) * a->out_stride * elem_of(b);
        one.joins = step > 0 || j > 0;
        if (!is_behind(&one))
            b->ops->attention_forward(&one, (char *)b->kept->attended + at, b->stream);
    }
}

void dt_ring_forward(const struct dt_block *b, const struct dt_attention *a)
{
    dt_elem *const *pairs = b->scratch->round_pairs;
    size_t last = b->pieces.ranks - 1;
    struct dt_team_round round = {.under_way = false};
    dt_spread_pack(b, a, pairs[0]);
    for (size_t step = 0; step <= last; step++) {
        if (step < last)
            pass_on(b, &round, pairs[step % 2], pairs[(step + 1) % 2]);
        step_forward(b, a, step, pairs[step % 2]);
        dt_team_arrived(b->context, &round);
    }
}

/* Adds to the gradients of queries, and to DPAIRS, those of the keys and values here. */
static void step_backward(const struct dt_block *b, const struct dt_attention *a, size_t step,
                          const char *pairs, char *dq, char *dpairs, const char *dout)
{
    size_t pieces = dt_pieces_count(&b->pieces), elem = elem_of(b);
    for (size_t n = 0; n < pieces * pieces; n++) {
        size_t i = n / pieces, j = n % pieces, rows = dt_spread_rows_before(b, i);
        struct dt_attention one = meeting(b, a, i, owner_at(b, step), j, pairs);
        size_t at = rows * a->out_stride * elem;
        char *dk = dpairs + dt_spread_rows_before(b, j) * dt_spread_pair(b) * elem;
        one.joins = true;
        if (!is_behind(&one))
            b->ops->attention_backward(&one, dq + rows * a->q_stride * elem, dk,
                                       dk + dt_spread_pair(b) / 2 * elem,
                                       (const char *)b->kept->attended + at, dout + at, b->stream);
    }
}

static void clear_queries(const struct dt_block *b, const struct dt_attention *a, char *dq)
{
    size_t elem = elem_of(b);
    for (size_t n = 0; n < b->rows; n++)
        memset(dq + n * a->q_stride * elem, 0, a->heads * a->head_dim * elem);
}

void dt_ring_backward(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                      const dt_elem *dout)
{
    dt_elem *const *pairs = b->scratch->round_pairs, *const *dpairs = b->scratch->round_dpairs;
    dt_elem *part = dpairs[2];
    size_t last = b->pieces.ranks - 1;
    struct dt_team_round round = {.under_way = false}, home = {.under_way = false};
    dt_spread_pack(b, a, pairs[0]);
    clear_queries(b, a, dqkv);
    memset(dpairs[0], 0, own_numbers(b) * elem_of(b));
    for (size_t step = 0; step <= last; step++) {
        dt_elem *here = dpairs[step % 2];
        if (step < last)
            pass_on(b, &round, pairs[step % 2], pairs[(step + 1) % 2]);
        memset(part, 0, own_numbers(b) * elem_of(b));
        step_backward(b, a, step, pairs[step % 2], dqkv, part, dout);
        dt_team_arrived(b->context, &home);
        b->ops->add(own_numbers(b), here, part, b->stream);
        pass_on(b, &home, here, dpairs[(step + 1) % 2]);
        dt_team_arrived(b->context, &round);
    }
    dt_team_arrived(b->context, &home);
    dt_spread_unpack(b, a, dqkv, dpairs[(last + 1) % 2]);
}
