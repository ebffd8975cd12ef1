/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/tokenizer/vocab.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FIRST_SLOTS 1024u

void dt_vocab_finish(struct dt_vocab *v)
{
    dt_buf_finish(&v->bytes);
    free(v->entries);
    free(v->slots);
    *v = (struct dt_vocab){0};
}

/* The slot of TEXT, or the free one where it would be. */
static uint32_t *slot_of(const struct dt_vocab *v, struct dt_bytes text)
{
    uint32_t i = (uint32_t)XXH3_64bits(text.at, text.len) & (v->slot_count - 1);
    while (v->slots[i] && !dt_bytes_equal(dt_vocab_text(v, v->slots[i] - 1), text))
        i = (i + 1) & (v->slot_count - 1);
    return &v->slots[i];
}

static int grow_slots(struct dt_vocab *v)
{
    struct dt_vocab old = *v;
    v->slot_count = old.slot_count ? 2 * old.slot_count : FIRST_SLOTS;
    v->slots = calloc(v->slot_count, sizeof *v->slots);
    if (!v->slots) {
        *v = old;
        return -1;
    }
    for (uint32_t i = 0; i < old.slot_count; i++)
        if (old.slots[i])
            *slot_of(v, dt_vocab_text(v, old.slots[i] - 1)) = old.slots[i];
    free(old.slots);
    return 0;
}

static int grow_entries(struct dt_vocab *v, uint32_t id)
{
    uint32_t room = v->room ? v->room : FIRST_SLOTS;
    while (room <= id)
        room *= 2;
    struct dt_vocab_entry *entries = realloc(v->entries, room * sizeof *entries);
    if (!entries)
        return -1;
    memset(entries + v->room, 0, (room - v->room) * sizeof *entries);
    v->entries = entries;
    v->room = room;
    return 0;
}

int dt_vocab_add(struct dt_vocab *v, uint32_t id, struct dt_bytes text)
{
    if (id >= DT_VOCAB_IDS_MAX || text.len > UINT32_MAX - v->bytes.len)
        return -1;
    if (v->filled >= v->slot_count / 2 && grow_slots(v) < 0)
        return -1;
    if (id >= v->room && grow_entries(v, id) < 0)
        return -1;
    uint32_t at = (uint32_t)v->bytes.len;
    dt_buf_put(&v->bytes, text.at, text.len);
    if (v->bytes.bad)
        return -1;
    v->entries[id] = (struct dt_vocab_entry){.at = at, .len = (uint32_t)text.len, .there = true};
    if (id >= v->limit)
        v->limit = id + 1;
    uint32_t *slot = slot_of(v, text);
    v->filled += *slot == 0;
    *slot = id + 1;
    return 0;
}

int64_t dt_vocab_find(const struct dt_vocab *v, struct dt_bytes text)
{
    return v->slot_count ? (int64_t)*slot_of(v, text) - 1 : -1;
}

bool dt_vocab_has(const struct dt_vocab *v, uint32_t id)
{
    return id < v->limit && v->entries[id].there;
}

struct dt_bytes dt_vocab_text(const struct dt_vocab *v, uint32_t id)
{
    if (!dt_vocab_has(v, id))
        return (struct dt_bytes){0};
    return (struct dt_bytes){v->bytes.at + v->entries[id].at, v->entries[id].len};
}
