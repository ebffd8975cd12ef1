/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers in threads, to a folder; stores.py and faults.py have all else. */
#include "base/transfer/transfer.h"

#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <pthread.h>
#include <sched.h>

#define SIZE ((size_t)8 << 20)

BEFORE_ALL
{
    folder_make();
}

struct work {
    char url[600], key[20];
    uint64_t bandwidth;
    atomic_bool *stop;
    atomic_bool has_begun;
    int rc;
    struct dt_err err;
};

static void on_progress(void *arg, const char *key, uint64_t done, uint64_t total)
{
    struct work *w = arg;
    (void)key, (void)done, (void)total;
    atomic_store(&w->has_begun, true);
}

static void *put(void *arg)
{
    struct work *w = arg;
    struct dt_transfer_options o = {
        .bandwidth = w->bandwidth, .stop = w->stop, .on_progress = on_progress, .arg = w};
    struct dt_transfer *t = dt_transfer_open(w->url, &o, &w->err);
    uint8_t *bytes = calloc(1, SIZE);
    w->rc =
        t && bytes ? dt_transfer_put_bytes(t, w->key, (struct dt_bytes){bytes, SIZE}, &w->err) : -1;
    free(bytes);
    dt_transfer_close(t);
    return NULL;
}

TEST(each_thread_has_a_transfer_of_its_own)
{
    pthread_t threads[3];
    struct work works[3] = {0};
    struct dt_err err = {0};
    for (int i = 0; i < 3; i++) {
        snprintf(works[i].url, sizeof works[i].url, "file://%s", at("place"));
        snprintf(works[i].key, sizeof works[i].key, "step/rank-%d", i);
        CHECK_EQ(pthread_create(&threads[i], NULL, put, &works[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    struct dt_transfer *t = dt_transfer_open(works[0].url, NULL, &err);
    CHECK_OK(t ? 0 : -1, err);
    for (int i = 0; i < 3; i++) {
        struct dt_object o;
        CHECK_OK(works[i].rc, works[i].err);
        CHECK_EQ(dt_transfer_head(t, works[i].key, &o, &err), 1);
        CHECK_EQ(o.size, SIZE);
    }
    dt_transfer_close(t);
}

TEST(another_thread_ends_a_call_and_nothing_is_left)
{
    pthread_t thread;
    atomic_bool stop = false;
    struct work w = {.key = "k", .bandwidth = 1, .stop = &stop}; /* months */
    snprintf(w.url, sizeof w.url, "file://%s", at("other"));
    CHECK_EQ(pthread_create(&thread, NULL, put, &w), 0);
    while (!atomic_load(&w.has_begun))
        sched_yield();
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    CHECK_FAIL(w.rc, w.err, "stopped");
    CHECK_EQ(w.err.code, DT_E_CANCELED);
    CHECK_EQ(rmdir(at("other")), 0);
}
