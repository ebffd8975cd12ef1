/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/exchange.h"

#include <string.h>

/* On CPUs, where all numbers are floats. */
static size_t own_experts(const struct dt_block *b)
{
    return dt_shape_own_experts(b->shape);
}

static size_t ranks(const struct dt_block *b)
{
    return b->shape->expert_parts;
}

/* Rows that rank FROM has for expert E of this rank's. */
static size_t rows_from(const struct dt_block *b, size_t from, size_t e)
{
    size_t mine = (size_t)b->experts->index * own_experts(b);
    return (size_t)b->kept->counts[from * b->shape->experts + mine + e];
}

/* Between any two: the same on all. */
static size_t rows_most(const struct dt_block *b)
{
    const int32_t *counts = b->kept->counts;
    size_t most = 0;
    for (size_t pair = 0; pair < ranks(b) * ranks(b); pair++, counts += own_experts(b)) {
        size_t rows = 0;
        for (size_t e = 0; e < own_experts(b); e++)
            rows += (size_t)counts[e];
        most = rows > most ? rows : most;
    }
    return most;
}

/* Between ROWS, of all experts in their order, and PADS, MOST rows for each rank. */
static void pack(const struct dt_block *b, size_t most, size_t width, float *pads, float *rows,
                 bool back)
{
    const int32_t *first = b->kept->first;
    for (size_t r = 0; r < ranks(b); r++, first += own_experts(b)) {
        size_t count = (size_t)(first[own_experts(b)] - first[0]) * width;
        float *pad = pads + r * most * width, *row = rows + (size_t)first[0] * width;
        memcpy(back ? row : pad, back ? pad : row, count * sizeof *row);
    }
}

/* Between PADS, MOST rows from each rank, and ROWS, of this rank's experts in their order. */
static void sort(const struct dt_block *b, size_t most, size_t width, float *pads, float *rows,
                 bool back)
{
    for (size_t r = 0; r < ranks(b); r++) {
        float *pad = pads + r * most * width;
        for (size_t e = 0; e < own_experts(b); e++) {
            size_t count = rows_from(b, r, e) * width, at = (size_t)b->kept->own_first[e];
            for (size_t before = 0; before < r; before++)
                at += rows_from(b, before, e);
            float *row = rows + at * width;
            memcpy(back ? pad : row, back ? row : pad, count * sizeof *row);
            pad += count;
        }
    }
}

/* FROM, in the order of all experts, becomes TO, of this rank's. TO may be ROOM[0]. */
static void send_there(const struct dt_block *b, size_t width, float *to, float *from,
                       float *const room[2])
{
    size_t most = rows_most(b);
    pack(b, most, width, room[0], from, false);
    dt_team_swap(b->experts, room[0], room[1], most * width, DT_F32);
    sort(b, most, width, room[1], to, false);
}

/* The other way around. FROM may be ROOM[1]. */
static void send_back(const struct dt_block *b, size_t width, float *to, float *from,
                      float *const room[2])
{
    size_t most = rows_most(b);
    sort(b, most, width, room[0], from, true);
    dt_team_swap(b->experts, room[0], room[1], most * width, DT_F32);
    pack(b, most, width, room[1], to, true);
}

/* There is room for as many as a micro-batch of this rank's has. */
static void check_counts(const struct dt_block *b)
{
    size_t all = ranks(b) * b->shape->experts, most = rows_most(b);
    bool sound = true;
    for (size_t i = 0; i < all; i++)
        sound = sound && b->kept->counts[i] >= 0;
    if (sound && most <= b->scratch->hall_rows)
        return;
    b->experts->failed = true;
    dt_err_set(
        &b->experts->err, DT_E_RUNTIME,
        "another rank has more rows for the experts of one than there is room for, %zu; give "
        "all ranks the same configuration",
        b->scratch->hall_rows);
}

/* Nobody sends anything where it is not known how much. */
static void tell_counts(const struct dt_block *b)
{
    const struct dt_kept *kept = b->kept;
    size_t all = b->shape->experts;
    int32_t *mine = kept->counts + (size_t)b->experts->index * all;
    for (size_t e = 0; e < all; e++)
        mine[e] = kept->first[e + 1] - kept->first[e];
    dt_team_gather(b->experts, kept->counts, all, DT_I32);
    if (!b->experts->failed)
        check_counts(b);
    if (b->experts->failed) {
        memset(kept->counts, 0, ranks(b) * all * sizeof *kept->counts);
        memset(kept->first, 0, (all + 1) * sizeof *kept->first);
    }
}

void dt_exchange_plan(const struct dt_block *b)
{
    const struct dt_kept *kept = b->kept;
    float *const *room = b->scratch->picks;
    if (!b->experts)
        return;
    tell_counts(b);
    kept->own_first[0] = 0;
    for (size_t e = 0; e < own_experts(b); e++) {
        kept->own_first[e + 1] = kept->own_first[e];
        for (size_t r = 0; r < ranks(b); r++)
            kept->own_first[e + 1] += (int32_t)rows_from(b, r, e);
    }
    for (int32_t i = 0; i < kept->first[b->shape->experts]; i++)
        room[2][i] = kept->weights[kept->order.picks[i]];
    send_there(b, 1, kept->own_weights, room[2], room);
}

struct dt_own_rows dt_exchange_own(const struct dt_block *b)
{
    const struct dt_kept *kept = b->kept;
    size_t all = own_experts(b);
    if (b->experts)
        return (struct dt_own_rows){.experts = all,
                                    .rows = (size_t)kept->own_first[all],
                                    .first = kept->own_first,
                                    .weights = kept->own_weights};
    return (struct dt_own_rows){.experts = all,
                                .rows = (size_t)kept->first[all],
                                .first = kept->first,
                                .weights = kept->weights,
                                .of = kept->order.picks};
}

dt_elem *dt_exchange_there(const struct dt_block *b)
{
    const struct dt_scratch *s = b->scratch;
    if (!b->experts)
        return s->spread;
    float *room[] = {s->hall[0], s->hall[1]};
    send_there(b, b->shape->width, s->hall[0], s->spread, room);
    return s->hall[0];
}

dt_elem *dt_exchange_room(const struct dt_block *b)
{
    return b->experts ? b->scratch->hall[1] : b->scratch->spread;
}

void dt_exchange_back(const struct dt_block *b)
{
    const struct dt_scratch *s = b->scratch;
    if (!b->experts)
        return;
    float *room[] = {s->hall[0], s->hall[1]};
    send_back(b, b->shape->width, s->spread, s->hall[1], room);
}

float *dt_exchange_slopes(const struct dt_block *b)
{
    return b->experts ? b->scratch->picks[1] : b->scratch->dweights;
}

void dt_exchange_slopes_back(const struct dt_block *b)
{
    const struct dt_kept *kept = b->kept;
    const struct dt_scratch *s = b->scratch;
    if (!b->experts)
        return;
    send_back(b, 1, s->picks[2], s->picks[1], s->picks);
    for (int32_t i = 0; i < kept->first[b->shape->experts]; i++)
        s->dweights[kept->order.picks[i]] = s->picks[2][i];
}
