/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/history.h"

#include "rendezvous/protocol/fields.h"

#include <stdlib.h>

/* clang-format off */
#define WHOLE(member, least) \
    {.name = #member, .kind = DT_FIELD_INT64, .at = offsetof(struct dt_past_round, member), .min = least, .max = INT64_MAX}
#define TEXT(member) \
    {.name = #member, .kind = DT_FIELD_TEXT, .at = offsetof(struct dt_past_round, member), \
     .max = sizeof((struct dt_past_round *)0)->member - 1}
/* clang-format on */

static const struct dt_field past_fields[] = {
    {.name = "round",
     .kind = DT_FIELD_INT,
     .at = offsetof(struct dt_past_round, round),
     .max = INT32_MAX},
    WHOLE(ended_us, 0),
    WHOLE(lasted, 0),
    WHOLE(lost, -1),
    WHOLE(first_step, -1),
    WHOLE(last_step, -1),
    {.name = "told", .kind = DT_FIELD_BOOL, .at = offsetof(struct dt_past_round, told), .max = 1},
    TEXT(cause),
    TEXT(decided),
    {0},
};

void dt_history_finish(struct dt_history *h)
{
    free(h->at);
    *h = (struct dt_history){0};
}

/* Most runs have few rounds: room grows to powers of two. */
static bool make_room(struct dt_history *h)
{
    if (h->len == DT_HISTORY_MOST) {
        memmove(h->at, h->at + 1, --h->len * sizeof *h->at);
        return true;
    }
    if ((h->len & (h->len - 1)) != 0)
        return true;
    struct dt_past_round *at = reallocarray(h->at, h->len ? 2 * h->len : 1, sizeof *at);
    if (!at)
        return false;
    h->at = at;
    return true;
}

struct dt_past_round *dt_history_add(struct dt_history *h, const struct dt_past_round *past)
{
    if (!make_room(h))
        return NULL;
    h->at[h->len] = *past;
    return &h->at[h->len++];
}

struct dt_past_round *dt_history_last(const struct dt_history *h)
{
    return h->len ? &h->at[h->len - 1] : NULL;
}

void dt_history_save(const struct dt_history *h, struct dt_buf *out)
{
    dt_buf_put_u32(out, (uint32_t)h->len);
    for (size_t i = 0; i < h->len; i++)
        dt_fields_pack(out, &h->at[i], past_fields);
}

bool dt_history_restore(struct dt_history *h, struct dt_reader *in)
{
    uint32_t count = dt_read_u32(in);
    in->bad = in->bad || count > DT_HISTORY_MOST;
    for (uint32_t i = 0; i < count && !in->bad; i++) {
        struct dt_past_round past;
        dt_fields_unpack(in, &past, past_fields, SIZE_MAX);
        if (!in->bad && !dt_history_add(h, &past))
            in->bad = true;
    }
    return !in->bad;
}
