/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/swap.h"

#include "worker_runtime/model/spread.h"

/* Rows of this rank's positions, and which stretches of each, in numbers, ranks have equal parts
 * of. */
struct cut {
    size_t stride, stretches;
    struct {
        size_t at, part;
    } of[3];
};

static size_t ranks(const struct dt_block *b)
{
    return b->pieces.ranks;
}

static struct cut cut_qkv(const struct dt_block *b, const struct dt_attention *a)
{
    size_t q = a->heads * a->head_dim, k = a->kv_heads * a->head_dim;
    return (struct cut){
        .stride = a->q_stride,
        .stretches = 3,
        .of = {{0, q / ranks(b)}, {q, k / ranks(b)}, {q + k, k / ranks(b)}},
    };
}

static struct cut cut_out(const struct dt_block *b, const struct dt_attention *a)
{
    size_t q = a->heads * a->head_dim;
    return (struct cut){.stride = a->out_stride, .stretches = 1, .of = {{0, q / ranks(b)}}};
}

/* Numbers of a position that a rank has. */
static size_t part_of(const struct cut *c)
{
    size_t numbers = 0;
    for (size_t i = 0; i < c->stretches; i++)
        numbers += c->of[i].part;
    return numbers;
}

/* Between rows and what goes to each rank or came from it, PARTS, one rank behind the other. */
static void deal(const struct dt_block *b, const struct cut *c, char *rows, char *parts,
                 bool to_parts)
{
    size_t elem = dt_dtype_size(b->ops->elem), width = part_of(c);
    for (size_t rank = 0; rank < ranks(b); rank++, parts += (b->rows - 1) * width * elem)
        for (size_t i = 0; i < c->stretches; parts += c->of[i++].part * elem) {
            size_t part = c->of[i].part;
            char *row = rows + (c->of[i].at + rank * part) * elem;
            if (to_parts)
                b->ops->copy_rows(b->rows, part, parts, width, row, c->stride, b->stream);
            else
                b->ops->copy_rows(b->rows, part, row, c->stride, parts, width, b->stream);
        }
}

static void exchange(const struct dt_block *b, const struct cut *c, const char *from, char *to)
{
    dt_team_swap(b->context, from, to, b->rows * part_of(c), b->ops->elem);
}

/* Own positions of all heads, in ROWS, become all positions of this rank's heads, in TO. */
static void to_heads(const struct dt_block *b, const struct cut *c, const dt_elem *rows, char *to,
                     char *room)
{
    deal(b, c, (char *)rows, to, true);
    exchange(b, c, to, room);
    dt_spread_reorder(b, part_of(c), room, to, true);
}

/* And back; FROM is of no use then. */
static void to_positions(const struct dt_block *b, const struct cut *c, char *from, char *rows,
                         char *room)
{
    dt_spread_reorder(b, part_of(c), room, from, false);
    exchange(b, c, room, from);
    deal(b, c, rows, from, false);
}

/* Of this rank's heads; QKV has all positions of them. */
static struct dt_attention of_heads(const struct dt_block *b, const struct dt_attention *a,
                                    const char *qkv)
{
    size_t elem = dt_dtype_size(b->ops->elem);
    struct dt_attention own = *a;
    own.queries = own.keys = b->pieces.positions;
    own.heads = a->heads / ranks(b);
    own.kv_heads = a->kv_heads / ranks(b);
    own.first_head = a->first_head + b->pieces.rank * own.heads;
    own.out_stride = own.heads * a->head_dim;
    own.q_stride = own.k_stride = own.v_stride = own.out_stride + 2 * own.kv_heads * a->head_dim;
    own.q = qkv;
    own.k = qkv + own.out_stride * elem;
    own.v = qkv + (own.out_stride + own.kv_heads * a->head_dim) * elem;
    return own;
}

void dt_swap_forward(const struct dt_block *b, const struct dt_attention *a)
{
    const struct dt_scratch *s = b->scratch;
    const struct cut qkv = cut_qkv(b, a), out = cut_out(b, a);
    to_heads(b, &qkv, a->q, s->heads_qkv[0], s->heads_qkv[1]);
    struct dt_attention own = of_heads(b, a, s->heads_qkv[0]);
    b->ops->attention_forward(&own, s->heads_out[0], b->stream);
    to_positions(b, &out, s->heads_out[0], b->kept->attended, s->heads_out[1]);
}

void dt_swap_backward(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                      const dt_elem *dout)
{
    const struct dt_scratch *s = b->scratch;
    const struct cut qkv = cut_qkv(b, a), out = cut_out(b, a);
    size_t elem = dt_dtype_size(b->ops->elem);
    to_heads(b, &out, b->kept->attended, s->heads_out[0], s->heads_qkv[0]);
    to_heads(b, &out, dout, s->heads_out[1], s->heads_qkv[0]);
    to_heads(b, &qkv, a->q, s->heads_qkv[0], s->heads_qkv[1]);
    struct dt_attention own = of_heads(b, a, s->heads_qkv[0]);
    char *dq = s->heads_qkv[1], *dk = dq + own.out_stride * elem;
    b->ops->attention_backward(&own, dq, dk, dk + own.kv_heads * a->head_dim * elem,
                               s->heads_out[0], s->heads_out[1], b->stream);
    to_positions(b, &qkv, dq, dqkv, s->heads_qkv[0]);
}
