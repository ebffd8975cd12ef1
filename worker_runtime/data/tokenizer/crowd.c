/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks are numbered; a number's place is in a ring. Three counters say all: blocks up to TAKEN
 * are free again, up to STARTED somebody does or has done them, up to FILLED they may be done. */
#include "worker_runtime/data/tokenizer/crowd.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS_MAX 256
#define BLOCKS_OF_THREAD 3
/* A block with more than this has a huge word, which takes sixty times its length while it is
 * encoded: nothing else is handed over meanwhile, and no memory kept. */
#define HUGE_TEXT ((size_t)4 << 20)

struct place {
    struct dt_block block;
    bool done;
};

struct dt_crowd {
    dt_ids_fn *take;
    void *arg;
    struct dt_bpe_coder *own; /* of the caller's thread; NULL where others encode */
    struct crowd_member {
        struct dt_crowd *crowd;
        struct dt_bpe_coder *coder;
        pthread_t thread;
        bool runs;
    } * members;
    int member_count;
    struct place *ring;
    size_t size;
    pthread_mutex_t lock; /* of what follows, and of DONE */
    pthread_cond_t to_do, done;
    uint64_t filled, started, taken;
    bool over;
};

static struct place *place_of(const struct dt_crowd *c, uint64_t number)
{
    return &c->ring[number % c->size];
}

static void encode_block(struct dt_bpe_coder *coder, struct dt_block *b)
{
    const uint8_t *at = b->text.at;
    for (size_t i = 0; i < b->items.len; i++) {
        uint32_t item = b->items.at[i];
        if (item & DT_BLOCK_TOKEN) {
            dt_ids_put(&b->ids, &(uint32_t){item & ~DT_BLOCK_TOKEN}, 1);
        } else {
            dt_bpe_encode(coder, (struct dt_bytes){at, item}, &b->ids);
            at += item;
        }
    }
}

static void *work(void *arg)
{
    struct crowd_member *m = arg;
    struct dt_crowd *c = m->crowd;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (c->started == c->filled && !c->over)
            pthread_cond_wait(&c->to_do, &c->lock);
        if (c->over)
            break;
        struct place *p = place_of(c, c->started++);
        pthread_mutex_unlock(&c->lock);
        encode_block(m->coder, &p->block);
        pthread_mutex_lock(&c->lock);
        p->done = true;
        pthread_cond_signal(&c->done);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static bool is_huge(const struct dt_block *b)
{
    return b->text.len > HUGE_TEXT;
}

static void clear(struct dt_block *b)
{
    if (is_huge(b)) {
        dt_buf_finish(&b->text);
        dt_ids_finish(&b->ids);
    }
    dt_buf_clear(&b->text);
    b->items.len = b->ids.len = 0;
}

/* The oldest block that was handed over, when it is done. */
static int take_oldest(struct dt_crowd *c, struct dt_err *err)
{
    struct place *p = place_of(c, c->taken);
    struct dt_block *b = &p->block;
    if (c->own) {
        encode_block(c->own, b);
    } else {
        pthread_mutex_lock(&c->lock);
        while (!p->done)
            pthread_cond_wait(&c->done, &c->lock);
        p->done = false;
        pthread_mutex_unlock(&c->lock);
    }
    c->taken++;
    int rc = b->ids.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for tokens")
                        : c->take(c->arg, b->ids.at, b->ids.len, err);
    clear(b);
    return rc;
}

struct dt_block *dt_crowd_block(struct dt_crowd *c)
{
    return &place_of(c, c->filled)->block;
}

int dt_crowd_submit(struct dt_crowd *c, struct dt_err *err)
{
    bool huge = is_huge(dt_crowd_block(c));
    pthread_mutex_lock(&c->lock);
    c->filled++;
    pthread_cond_signal(&c->to_do);
    pthread_mutex_unlock(&c->lock);
    if (huge)
        return dt_crowd_drain(c, err);
    if (c->filled - c->taken < c->size) /* the next place is free */
        return 0;
    return take_oldest(c, err);
}

int dt_crowd_drain(struct dt_crowd *c, struct dt_err *err)
{
    while (c->taken < c->filled)
        if (take_oldest(c, err) < 0)
            return -1;
    return 0;
}

static int start_members(struct dt_crowd *c, const struct dt_bpe *bpe, struct dt_err *err)
{
    for (int i = 0; i < c->member_count; i++) {
        struct crowd_member *m = &c->members[i];
        m->crowd = c;
        m->coder = dt_bpe_coder_create(bpe, err);
        if (!m->coder)
            return -1;
        int rc = pthread_create(&m->thread, NULL, work, m);
        if (rc)
            return dt_err_errno(err, DT_E_RUNTIME, rc, "cannot start a thread");
        m->runs = true;
    }
    return 0;
}

struct dt_crowd *dt_crowd_create(const struct dt_bpe *bpe, int threads, dt_ids_fn *take, void *arg,
                                 struct dt_err *err)
{
    struct dt_crowd *c = calloc(1, sizeof *c);
    if (!c) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    c->take = take;
    c->arg = arg;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->to_do, NULL);
    pthread_cond_init(&c->done, NULL);
    c->member_count = threads < THREADS_MAX ? threads : THREADS_MAX;
    c->size = threads ? BLOCKS_OF_THREAD * (size_t)c->member_count : 1;
    c->ring = calloc(c->size, sizeof *c->ring);
    c->members = calloc((size_t)c->member_count + 1, sizeof *c->members);
    int rc = c->ring && c->members
                 ? 0
                 : dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer's threads");
    if (rc == 0 && threads == 0)
        rc = (c->own = dt_bpe_coder_create(bpe, err)) ? 0 : -1;
    if (rc == 0)
        rc = start_members(c, bpe, err);
    if (rc == 0)
        return c;
    dt_crowd_destroy(c);
    return NULL;
}

static void stop_members(struct dt_crowd *c)
{
    pthread_mutex_lock(&c->lock);
    c->over = true;
    pthread_cond_broadcast(&c->to_do);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; c->members && i < c->member_count; i++) {
        if (c->members[i].runs)
            pthread_join(c->members[i].thread, NULL);
        dt_bpe_coder_destroy(c->members[i].coder);
    }
}

void dt_crowd_destroy(struct dt_crowd *c)
{
    if (!c)
        return;
    stop_members(c);
    for (size_t i = 0; c->ring && i < c->size; i++) {
        dt_buf_finish(&c->ring[i].block.text);
        dt_ids_finish(&c->ring[i].block.items);
        dt_ids_finish(&c->ring[i].block.ids);
    }
    dt_bpe_coder_destroy(c->own);
    free(c->members);
    free(c->ring);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->to_do);
    pthread_cond_destroy(&c->done);
    free(c);
}
