/* SPDX-License-Identifier: Apache-2.0 */
/* One step of the optimizer: the norm of all gradients, of which each rank adds up its own shards;
 * the factor that follows from it; AdamW over what this rank keeps; and the result shown to all. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "worker_runtime/zero/offload.h"
#include "worker_runtime/zero/stage.h"
#include "worker_runtime/zero/update.h"

/* What of a device's gradients waits to be added up, to *SQUARE in this order. */
struct squares {
    double *square;
    size_t parts;
    struct dt_squares_part part[DT_PARTS_MOST];
};

static void add_up(struct dt_zero *z, struct squares *q)
{
    double sums[DT_PARTS_MOST];
    if (q->parts > 0)
        z->device->ops->sum_squares(z->grads.type, q->parts, sums, q->part, z->device->stream);
    for (size_t i = 0; i < q->parts; i++)
        *q->square += sums[i];
    q->parts = 0;
}

/* COUNT gradients from AT of this rank's shard of UNIT. */
static void put_square(struct dt_zero *z, struct squares *q, size_t unit, size_t at, size_t count)
{
    if (z->offload) {
        *q->square += dt_offload_squares(z->offload, unit, at, count);
        return;
    }
    if (q->parts == DT_PARTS_MOST)
        add_up(z, q);
    const char *grads = dt_row_at(z, &z->grads, unit, z->rank);
    q->part[q->parts++] = (struct dt_squares_part){count, grads + at * z->grads.elem};
}

/* Of the first ALL elements of this rank's shard of UNIT, from *BEGIN on: the next COUNT that are
 * counted here. */
static bool next_counted(const struct dt_zero *z, size_t unit, size_t all, size_t *begin,
                         size_t *count)
{
    const struct dt_zero_unit *u = &z->unit[unit];
    struct dt_piece p;
    size_t end = *begin;
    for (size_t i = 0; i < u->params; i++) {
        if (!dt_zero_piece(z, unit, z->rank, i, &p) || p.at + p.count <= *begin)
            continue;
        if (u->elsewhere[i] && end > *begin)
            break;
        end = p.at + p.count;
        if (u->elsewhere[i])
            *begin = end;
    }
    *count = (end < all ? end : all) - *begin;
    return *begin < all;
}

int dt_zero_add_square(struct dt_zero *z, size_t first, size_t end, double *square,
                       struct dt_err *err)
{
    struct squares q = {.square = square};
    struct dt_stretch s;
    for (size_t i = 0; dt_layout_owned(&z->layout, z->rank, &i, &s);) {
        if (s.unit < first || s.unit >= end)
            continue;
        size_t begin = 0, count;
        while (next_counted(z, s.unit, s.count, &begin, &count)) {
            put_square(z, &q, s.unit, begin, count);
            begin += count;
        }
    }
    add_up(z, &q);
    return dt_device_sync(z->device, err);
}

/* The same partial sums at every stage, each by the one who owns the shard, so the same norm. An
 * infinite gradient or NaN anywhere makes it infinite or NaN everywhere. */
static int norm_square(struct dt_zero *z, double *out, struct dt_err *err)
{
    *out = 0;
    if (dt_zero_add_square(z, 0, z->layout.units, out, err) < 0)
        return -1;
    int64_t from = dt_clock_monotonic_ns();
    int rc = dt_coll_all_reduce(z->host, out, 1, DT_F64, DT_SUM, err);
    z->communication_ns += (uint64_t)(dt_clock_monotonic_ns() - from);
    return rc < 0 ? dt_err_wrap(err, "norm of the gradients") : 0;
}

/* Where a step's chances begin, from which each element of the model has its own. */
static uint64_t chance(const struct dt_zero *z)
{
    uint64_t x = z->o.seed + (uint64_t)z->steps * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 31)) * 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

void dt_zero_set_chance(struct dt_zero *z, size_t unit, size_t param, uint64_t first)
{
    z->unit[unit].chance[param] = first;
}

void dt_zero_set_rate(struct dt_zero *z, size_t unit, size_t param, float rate)
{
    z->unit[unit].rate[param] = rate;
}

void dt_zero_sum_over(struct dt_zero *z, size_t unit, size_t param, struct dt_coll *team)
{
    struct dt_coll **teams = z->unit[unit].partial[param];
    size_t before = teams[0] ? 1 : 0;
    assert(!teams[before]);
    z->has_partial = true;
    teams[before] = team;
}

/* What the teams of one parameter have of its gradients, in the shard of OWNER. */
static int sum_param(struct dt_zero *z, size_t unit, size_t param, size_t owner, struct dt_err *err)
{
    const struct dt_zero_unit *u = &z->unit[unit];
    struct dt_piece p;
    enum dt_dtype type = dt_zero_sum_type(z);
    char *grads =
        z->offload ? dt_offload_sum(z->offload, unit) : dt_row_at(z, &z->grads, unit, owner);
    if (!dt_zero_piece(z, unit, owner, param, &p))
        return 0;
    for (size_t i = 0; i < DT_ZERO_TEAMS_MOST && u->partial[param][i]; i++)
        if (dt_coll_all_reduce(u->partial[param][i], grads + p.at * dt_dtype_size(type), p.count,
                               type, DT_SUM, err) < 0)
            return dt_err_wrap(err, "gradients of %s", u->param_name[param]);
    return 0;
}

/* The same of one unit's, of this rank's shards. */
static int sum_parts(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    const struct dt_zero_unit *u = &z->unit[unit];
    size_t first, end;
    dt_zero_owners(z, &first, &end);
    for (size_t i = 0; i < u->params; i++)
        for (size_t owner = first; u->partial[i][0] && owner < end; owner++)
            if (sum_param(z, unit, i, owner, err) < 0)
                return -1;
    return 0;
}

void dt_zero_count_elsewhere(struct dt_zero *z, size_t unit, size_t param)
{
    z->unit[unit].elsewhere[param] = true;
}

/* One step: what is the same for all, and the pieces that wait for it. */
struct update {
    struct dt_adamw a;
    float lr;
    uint64_t chance;
    size_t parts;
    struct dt_adamw_part part[DT_PARTS_MOST];
};

static void move(struct dt_zero *z, struct update *w)
{
    if (w->parts > 0)
        z->device->ops->adamw(&w->a, w->parts, w->part, z->device->stream);
    w->parts = 0;
}

/* Where piece P of a shard is. */
static void find(struct dt_zero *z, size_t unit, size_t owner, const struct dt_piece *p,
                 struct dt_adamw_part *out)
{
    char *params = dt_row_at(z, &z->params, unit, owner);
    const char *grads = dt_row_at(z, &z->grads, unit, owner);
    out->count = p->count;
    out->master = dt_zero_master(z, unit, owner) + p->at;
    out->exp_avg = (float *)dt_row_at(z, &z->exp_avg, unit, owner) + p->at;
    out->exp_avg_sq = (float *)dt_row_at(z, &z->exp_avg_sq, unit, owner) + p->at;
    out->params = params + p->at * z->params.elem;
    out->grads = grads + p->at * z->grads.elem;
}

static void update_shard(struct dt_zero *z, struct update *w, size_t unit, size_t owner)
{
    const struct dt_zero_unit *u = &z->unit[unit];
    struct dt_piece p;
    for (size_t i = 0; i < u->params; i++) {
        if (!dt_zero_piece(z, unit, owner, i, &p))
            continue;
        struct dt_adamw_part part = {.lr = w->lr * u->rate[i],
                                     .weight_decay = u->decay[i] ? z->o.weight_decay : 0};
        if (z->o.stochastic_rounding)
            part.chance = w->chance + u->chance[i] + p.first;
        if (z->offload) {
            dt_offload_adamw(z->offload, &w->a, &part, unit, &p);
            continue;
        }
        find(z, unit, owner, &p, &part);
        if (w->parts == DT_PARTS_MOST)
            move(z, w);
        w->part[w->parts++] = part;
    }
}

static float bias(const struct dt_zero *z, float beta)
{
    return z->o.bias_correction ? (float)(1 - pow((double)beta, (double)z->steps)) : 1;
}

static void update(struct dt_zero *z, float lr, double grad_scale)
{
    z->steps++;
    struct update w = {.a = {.beta1 = z->o.beta1,
                             .beta2 = z->o.beta2,
                             .eps = z->o.eps,
                             .bias1 = bias(z, z->o.beta1),
                             .bias2 = bias(z, z->o.beta2),
                             .grad_scale = (float)grad_scale,
                             .decoupled = z->o.decoupled,
                             .float_grads = z->grads.type == DT_F32,
                             .model_type = z->o.model_type},
                       .lr = lr,
                       .chance = chance(z)};
    size_t first, end;
    dt_zero_owners(z, &first, &end);
    z->home->table->snap_fence(z->home);
    for (size_t u = 0; u < z->layout.units; u++)
        for (size_t owner = first; owner < end; owner++)
            update_shard(z, &w, u, owner);
    move(z, &w);
}

static void clear_grads(struct dt_zero *z)
{
    if (z->grads.at)
        z->device->table->clear(z->device, z->grads.at, z->grads.bytes);
    for (size_t u = 0; u < z->layout.units; u++)
        z->unit[u].reduced = z->unit[u].added = false;
}

int dt_zero_settle(struct dt_zero *z, struct dt_err *err)
{
    if (dt_zero_check_trained(z, err) < 0)
        return -1;
    if (z->stage->finish(z, err) < 0 || (z->offload && dt_offload_finish(z->offload, err) < 0))
        return -1;
    int64_t from = dt_clock_monotonic_ns();
    for (size_t unit = 0; z->has_partial && unit < z->units; unit++)
        if (sum_parts(z, unit, err) < 0)
            return -1;
    z->communication_ns += (uint64_t)(dt_clock_monotonic_ns() - from);
    return 0;
}

int dt_zero_norm(struct dt_zero *z, double *square, struct dt_err *err)
{
    return dt_zero_settle(z, err) < 0 ? -1 : norm_square(z, square, err);
}

double dt_zero_factor(const struct dt_zero_update *u, double square, struct dt_zero_updated *out)
{
    double loss_scale = u->loss_scale != 0 ? (double)u->loss_scale : 1;
    double norm = sqrt(square) / loss_scale, factor = 1;
    *out = (struct dt_zero_updated){.grad_norm = norm, .overflow = !isfinite(norm)};
    if (u->clip > 0)
        factor = fmin(1, (double)u->clip / (norm + 1e-6));
    return factor / loss_scale;
}

/* What the optimizer does since FROM is done when this returns. */
static int finish_update(struct dt_zero *z, int64_t from, struct dt_err *err)
{
    clear_grads(z);
    if (dt_device_sync(z->device, err) < 0)
        return -1;
    z->optimizer_ns += (uint64_t)(dt_clock_monotonic_ns() - from);
    return 0;
}

int dt_zero_apply(struct dt_zero *z, float lr, double factor, struct dt_err *err)
{
    int64_t from = dt_clock_monotonic_ns();
    update(z, lr, factor);
    return finish_update(z, from, err) < 0 ? -1 : z->stage->publish(z, err);
}

int dt_zero_skip(struct dt_zero *z, struct dt_err *err)
{
    return finish_update(z, dt_clock_monotonic_ns(), err);
}

int dt_zero_step(struct dt_zero *z, const struct dt_zero_update *u, struct dt_zero_updated *out,
                 struct dt_err *err)
{
    double square;
    if (dt_zero_norm(z, &square, err) < 0)
        return -1;
    double factor = dt_zero_factor(u, square, out);
    return out->overflow ? dt_zero_skip(z, err) : dt_zero_apply(z, u->lr, factor, err);
}
