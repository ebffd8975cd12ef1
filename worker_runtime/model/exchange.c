/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/exchange.h"

#include <string.h>

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

/* What is sent of a row: so many numbers. */
struct load {
    size_t width;
    enum dt_dtype type;
};

static struct load whole_row(const struct dt_block *b)
{
    return (struct load){b->shape->width, b->ops->elem};
}

static struct load weight_of_row(void)
{
    return (struct load){1, DT_F32};
}

/* Row number ROW of X. */
static char *row_at(struct load l, void *x, size_t row)
{
    return (char *)x + row * l.width * dt_dtype_size(l.type);
}

static void copy(const struct dt_block *b, struct load l, void *to, const void *from, size_t rows)
{
    if (rows)
        b->ops->cast(rows * l.width, to, l.type, from, l.type, b->stream);
}

/* Between ROWS, of all experts in their order, and PADS, MOST rows for each rank. */
static void pack(const struct dt_block *b, struct load l, size_t most, void *pads, void *rows,
                 bool back)
{
    const int32_t *first = b->kept->first;
    for (size_t r = 0; r < ranks(b); r++, first += own_experts(b)) {
        size_t count = (size_t)(first[own_experts(b)] - first[0]);
        char *pad = row_at(l, pads, r * most), *row = row_at(l, rows, (size_t)first[0]);
        copy(b, l, back ? row : pad, back ? pad : row, count);
    }
}

/* Between PADS, MOST rows from each rank, and ROWS, of this rank's experts in their order. */
static void sort(const struct dt_block *b, struct load l, size_t most, void *pads, void *rows,
                 bool back)
{
    for (size_t r = 0; r < ranks(b); r++) {
        char *pad = row_at(l, pads, r * most);
        for (size_t e = 0; e < own_experts(b); e++) {
            size_t count = rows_from(b, r, e), at = (size_t)b->kept->own_first[e];
            for (size_t before = 0; before < r; before++)
                at += rows_from(b, before, e);
            char *row = row_at(l, rows, at);
            copy(b, l, back ? pad : row, back ? row : pad, count);
            pad = row_at(l, pad, count);
        }
    }
}

/* FROM, in the order of all experts, becomes TO, of this rank's. TO may be ROOM[0]. */
static void send_there(const struct dt_block *b, struct load l, void *to, void *from,
                       void *const room[2])
{
    size_t most = rows_most(b);
    pack(b, l, most, room[0], from, false);
    dt_team_swap(b->experts, room[0], room[1], most * l.width, l.type);
    sort(b, l, most, room[1], to, false);
}

/* The other way around. FROM may be ROOM[1]. */
static void send_back(const struct dt_block *b, struct load l, void *to, void *from,
                      void *const room[2])
{
    size_t most = rows_most(b);
    sort(b, l, most, room[0], from, true);
    dt_team_swap(b->experts, room[0], room[1], most * l.width, l.type);
    pack(b, l, most, room[1], to, true);
}

/* TO[i] = FROM[AT[i]], for each pick: an op that moves rows moves a float as a row of whatever it
 * has for elements. */
static void reorder(const struct dt_block *b, float *to, const float *from, int32_t *at)
{
    const struct dt_routes r = {.rows = (size_t)b->kept->first[b->shape->experts], .picks = 1};
    const struct dt_route_order order = {.picks = at};
    b->ops->route_spread(&r, &order, sizeof(float) / dt_dtype_size(b->ops->elem), to, from,
                         b->stream);
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

/* Where rows of experts begin on each rank, into the host's memory. */
static void tell_first(const struct dt_block *b)
{
    const struct dt_scratch *s = b->scratch;
    const struct dt_kept *kept = b->kept;
    size_t all = b->shape->experts, index = (size_t)b->experts->index;
    dt_team_gather_from(b->experts, s->firsts, kept->order.first, all + 1, DT_I32);
    b->device->table->to_host(b->device, s->told_firsts, s->firsts,
                              ranks(b) * (all + 1) * sizeof *s->firsts);
    memcpy(kept->first, s->told_firsts + index * (all + 1), (all + 1) * sizeof *kept->first);
    for (size_t r = 0; r < ranks(b); r++)
        for (size_t e = 0; e < all; e++) {
            const int32_t *at = s->told_firsts + r * (all + 1) + e;
            kept->counts[r * all + e] = at[1] - at[0];
        }
}

/* Nobody sends anything where it is not known how much. */
static void tell_counts(const struct dt_block *b)
{
    const struct dt_kept *kept = b->kept;
    size_t all = b->shape->experts;
    tell_first(b);
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
    float *const *picks = b->scratch->picks;
    void *room[] = {picks[0], picks[1]};
    if (!b->experts) {
        b->device->table->to_host(b->device, kept->first, kept->order.first,
                                  (b->shape->experts + 1) * sizeof *kept->first);
        return;
    }
    tell_counts(b);
    kept->own_first[0] = 0;
    for (size_t e = 0; e < own_experts(b); e++) {
        kept->own_first[e + 1] = kept->own_first[e];
        for (size_t r = 0; r < ranks(b); r++)
            kept->own_first[e + 1] += (int32_t)rows_from(b, r, e);
    }
    reorder(b, picks[2], kept->weights, kept->order.picks);
    send_there(b, weight_of_row(), kept->own_weights, picks[2], room);
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
    send_there(b, whole_row(b), s->hall[0], s->spread, s->hall);
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
    send_back(b, whole_row(b), s->spread, s->hall[1], s->hall);
}

float *dt_exchange_slopes(const struct dt_block *b)
{
    return b->experts ? b->scratch->picks[1] : b->scratch->dweights;
}

void dt_exchange_slopes_back(const struct dt_block *b)
{
    const struct dt_kept *kept = b->kept;
    const struct dt_scratch *s = b->scratch;
    void *room[] = {s->picks[0], s->picks[1]};
    if (!b->experts)
        return;
    send_back(b, weight_of_row(), s->picks[2], s->picks[1], room);
    reorder(b, s->dweights, s->picks[2], kept->order.places);
}
