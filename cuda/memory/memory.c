/* SPDX-License-Identifier: Apache-2.0 */
/* Best fit, split and merged again. Little blocks share segments of their own; a large one gets a
 * segment of its size, which later serves what is not larger. When the device has no more, segments
 * that nobody uses any part of go back first. */
#include "cuda/memory/memory.h"

#include "cuda/memory/inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 256, LITTLE = 1 << 20, PAGE = 2 << 20, SHARED = 32 << 20 };

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

struct dt_cuda_memory *dt_cuda_memory_create(const struct dt_cuda_memory_calls *calls, size_t cap,
                                             struct dt_err *err)
{
    struct dt_cuda_memory *m = calloc(1, sizeof *m);
    if (!m) {
        dt_err_set(err, DT_E_MEMORY, "no memory to keep account of that of %s", calls->name);
        return NULL;
    }
    m->calls = *calls;
    m->cap = cap;
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void free_segment(struct dt_cuda_memory *m, struct segment *s)
{
    for (struct block *b = s->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    m->calls.give(m->calls.arg, s->at);
    m->figures.reserved -= s->bytes;
    free(s);
}

void dt_cuda_memory_destroy(struct dt_cuda_memory *m)
{
    if (!m)
        return;
    for (struct segment *s = m->segments, *next; s; s = next) {
        next = s->next;
        free_segment(m, s);
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static bool is_unused(const struct segment *s)
{
    return !s->first->account && !s->first->next;
}

/* How many bytes went back to the device. */
static size_t release_unused(struct dt_cuda_memory *m)
{
    size_t before = m->figures.reserved;
    for (struct segment **at = &m->segments; *at;) {
        struct segment *s = *at;
        if (is_unused(s)) {
            *at = s->next;
            free_segment(m, s);
        } else {
            at = &s->next;
        }
    }
    return before - m->figures.reserved;
}

static struct account *account_of(struct dt_cuda_memory *m, const char *what)
{
    struct account *a = m->accounts;
    const struct account *last = a + DT_CUDA_ACCOUNTS - 1;
    while (a < last && a->what && strcmp(a->what, what) != 0)
        a++;
    if (!a->what)
        a->what = a < last ? what : "the rest";
    return a;
}

static struct block *best_fit(const struct dt_cuda_memory *m, size_t bytes, bool small,
                              struct segment **in)
{
    struct block *best = NULL;
    for (struct segment *s = m->segments; s; s = s->next) {
        if (s->small != small)
            continue;
        for (struct block *b = s->first; b; b = b->next) {
            if (!b->account && b->bytes >= bytes && (!best || b->bytes < best->bytes)) {
                best = b;
                *in = s;
            }
        }
    }
    return best;
}

static enum dt_cuda_took take_from_device(struct dt_cuda_memory *m, struct segment *s,
                                          struct dt_err *err)
{
    void *at = NULL;
    if (m->cap && (s->bytes > m->cap || m->figures.reserved > m->cap - s->bytes))
        return DT_CUDA_NONE_LEFT;
    enum dt_cuda_took took = m->calls.take(m->calls.arg, s->bytes, &at, err);
    s->at = at;
    return took;
}

/* A segment of BYTES, all one free block. */
static enum dt_cuda_took add_segment(struct dt_cuda_memory *m, size_t bytes, bool small,
                                     struct dt_err *err)
{
    struct segment *s = calloc(1, sizeof *s);
    struct block *all = calloc(1, sizeof *all);
    enum dt_cuda_took took = DT_CUDA_TOOK_FAILED;
    if (s && all) {
        *s = (struct segment){.bytes = bytes, .small = small, .first = all, .next = m->segments};
        all->bytes = bytes;
        took = take_from_device(m, s, err);
    } else {
        dt_err_set(err, DT_E_MEMORY, "no memory to keep account of that of %s", m->calls.name);
    }
    if (took != DT_CUDA_TOOK) {
        free(all);
        free(s);
        return took;
    }
    m->segments = s;
    m->figures.reserved += bytes;
    return took;
}

/* What is kept unused goes back before the device is said to be full. */
static enum dt_cuda_took grow(struct dt_cuda_memory *m, size_t bytes, bool small,
                              struct dt_err *err)
{
    size_t least = round_up(bytes, PAGE), more = small ? SHARED : least;
    enum dt_cuda_took took = add_segment(m, more, small, err);
    if (took == DT_CUDA_NONE_LEFT && release_unused(m) > 0)
        took = add_segment(m, more, small, err);
    if (took == DT_CUDA_NONE_LEFT && more > least)
        took = add_segment(m, least, small, err);
    return took;
}

/* B keeps BYTES; what is behind becomes a free block, unless it is too little to be of use. */
static void split(struct block *b, size_t bytes, bool small)
{
    if (b->bytes - bytes < (size_t)(small ? GRAIN : LITTLE))
        return;
    struct block *rest = calloc(1, sizeof *rest);
    if (!rest)
        return; /* then B is larger than it need be */
    *rest = (struct block){
        .previous = b, .next = b->next, .offset = b->offset + bytes, .bytes = b->bytes - bytes};
    if (b->next)
        b->next->previous = rest;
    b->next = rest;
    b->bytes = bytes;
}

static void *hand_out(struct dt_cuda_memory *m, struct segment *s, struct block *b, size_t bytes,
                      const char *what)
{
    split(b, bytes, s->small);
    b->account = account_of(m, what);
    b->account->bytes += b->bytes;
    m->figures.in_use += b->bytes;
    if (m->figures.in_use > m->figures.peak)
        m->figures.peak = m->figures.in_use;
    return s->at + b->offset;
}

void *dt_cuda_memory_alloc(struct dt_cuda_memory *m, size_t bytes, const char *what,
                           struct dt_err *err)
{
    bool fits = bytes <= SIZE_MAX - PAGE;
    size_t rounded = fits ? round_up(bytes ? bytes : 1, GRAIN) : bytes;
    bool small = rounded <= LITTLE;
    enum dt_cuda_took took = DT_CUDA_NONE_LEFT;
    struct segment *s = NULL;
    void *at = NULL;
    pthread_mutex_lock(&m->lock);
    struct block *b = fits ? best_fit(m, rounded, small, &s) : NULL;
    if (!b && fits) {
        took = grow(m, rounded, small, err);
        b = took == DT_CUDA_TOOK ? best_fit(m, rounded, small, &s) : NULL;
    }
    if (b)
        at = hand_out(m, s, b, rounded, what);
    else if (took == DT_CUDA_NONE_LEFT)
        dt_cuda_memory_say_short(m, rounded, what, err);
    pthread_mutex_unlock(&m->lock);
    return at;
}

static struct block *block_at(const struct dt_cuda_memory *m, const char *at)
{
    for (const struct segment *s = m->segments; s; s = s->next) {
        if ((uintptr_t)at < (uintptr_t)s->at || (uintptr_t)at >= (uintptr_t)s->at + s->bytes)
            continue;
        struct block *b = s->first;
        while (b && s->at + b->offset != at)
            b = b->next;
        return b;
    }
    return NULL;
}

/* B takes in the free block behind it. */
static void merge_next(struct block *b)
{
    struct block *gone = b->next;
    if (!gone || gone->account || b->account)
        return;
    b->bytes += gone->bytes;
    b->next = gone->next;
    if (b->next)
        b->next->previous = b;
    free(gone);
}

void dt_cuda_memory_free(struct dt_cuda_memory *m, void *at)
{
    if (!at)
        return;
    pthread_mutex_lock(&m->lock);
    struct block *b = block_at(m, at);
    assert(b && b->account);
    m->figures.in_use -= b->bytes;
    b->account->bytes -= b->bytes;
    b->account = NULL;
    merge_next(b);
    if (b->previous)
        merge_next(b->previous);
    pthread_mutex_unlock(&m->lock);
}

void dt_cuda_memory_figures(struct dt_cuda_memory *m, struct dt_cuda_memory_figures *f)
{
    pthread_mutex_lock(&m->lock);
    *f = m->figures;
    pthread_mutex_unlock(&m->lock);
}
