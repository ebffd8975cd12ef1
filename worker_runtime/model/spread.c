/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/spread.h"

size_t dt_spread_pair(const struct dt_block *b)
{
    return 2 * b->shape->kv_heads * b->shape->head_dim;
}

static size_t elem_of(const struct dt_block *b)
{
    return dt_dtype_size(b->ops->elem);
}

void dt_spread_reorder(const struct dt_block *b, size_t width, dt_elem *by_rank,
                       dt_elem *by_position, bool to_position)
{
    const struct dt_pieces *p = &b->pieces;
    size_t run = dt_pieces_length(p) * width, whole = p->positions * width;
    char *piece = by_rank;
    for (size_t rank = 0; rank < p->ranks; rank++)
        for (size_t i = 0; i < dt_pieces_count(p); i++, piece += b->batch * run * elem_of(b)) {
            char *there = (char *)by_position + dt_pieces_first(p, rank, i) * width * elem_of(b);
            if (to_position)
                b->ops->copy_rows(b->batch, run, there, whole, piece, run, b->stream);
            else
                b->ops->copy_rows(b->batch, run, piece, run, there, whole, b->stream);
        }
}

static size_t all_pairs(const struct dt_block *b)
{
    return b->batch * b->pieces.positions * dt_spread_pair(b);
}

void dt_spread_pack(const struct dt_block *b, const struct dt_attention *a, char *to)
{
    size_t half = dt_spread_pair(b) / 2;
    b->ops->copy_rows(b->rows, half, to, 2 * half, a->k, a->k_stride, b->stream);
    b->ops->copy_rows(b->rows, half, to + half * elem_of(b), 2 * half, a->v, a->v_stride,
                      b->stream);
}

void dt_spread_unpack(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                      const char *from)
{
    size_t half = dt_spread_pair(b) / 2;
    char *dk = (char *)dqkv + a->heads * a->head_dim * elem_of(b), *dv = dk + half * elem_of(b);
    b->ops->copy_rows(b->rows, half, dk, a->k_stride, from, 2 * half, b->stream);
    b->ops->copy_rows(b->rows, half, dv, a->v_stride, from + half * elem_of(b), 2 * half,
                      b->stream);
}

/* This rank's place among pairs as ranks have them. */
static char *own_pairs(const struct dt_block *b)
{
    return (char *)b->scratch->ranks_pairs +
           b->pieces.rank * b->rows * dt_spread_pair(b) * elem_of(b);
}

static void gather(const struct dt_block *b, const struct dt_attention *a)
{
    const struct dt_scratch *s = b->scratch;
    dt_spread_pack(b, a, own_pairs(b));
    dt_team_gather(b->context, s->ranks_pairs, b->rows * dt_spread_pair(b), b->ops->elem);
    dt_spread_reorder(b, dt_spread_pair(b), s->ranks_pairs, s->pairs, true);
}

size_t dt_spread_rows_before(const struct dt_block *b, size_t piece)
{
    return piece * b->batch * dt_pieces_length(&b->pieces);
}

/* Queries of this rank's piece number I, of all samples. */
static struct dt_attention of_piece(const struct dt_block *b, const struct dt_attention *a,
                                    size_t i)
{
    size_t rows = dt_spread_rows_before(b, i), elem = elem_of(b);
    const char *pairs = b->scratch->pairs;
    struct dt_attention one = *a;
    one.queries = dt_pieces_length(&b->pieces);
    one.keys = b->pieces.positions;
    one.first = dt_pieces_first(&b->pieces, b->pieces.rank, i);
    one.q = (const char *)a->q + rows * a->q_stride * elem;
    one.k = pairs;
    one.v = pairs + dt_spread_pair(b) / 2 * elem;
    one.k_stride = one.v_stride = dt_spread_pair(b);
    one.logsum = a->logsum + rows * a->heads;
    return one;
}

void dt_spread_forward(const struct dt_block *b, const struct dt_attention *a)
{
    gather(b, a);
    for (size_t i = 0; i < dt_pieces_count(&b->pieces); i++) {
        struct dt_attention one = of_piece(b, a, i);
        size_t at = dt_spread_rows_before(b, i) * a->out_stride * elem_of(b);
        b->ops->attention_forward(&one, (char *)b->kept->attended + at, b->stream);
    }
}

/* Gradients of all keys and values by the queries of piece I, into DPAIRS. */
static void piece_backward(const struct dt_block *b, const struct dt_attention *a, size_t i,
                           char *dq, char *dpairs, const char *dout)
{
    struct dt_attention one = of_piece(b, a, i);
    size_t elem = elem_of(b), rows = dt_spread_rows_before(b, i), at = rows * a->out_stride * elem;
    b->ops->attention_backward(&one, dq + rows * a->q_stride * elem, dpairs,
                               dpairs + dt_spread_pair(b) / 2 * elem,
                               (const char *)b->kept->attended + at, dout + at, b->stream);
}

void dt_spread_backward(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                        const dt_elem *dout)
{
    const struct dt_scratch *s = b->scratch;
    char *dq = dqkv;
    gather(b, a);
    piece_backward(b, a, 0, dq, s->dpairs, dout);
    piece_backward(b, a, 1, dq, s->ranks_pairs, dout);
    b->ops->add(all_pairs(b), s->dpairs, s->ranks_pairs, b->stream);
    dt_spread_reorder(b, dt_spread_pair(b), s->ranks_pairs, s->dpairs, false);
    dt_team_scatter(b->context, s->ranks_pairs, b->rows * dt_spread_pair(b), b->ops->elem);
    dt_spread_unpack(b, a, dqkv, own_pairs(b));
}
