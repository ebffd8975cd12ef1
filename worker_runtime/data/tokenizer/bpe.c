/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/tokenizer/bpe.h"

#include <stdio.h>
#include <stdlib.h>

void dt_bpe_finish(struct dt_bpe *b)
{
    dt_vocab_finish(&b->words);
    free(b->merges);
    *b = (struct dt_bpe){0};
}

int dt_bpe_reserve(struct dt_bpe *b, size_t count, struct dt_err *err)
{
    size_t slots = 16;
    while (slots < 2 * count)
        slots *= 2;
    b->merges = malloc(slots * sizeof *b->merges);
    if (!b->merges)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu merges", count);
    for (size_t i = 0; i < slots; i++)
        b->merges[i].rank = DT_BPE_NONE;
    b->merge_slots = slots;
    return 0;
}

static size_t slot_of(const struct dt_bpe *b, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h ^ h >> 29) & (b->merge_slots - 1);
    while (b->merges[i].rank != DT_BPE_NONE &&
           (b->merges[i].left != left || b->merges[i].right != right))
        i = (i + 1) & (b->merge_slots - 1);
    return i;
}

void dt_bpe_put_merge(struct dt_bpe *b, const struct dt_bpe_merge *merge)
{
    b->merges[slot_of(b, merge->left, merge->right)] = *merge;
}

const struct dt_bpe_merge *dt_bpe_merge_of(const struct dt_bpe *b, uint32_t left, uint32_t right)
{
    const struct dt_bpe_merge *m = &b->merges[slot_of(b, left, right)];
    return m->rank == DT_BPE_NONE ? NULL : m;
}

static uint32_t token_of(const struct dt_bpe *b, struct dt_bytes text)
{
    int64_t id = dt_vocab_find(&b->words, text);
    return id < 0 ? DT_BPE_NONE : (uint32_t)id;
}

void dt_bpe_find_bytes(struct dt_bpe *b)
{
    for (unsigned i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        b->bytes[i] = token_of(b, b->byte_level ? (struct dt_bytes){&byte, 1} : dt_bytes_of(name));
    }
}

void dt_ids_put(struct dt_ids *ids, const uint32_t *more, size_t count)
{
    if (ids->room - ids->len < count && !ids->bad) {
        size_t room = 2 * ids->room > ids->len + count ? 2 * ids->room : ids->len + count + 64;
        uint32_t *at = realloc(ids->at, room * sizeof *at);
        ids->bad = !at;
        if (at) {
            ids->at = at;
            ids->room = room;
        }
    }
    if (ids->bad || count == 0)
        return;
    memcpy(ids->at + ids->len, more, count * sizeof *more);
    ids->len += count;
}

void dt_ids_finish(struct dt_ids *ids)
{
    free(ids->at);
    *ids = (struct dt_ids){0};
}
