/* SPDX-License-Identifier: Apache-2.0 */
/* A text has few different words, so most are found among those of before. Short ones are merged by
 * looking at all pairs each time, long ones by a heap of pairs. */
#include "worker_runtime/data/tokenizer/bpe.h"

#include "base/utf8.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SHORT_WORD 32 /* symbols */
#define REMEMBERED ((size_t)1 << 15)
#define KEPT ((size_t)4 << 20) /* symbols; what a longer word took is given back */
#define GONE UINT32_MAX

/* One line of a processor's cache. Words with the same place take it from each other. */
struct remembered {
    uint32_t hash;
    uint8_t len, count; /* 0: nothing */
    char word[26];
    uint32_t ids[8];
};

struct symbol {
    uint32_t id;
    uint32_t rank;         /* of the merge with the next one; DT_BPE_NONE: there is none */
    uint32_t result;       /* of that merge */
    uint32_t before, next; /* GONE: none; of long words */
};

struct dt_bpe_coder {
    const struct dt_bpe *bpe;
    struct remembered *words;
    struct symbol *symbols;
    size_t count, room;
    uint64_t *heap; /* rank and place of a merge, the rank in front */
    size_t heap_len, heap_room;
    bool bad; /* no memory */
};

struct dt_bpe_coder *dt_bpe_coder_create(const struct dt_bpe *b, struct dt_err *err)
{
    struct dt_bpe_coder *c = calloc(1, sizeof *c);
    if (c) {
        c->bpe = b;
        c->words = calloc(REMEMBERED, sizeof *c->words);
    }
    if (!c || !c->words) {
        dt_bpe_coder_destroy(c);
        dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    return c;
}

/* What a word took. */
static void give_back(struct dt_bpe_coder *c)
{
    free(c->symbols);
    free(c->heap);
    c->symbols = NULL;
    c->heap = NULL;
    c->count = c->room = c->heap_len = c->heap_room = 0;
}

void dt_bpe_coder_destroy(struct dt_bpe_coder *c)
{
    if (!c)
        return;
    give_back(c);
    free(c->words);
    free(c);
}

/* -- symbols ---------------------------------------------------------------------------------- */

static void add(struct dt_bpe_coder *c, uint32_t id)
{
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 1024;
        struct symbol *symbols = realloc(c->symbols, room * sizeof *symbols);
        if (!symbols) {
            c->bad = true;
            return;
        }
        c->symbols = symbols;
        c->room = room;
    }
    c->symbols[c->count++].id = id;
}

static bool has_bytes(const struct dt_bpe *b, struct dt_bytes character)
{
    for (size_t i = 0; i < character.len; i++)
        if (b->bytes[character.at[i]] == DT_BPE_NONE)
            return false;
    return true;
}

/* The character at the beginning of TEXT, a byte where it is none; *ID: its token. */
static struct dt_bytes next_character(const struct dt_bpe *b, struct dt_bytes text, uint32_t *id)
{
    if (b->byte_level) {
        *id = b->bytes[text.at[0]];
        return (struct dt_bytes){text.at, 1};
    }
    size_t n = dt_utf8_len(text.at, text.len);
    struct dt_bytes character = {text.at, n ? n : 1};
    int64_t found = dt_vocab_find(&b->words, character);
    *id = found < 0 ? DT_BPE_NONE : (uint32_t)found;
    return character;
}

/* An unknown character waits, as those behind it may go into the same token. The bytes of a
 * fallback in between do not wait for it: so does the library. */
static void take_symbols(struct dt_bpe_coder *c, struct dt_bytes word)
{
    const struct dt_bpe *b = c->bpe;
    bool waiting = false;
    c->count = 0;
    for (size_t i = 0; i < word.len;) {
        uint32_t id;
        struct dt_bytes character =
            next_character(b, (struct dt_bytes){word.at + i, word.len - i}, &id);
        i += character.len;
        if (id == DT_BPE_NONE && b->byte_fallback && has_bytes(b, character)) {
            for (size_t k = 0; k < character.len; k++)
                add(c, b->bytes[character.at[k]]);
            continue;
        }
        if (id == DT_BPE_NONE && b->unknown == DT_BPE_NONE)
            continue;
        if (waiting && (id != DT_BPE_NONE || !b->fuse_unknown))
            add(c, b->unknown);
        waiting = id == DT_BPE_NONE;
        if (!waiting)
            add(c, id);
    }
    if (waiting)
        add(c, b->unknown);
}

/* Looks up the merge of A with B behind it. */
static void pair(const struct dt_bpe *b, struct symbol *a, const struct symbol *behind)
{
    const struct dt_bpe_merge *m = behind ? dt_bpe_merge_of(b, a->id, behind->id) : NULL;
    a->rank = m ? m->rank : DT_BPE_NONE;
    a->result = m ? m->result : 0;
}

/* -- short words ------------------------------------------------------------------------------ */

static void merge_short(struct dt_bpe_coder *c)
{
    struct symbol *s = c->symbols;
    for (size_t i = 0; i < c->count; i++)
        pair(c->bpe, &s[i], i + 1 < c->count ? &s[i + 1] : NULL);
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i < c->count; i++)
            if (s[i].rank < s[best].rank)
                best = i;
        if (c->count == 0 || s[best].rank == DT_BPE_NONE)
            return;
        s[best].id = s[best].result;
        c->count--;
        memmove(&s[best + 1], &s[best + 2], (c->count - best - 1) * sizeof *s);
        pair(c->bpe, &s[best], best + 1 < c->count ? &s[best + 1] : NULL);
        if (best > 0)
            pair(c->bpe, &s[best - 1], &s[best]);
    }
}

/* -- long words ------------------------------------------------------------------------------- */

static void heap_put(struct dt_bpe_coder *c, uint64_t entry)
{
    if (c->heap_len == c->heap_room) {
        size_t room = c->heap_room ? 2 * c->heap_room : 1024;
        uint64_t *heap = realloc(c->heap, room * sizeof *heap);
        if (!heap) {
            c->bad = true;
            return;
        }
        c->heap = heap;
        c->heap_room = room;
    }
    size_t i = c->heap_len++;
    for (; i > 0 && c->heap[(i - 1) / 2] > entry; i = (i - 1) / 2)
        c->heap[i] = c->heap[(i - 1) / 2];
    c->heap[i] = entry;
}

static uint64_t heap_take(struct dt_bpe_coder *c)
{
    uint64_t top = c->heap[0], last = c->heap[--c->heap_len];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < c->heap_len; i = child) {
        child += child + 1 < c->heap_len && c->heap[child + 1] < c->heap[child];
        if (c->heap[child] >= last)
            break;
        c->heap[i] = c->heap[child];
    }
    c->heap[i] = last;
    return top;
}

static void expect(struct dt_bpe_coder *c, uint32_t i)
{
    struct symbol *s = &c->symbols[i];
    pair(c->bpe, s, s->next == GONE ? NULL : &c->symbols[s->next]);
    if (s->rank != DT_BPE_NONE)
        heap_put(c, (uint64_t)s->rank << 32 | i);
}

static void merge_at(struct dt_bpe_coder *c, uint32_t i)
{
    struct symbol *s = &c->symbols[i], *behind = &c->symbols[s->next];
    s->id = s->result;
    s->next = behind->next;
    behind->rank = DT_BPE_NONE;
    if (s->next != GONE)
        c->symbols[s->next].before = i;
    expect(c, i);
    if (s->before != GONE)
        expect(c, s->before);
}

static void merge_long(struct dt_bpe_coder *c)
{
    uint32_t count = (uint32_t)c->count;
    for (uint32_t i = 0; i < count; i++) {
        c->symbols[i].before = i ? i - 1 : GONE;
        c->symbols[i].next = i + 1 < count ? i + 1 : GONE;
    }
    c->heap_len = 0;
    for (uint32_t i = 0; i < count; i++)
        expect(c, i);
    while (c->heap_len && !c->bad) {
        uint64_t top = heap_take(c);
        uint32_t i = (uint32_t)top;
        if (c->symbols[i].rank == top >> 32) /* else the pair is not there any more */
            merge_at(c, i);
    }
    c->count = 0;
    for (uint32_t i = 0; i != GONE; i = c->symbols[i].next)
        c->symbols[c->count++].id = c->symbols[i].id;
}

/* -- words ------------------------------------------------------------------------------------ */

static void put_merged(struct dt_bpe_coder *c, struct dt_bytes word, struct dt_ids *out)
{
    int64_t whole = c->bpe->whole_words_first ? dt_vocab_find(&c->bpe->words, word) : -1;
    if (whole >= 0) {
        dt_ids_put(out, &(uint32_t){(uint32_t)whole}, 1);
        return;
    }
    take_symbols(c, word);
    if (c->bad || c->count >= GONE) {
        out->bad = true;
        return;
    }
    if (c->count <= SHORT_WORD)
        merge_short(c);
    else
        merge_long(c);
    out->bad |= c->bad;
    for (size_t i = 0; i < c->count; i++)
        dt_ids_put(out, &c->symbols[i].id, 1);
    if (c->room > KEPT)
        give_back(c);
}

void dt_bpe_encode(struct dt_bpe_coder *c, struct dt_bytes word, struct dt_ids *out)
{
    struct remembered *r = NULL;
    size_t start = out->len;
    if (word.len <= sizeof r->word) {
        uint64_t h = XXH3_64bits(word.at, word.len);
        uint32_t hash = (uint32_t)(h >> 32);
        r = &c->words[h & (REMEMBERED - 1)];
        if (r->hash == hash && r->len == word.len && memcmp(r->word, word.at, word.len) == 0 &&
            r->count) {
            dt_ids_put(out, r->ids, r->count);
            return;
        }
        r->hash = hash;
        r->count = 0;
    }
    put_merged(c, word, out);
    size_t count = out->len - start;
    if (!r || out->bad || count == 0 || count > sizeof r->ids / sizeof *r->ids)
        return;
    memcpy(r->word, word.at, word.len);
    memcpy(r->ids, out->at + start, count * sizeof *r->ids);
    r->len = (uint8_t)word.len;
    r->count = (uint8_t)count;
}
