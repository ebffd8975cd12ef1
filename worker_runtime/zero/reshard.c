/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/zero/reshard.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* What is left of the stretch at hand, or the next one. */
static bool advance(struct dt_reshard *r)
{
    if (r->done < r->stretch.count)
        return true;
    r->done = 0;
    r->stretch.count = 0;
    return dt_layout_owned(r->layout, r->rank, &r->next, &r->stretch);
}

/* The last tensor that begins at AT or before it. */
static size_t find_tensor(const struct dt_layout *l, const struct dt_reshard_tensor *tensors,
                          size_t count, size_t at)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (l->unit[tensors[mid].unit].payload_at + tensors[mid].offset <= at)
            low = mid;
        else
            high = mid;
    }
    return low;
}

bool dt_reshard_by_tensor(struct dt_reshard *r, const struct dt_reshard_tensor *tensors,
                          size_t count, struct dt_reshard_part *out)
{
    if (!advance(r))
        return false;
    size_t at = r->stretch.payload_at + r->done;
    size_t i = find_tensor(r->layout, tensors, count, at);
    size_t first = at - r->layout->unit[tensors[i].unit].payload_at - tensors[i].offset;
    if (first >= tensors[i].count)
        return false; /* a gap: the table is not one of this layout */
    *out = (struct dt_reshard_part){
        .tensor = i,
        .first = first,
        .count = least(tensors[i].count - first, r->stretch.count - r->done),
        .payload_at = at,
        .shard_at = r->stretch.shard_at + r->done,
    };
    r->done += out->count;
    return true;
}

/* The last unit that begins at AT or before it; empty units begin where the next does. */
static const struct dt_layout_unit *find_unit(const struct dt_layout *l, size_t at)
{
    size_t low = 0, high = l->units;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (l->unit[mid].payload_at <= at)
            low = mid;
        else
            high = mid;
    }
    return &l->unit[low];
}

bool dt_reshard_by_owner(struct dt_reshard *r, const struct dt_layout *old,
                         struct dt_reshard_move *out)
{
    if (!advance(r))
        return false;
    size_t at = r->stretch.payload_at + r->done;
    if (at >= old->payload)
        return false;
    const struct dt_layout_unit *u = find_unit(old, at);
    size_t in_unit = at - u->payload_at, in_shard = in_unit % u->shard;
    size_t count = least(u->shard - in_shard, u->size - in_unit);
    *out = (struct dt_reshard_move){
        .from_rank = in_unit / u->shard,
        .from_at = u->shard_at + in_shard,
        .to_at = r->stretch.shard_at + r->done,
        .count = least(count, r->stretch.count - r->done),
    };
    r->done += out->count;
    return true;
}
