/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/ahead.h"

#include "base/hex.h"
#include "base/transfer/sigv4.h"

#include <signal.h>
#include <stdlib.h>

int dt_ahead_init(struct dt_ahead *a, const struct dt_curl_table *lib, const struct dt_source *from,
                  uint64_t part_size, bool wants_md5, struct dt_err *err)
{
    *a = (struct dt_ahead){
        .lib = lib,
        .from = from,
        .part_size = part_size,
        .count = (size_t)((from->len + part_size - 1) / part_size),
        .wants_md5 = wants_md5,
    };
    for (int i = 0; i < 2; i++)
        if (!(a->parts[i].at = malloc((size_t)part_size)))
            return dt_err_set(err, DT_E_MEMORY, "no memory for two parts of %llu bytes",
                              (unsigned long long)part_size);
    return 0;
}

/* Fills a->working. Only what the thread may touch: that, RC, ERR, and what does not change. */
static int get_ready(struct dt_ahead *a)
{
    struct dt_ready_part *p = a->working;
    uint8_t sum[DT_SHA256_SIZE];
    uint64_t begin = p->number * a->part_size, left = a->from->len - begin;
    p->len = (size_t)(left < a->part_size ? left : a->part_size);
    p->md5[0] = '\0';
    if (dt_source_read(a->from, begin, p->at, p->len, &a->err) < 0)
        return -1;
    struct dt_bytes bytes = {p->at, p->len};
    if (a->lib->digest(DT_SHA256, bytes, sum) < 0)
        return dt_err_set(&a->err, DT_E_MEMORY, "no memory for a digest");
    dt_hex(sum, DT_SHA256_SIZE, p->sha256);
    /* A host may forbid MD5: then no part is taken for one that is there. */
    if (a->wants_md5 && a->lib->digest(DT_MD5, bytes, sum) == 0)
        dt_hex(sum, DT_MD5_SIZE, p->md5);
    return 0;
}

static void *work(void *arg)
{
    struct dt_ahead *a = arg;
    a->rc = get_ready(a);
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

static void join(struct dt_ahead *a)
{
    if (a->is_running)
        pthread_join(a->thread, NULL);
    a->is_running = false;
}

/* Part NUMBER goes into the memory of part NUMBER - 2. Where no thread can be had, it is read when
 * it is wanted. */
static void begin(struct dt_ahead *a, size_t number)
{
    a->working = &a->parts[number % 2];
    a->working->number = number;
    a->is_running = start_thread(a);
    a->is_ready = a->is_running;
}

const struct dt_ready_part *dt_ahead_next(struct dt_ahead *a, struct dt_err *err)
{
    if (!a->working)
        begin(a, 0);
    join(a);
    if (!a->is_ready)
        a->rc = get_ready(a);
    if (a->rc < 0) {
        if (err)
            *err = a->err;
        return NULL;
    }
    const struct dt_ready_part *p = a->working;
    if (p->number + 1 < a->count)
        begin(a, p->number + 1);
    return p;
}

void dt_ahead_finish(struct dt_ahead *a)
{
    join(a);
    for (int i = 0; i < 2; i++)
        free(a->parts[i].at);
    *a = (struct dt_ahead){0};
}
