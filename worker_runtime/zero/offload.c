/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/zero/offload.h"

#include <stdlib.h>
#include <string.h>

#include "worker_runtime/zero/loans.h"

enum {
    /* Most bytes that are fetched at a time, and pinned for it: a shard of more comes in several
     * goes, of which the last alone is not waited for. */
    BUCKET = 256 << 20,
    /* Elements that AdamW takes at a time: what it reads as floats and writes stays in the cache
     * of a few cores. */
    PIECE = 1 << 18
};

/* A stretch of a shard on its way down; COUNT 0: none. */
struct fetch {
    size_t unit, at, count;
    void *lent;
};

struct dt_offload {
    struct dt_zero *z;
    struct dt_device *home;
    size_t elem, piece;
    enum dt_dtype from;     /* what sums come down in */
    struct dt_row sums;     /* of gradients, this rank's shards; .at NULL: Z is frozen */
    void *bucket;           /* pinned */
    size_t bucket_elements; /* that it has room for */
    float *floats[2];       /* a piece each */
    void *rounded;          /* a piece in the GPU's type */
    struct fetch coming;
};

static size_t largest_shard(const struct dt_layout *l)
{
    size_t most = 0;
    for (size_t u = 0; u < l->units; u++)
        most = l->unit[u].shard > most ? l->unit[u].shard : most;
    return most;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t bucket_of(const struct dt_layout *l, enum dt_dtype elem)
{
    return smaller(largest_shard(l), BUCKET / dt_dtype_size(elem));
}

static size_t piece_bytes(size_t piece, enum dt_dtype elem)
{
    return piece * (2 * sizeof(float) + dt_dtype_size(elem));
}

size_t dt_offload_bytes_of(const struct dt_layout *l, enum dt_dtype elem, enum dt_dtype from,
                           enum dt_dtype sum)
{
    return l->shard * dt_dtype_size(sum) + bucket_of(l, from) * dt_dtype_size(from) +
           piece_bytes(PIECE, elem);
}

size_t dt_offload_bytes_of_frozen(enum dt_dtype elem)
{
    return piece_bytes(PIECE, elem);
}

size_t dt_offload_bytes(const struct dt_offload *o)
{
    return o->sums.bytes + o->bucket_elements * dt_dtype_size(o->from) +
           piece_bytes(o->piece, o->z->elem);
}

static int open_gradients(struct dt_offload *o, size_t piece, struct dt_err *err)
{
    struct dt_zero *z = o->z;
    o->sums = (struct dt_row){.type = dt_zero_sum_type(z), .sharded = true};
    o->sums.elem = dt_dtype_size(o->sums.type);
    o->sums.bytes = z->layout.shard * o->sums.elem;
    o->bucket_elements =
        piece ? smaller(piece, largest_shard(&z->layout)) : bucket_of(&z->layout, o->from);
    o->sums.at = dt_device_alloc(o->home, o->sums.bytes, "gradients", err);
    o->bucket =
        z->device->table->alloc_host(z->device, o->bucket_elements * dt_dtype_size(o->from), err);
    return o->sums.at && o->bucket ? 0 : -1;
}

static int open_piece(struct dt_offload *o, struct dt_err *err)
{
    for (int i = 0; i < 2; i++)
        o->floats[i] = dt_device_alloc(o->home, o->piece * sizeof(float), "a piece", err);
    o->rounded = dt_device_alloc(o->home, o->piece * o->elem, "a piece", err);
    return o->floats[0] && o->floats[1] && o->rounded ? 0 : -1;
}

struct dt_offload *dt_offload_create(struct dt_zero *z, int threads, size_t piece,
                                     struct dt_err *err)
{
    struct dt_offload *o = calloc(1, sizeof *o);
    if (!o) {
        dt_err_set(err, DT_E_MEMORY, "no memory for an optimizer in the host's memory");
        return NULL;
    }
    o->z = z;
    o->elem = dt_dtype_size(z->elem);
    o->from = z->stage->grads_sharded ? z->elem : dt_zero_sum_type(z);
    o->piece = piece ? piece : PIECE;
    o->home = dt_device_open_cpu_alone(threads, err);
    if (o->home && open_piece(o, err) == 0 && (z->o.frozen || open_gradients(o, piece, err) == 0))
        return o;
    dt_err_wrap(err, "zero_optimization.offload_optimizer");
    dt_offload_destroy(o);
    return NULL;
}

void dt_offload_destroy(struct dt_offload *o)
{
    if (!o)
        return;
    if (o->home) {
        dt_device_free(o->home, o->rounded);
        dt_device_free(o->home, o->floats[0]);
        dt_device_free(o->home, o->floats[1]);
        dt_device_free(o->home, o->sums.at);
    }
    if (o->bucket)
        o->z->device->table->free_host(o->z->device, o->bucket);
    dt_device_close(o->home);
    free(o);
}

struct dt_device *dt_offload_home(const struct dt_offload *o)
{
    return o->home;
}

static char *sum_at(const struct dt_offload *o, size_t unit, size_t at)
{
    return (char *)dt_row_at(o->z, &o->sums, unit, o->z->rank) + at * o->sums.elem;
}

/* -- down ------------------------------------------------------------------------------------- */

/* N elements at X as floats, which have room for a piece; X itself where they are floats. */
static void *as_floats(struct dt_offload *o, float *room, void *x, enum dt_dtype type, size_t n)
{
    if (type == DT_F32)
        return x;
    o->home->ops->cast(n, room, DT_F32, x, type, o->home->stream);
    return room;
}

/* TO += FROM, N elements. As a GPU adds what it computes with: in float, rounded once. */
static void add_to(struct dt_offload *o, char *to, char *from, size_t n)
{
    const struct dt_ops *ops = o->home->ops;
    struct dt_stream *s = o->home->stream;
    enum dt_dtype type = o->sums.type;
    for (size_t i = 0; i < n; i += o->piece) {
        size_t count = smaller(o->piece, n - i);
        char *at = to + i * o->sums.elem;
        float *sum = as_floats(o, o->floats[0], at, type, count);
        ops->add(count, sum,
                 as_floats(o, o->floats[1], from + i * dt_dtype_size(o->from), o->from, count), s);
        if (type != DT_F32)
            ops->cast(count, at, type, sum, DT_F32, s);
    }
}

static void keep(struct dt_offload *o, const struct fetch *f)
{
    char *kept = sum_at(o, f->unit, f->at);
    if (o->z->unit[f->unit].added)
        add_to(o, kept, o->bucket, f->count);
    else
        o->home->ops->cast(f->count, kept, o->sums.type, o->bucket, o->from, o->home->stream);
}

int dt_offload_settle(struct dt_offload *o, struct dt_err *err)
{
    struct fetch f = o->coming;
    struct dt_zero *z = o->z;
    if (f.count == 0)
        return 0;
    o->coming.count = 0;
    int rc = z->device->table->snap_wait(z->device, err);
    if (rc == 0)
        keep(o, &f);
    else
        dt_device_sync(z->device, err); /* knows of a peer that is lost, which is the reason then */
    if (f.at + f.count < z->layout.unit[f.unit].shard)
        return rc;
    z->unit[f.unit].added = true;
    if (f.lent)
        dt_loans_end(z->loans, f.lent);
    return rc;
}

int dt_offload_fetch(struct dt_offload *o, size_t unit, const void *sum, void *lent,
                     struct dt_err *err)
{
    struct dt_zero *z = o->z;
    size_t n = z->layout.unit[unit].shard;
    for (size_t at = 0; at < n; at += o->bucket_elements) {
        if (dt_offload_settle(o, err) < 0)
            return -1;
        o->coming = (struct fetch){unit, at, smaller(o->bucket_elements, n - at), lent};
        z->device->table->snap(z->device, o->bucket,
                               (const char *)sum + at * dt_dtype_size(o->from),
                               o->coming.count * dt_dtype_size(o->from));
    }
    return 0;
}

int dt_offload_finish(struct dt_offload *o, struct dt_err *err)
{
    struct dt_zero *z = o->z;
    if (dt_offload_settle(o, err) < 0)
        return -1;
    for (size_t u = 0; u < z->layout.units; u++)
        if (!z->unit[u].added)
            memset(sum_at(o, u, 0), 0, z->layout.unit[u].shard * o->sums.elem);
    return 0;
}

/* -- the update, and up ----------------------------------------------------------------------- */

/* COUNT gradients, of at most a piece, as floats. */
static const float *float_sums(struct dt_offload *o, size_t unit, size_t at, size_t count)
{
    return as_floats(o, o->floats[0], sum_at(o, unit, at), o->sums.type, count);
}

void *dt_offload_sum(const struct dt_offload *o, size_t unit)
{
    return sum_at(o, unit, 0);
}

double dt_offload_squares(struct dt_offload *o, size_t unit, size_t at, size_t count)
{
    double part, all = 0;
    for (size_t i = 0; i < count; i += o->piece) {
        size_t n = smaller(o->piece, count - i);
        struct dt_squares_part one = {n, float_sums(o, unit, at + i, n)};
        o->home->ops->sum_squares(DT_F32, 1, &part, &one, o->home->stream);
        all += part;
    }
    return all;
}

/* In copies so little that the GPU gets them while the CPU goes on. */
static void copy_up(struct dt_zero *z, char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += DT_DEVICE_LITTLE)
        z->device->table->from_host(z->device, to + i, from + i,
                                    smaller(DT_DEVICE_LITTLE, bytes - i));
}

/* N parameters, already rounded to the model's type, to AT of this rank's shard. */
static void put(struct dt_offload *o, size_t unit, size_t at, const float *params, size_t n)
{
    struct dt_zero *z = o->z;
    const struct dt_ops *ops = o->home->ops;
    char *to = (char *)dt_row_at(z, &z->params, unit, z->rank) + at * o->elem;
    if (z->params.memory == DT_ROW_HOME) {
        ops->cast(n, to, z->elem, params, DT_F32, o->home->stream);
        return;
    }
    if (z->elem != DT_F32)
        ops->cast(n, o->rounded, z->elem, params, DT_F32, o->home->stream);
    copy_up(z, to, z->elem != DT_F32 ? o->rounded : params, n * o->elem);
}

void dt_offload_lift(struct dt_offload *o, size_t unit, void *to)
{
    struct dt_zero *z = o->z;
    copy_up(z, to, dt_row_at(z, &z->params, unit, z->rank), z->layout.unit[unit].shard * o->elem);
}

void dt_offload_adamw(struct dt_offload *o, const struct dt_adamw *a,
                      const struct dt_adamw_part *how, size_t unit, const struct dt_piece *p)
{
    struct dt_zero *z = o->z;
    float *master = dt_zero_master(z, unit, z->rank);
    float *exp_avg = dt_row_at(z, &z->exp_avg, unit, z->rank);
    float *exp_avg_sq = dt_row_at(z, &z->exp_avg_sq, unit, z->rank);
    for (size_t i = 0; i < p->count; i += o->piece) {
        size_t at = p->at + i, n = smaller(o->piece, p->count - i);
        struct dt_adamw_part one = *how;
        one.count = n;
        one.chance_at = how->chance_at + i;
        one.master = master + at;
        one.exp_avg = exp_avg + at;
        one.exp_avg_sq = exp_avg_sq + at;
        one.params = o->floats[1];
        one.grads = float_sums(o, unit, at, n);
        o->home->ops->adamw(a, 1, &one, o->home->stream);
        put(o, unit, at, o->floats[1], n);
    }
}

void dt_offload_derive(struct dt_offload *o, size_t unit)
{
    struct dt_zero *z = o->z;
    const struct dt_ops *ops = o->home->ops;
    const float *master = dt_zero_master(z, unit, z->rank);
    size_t shard = z->layout.unit[unit].shard;
    for (size_t at = 0; at < shard; at += o->piece) {
        size_t n = smaller(o->piece, shard - at);
        memcpy(o->floats[1], master + at, n * sizeof(float));
        ops->round_to(n, o->floats[1], z->o.model_type, o->home->stream);
        put(o, unit, at, o->floats[1], n);
    }
}
