/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/ahead.h"

#include "base/crc32c.h"
#include "base/hex.h"

#include <signal.h>
#include <stdlib.h>

/* -- the thread ------------------------------------------------------------------------------- */

static int get_ready(const struct dt_ahead_job *job, struct dt_piece *p, struct dt_err *err)
{
    uint8_t sum[DT_SHA256_SIZE];
    p->md5[0] = '\0';
    if (job->read(job->arg, p->number, p->at, &p->len, err) < 0)
        return -1;
    struct dt_bytes bytes = {p->at, p->len};
    p->crc = dt_crc32c(0, bytes);
    if (job->lib->digest(DT_SHA256, bytes, sum) < 0)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a digest");
    dt_hex(sum, DT_SHA256_SIZE, p->sha256);
    /* A host may forbid MD5: then no part is taken for one that is there. */
    if (job->wants_md5 && job->lib->digest(DT_MD5, bytes, sum) == 0)
        dt_hex(sum, DT_MD5_SIZE, p->md5);
    return 0;
}

static struct dt_ahead_room *find(struct dt_ahead *a, enum dt_ahead_use use, size_t number)
{
    for (size_t i = 0; i < a->rooms_count; i++) {
        struct dt_ahead_room *r = &a->rooms[i];
        if (r->use == use && (use == DT_ROOM_FREE || r->piece.number == number))
            return r;
    }
    return NULL;
}

/* Reads the next piece, if there is room. Locked, but for the reading. False: there is none, or no
 * room. */
static bool read_next(struct dt_ahead *a)
{
    struct dt_err why = {0};
    struct dt_ahead_room *r = a->begun < a->job.count ? find(a, DT_ROOM_FREE, 0) : NULL;
    if (!r)
        return false;
    r->use = DT_ROOM_READING;
    r->piece.number = a->begun++;
    pthread_mutex_unlock(&a->lock);
    int rc = get_ready(&a->job, &r->piece, &why);
    pthread_mutex_lock(&a->lock);
    r->use = rc < 0 ? DT_ROOM_FREE : DT_ROOM_READY;
    if (rc < 0) {
        a->rc = -1;
        a->err = why;
    }
    return true;
}

static void *work(void *arg)
{
    struct dt_ahead *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->stop && a->rc == 0 && a->begun < a->job.count) {
        if (read_next(a))
            a->job.ready(a->job.arg);
        else
            pthread_cond_wait(&a->changed, &a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* Signals are for the threads of the program that we are a part of. */
static bool start_thread(struct dt_ahead *a)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&a->thread, NULL, work, a) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

/* -- its user --------------------------------------------------------------------------------- */

/* Less room than there might be is slower, and no more. */
int dt_ahead_init(struct dt_ahead *a, const struct dt_ahead_job *job, struct dt_err *err)
{
    *a = (struct dt_ahead){.job = *job};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    while (a->rooms_count < DT_TRANSFER_AT_ONCE && a->rooms_count < job->count) {
        uint8_t *at = malloc(job->most + 1); /* an empty piece has a place, too */
        if (!at)
            break;
        a->rooms[a->rooms_count++].piece.at = at;
    }
    if (a->rooms_count == 0 && job->count > 0)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu bytes under way", job->most);
    a->is_running = start_thread(a);
    return 0;
}

int dt_ahead_take(struct dt_ahead *a, const struct dt_piece **piece, struct dt_err *err)
{
    pthread_mutex_lock(&a->lock);
    if (!a->is_running && a->rc == 0)
        read_next(a);
    struct dt_ahead_room *r = find(a, DT_ROOM_READY, a->taken);
    int rc = a->rc < 0 ? -1 : r != NULL;
    if (rc < 0 && err)
        *err = a->err;
    if (rc > 0) {
        r->use = DT_ROOM_OUT;
        a->taken++;
        *piece = &r->piece;
    }
    pthread_mutex_unlock(&a->lock);
    return rc;
}

void dt_ahead_give_back(struct dt_ahead *a, const struct dt_piece *piece)
{
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->rooms_count; i++)
        if (&a->rooms[i].piece == piece)
            a->rooms[i].use = DT_ROOM_FREE;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

void dt_ahead_finish(struct dt_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (a->is_running)
        pthread_join(a->thread, NULL);
    for (size_t i = 0; i < a->rooms_count; i++)
        free(a->rooms[i].piece.at);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
}
