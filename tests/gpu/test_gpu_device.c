/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU's memory, its copies, and waiting for it. */
#include "tests/gpu/gpu_kit.h"

#include <pthread.h>

#define MIB ((size_t)1 << 20)

BEFORE_ALL
{
    setenv("DT_EMULATOR_DEVICES", "2", 0);
    gpu_plugin_or_skip();
}

static struct dt_device *open_capped(size_t memory)
{
    struct dt_err err = {0};
    struct dt_device_wish w = {.kind = "cuda", .local_world = 1, .memory = memory};
    struct dt_device *d = dt_device_open(&w, &err);
    CHECK_OK(d ? 0 : -1, err);
    return d;
}

static uint8_t *get(struct dt_device *d, size_t bytes)
{
    struct dt_err err = {0};
    uint8_t *at = dt_device_alloc(d, bytes, "a test", &err);
    CHECK_OK(at ? 0 : -1, err);
    CHECK_EQ((uintptr_t)at % 256, 0);
    return at;
}

static void check_sync(struct dt_device *d)
{
    struct dt_err err = {0};
    CHECK_OK(dt_device_sync(d, &err), err);
}

/* Bytes that repeat nowhere near. */
static uint8_t *pattern(size_t bytes, unsigned seed)
{
    uint8_t *x = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        x[i] = (uint8_t)((i + seed) * 2654435761u >> 13);
    return x;
}

static void check_holds(struct dt_device *d, const uint8_t *at, size_t bytes, unsigned seed)
{
    uint8_t *wanted = pattern(bytes, seed), *got = malloc(bytes + 1);
    d->table->to_host(d, got, at, bytes);
    check_sync(d);
    CHECK_BYTES(got, bytes, wanted, bytes);
    free(wanted);
    free(got);
}

TEST(a_gpu_says_what_it_is)
{
    struct dt_device *d = open_capped(0);
    CHECK_STR(d->name, "cuda");
    CHECK(strncmp(d->description, "GPU 0, ", 7) == 0);
    CHECK(strstr(d->description, " GiB, CUDA 1"));
    CHECK(d->coll && d->head_rows > 0);
    CHECK_EQ(d->head_stride, 8);
    check_sync(d);
    dt_device_close(d);
}

TEST(a_worker_beyond_the_last_gpu_is_told_both_numbers)
{
    char words[64];
    int devices = gpu_plugin_or_skip()->devices(NULL);
    struct dt_err err = {0};
    struct dt_device_wish w = {
        .kind = "cuda", .local_rank = devices, .local_world = devices + 3, .threads = 1};
    snprintf(words, sizeof words, "this host has %d workers and %d GPU", devices + 3, devices);
    CHECK_FAIL(dt_device_open(&w, &err) ? 0 : -1, err, words);
    w.kind = "auto";
    CHECK_FAIL(dt_device_open(&w, &err) ? 0 : -1, err, words);
}

static void computes_with(struct gpu_kit *g)
{
    CHECK_EQ(g->ops->elem, g->elem);
}

TEST(the_ops_are_of_the_type_that_was_wished)
{
    gpu_each(computes_with);
}

TEST(memory_is_zeroed_each_time_it_is_handed_out)
{
    struct dt_device *d = open_capped(0);
    static const size_t sizes[] = {1, 300, 70000, 3 * MIB + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_ROW("%zu bytes", sizes[i]);
        uint8_t *zeroes = calloc(1, sizes[i]), *got = malloc(sizes[i]);
        uint8_t *at = get(d, sizes[i]), *some = pattern(sizes[i], 3);
        d->table->from_host(d, at, some, sizes[i]);
        dt_device_free(d, at);
        CHECK(get(d, sizes[i]) == at);
        d->table->to_host(d, got, at, sizes[i]);
        CHECK_BYTES(got, sizes[i], zeroes, sizes[i]);
        d->table->from_host(d, at, some, sizes[i]);
        d->table->clear(d, at, sizes[i]);
        d->table->to_host(d, got, at, sizes[i]);
        CHECK_BYTES(got, sizes[i], zeroes, sizes[i]);
        free(zeroes);
        free(got);
        free(some);
    }
    check_sync(d);
    dt_device_close(d);
}

/* Its memory is cleared behind the fence, and that is done first if nothing holds it back. */
TEST(a_snapshot_has_what_was_there_before_the_fence)
{
    struct dt_device *d = open_capped(0);
    struct dt_err err = {0};
    static const size_t sizes[] = {1, 70000, 3 * MIB};
    CHECK_OK(d->table->snap_wait(d, &err), err); /* none was begun */
    d->table->snap_fence(d);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i / 2];
        bool pinned = i % 2 == 0;
        CHECK_ROW("%zu bytes, %s", bytes, pinned ? "pinned" : "pageable");
        uint8_t *at = get(d, bytes), *some = pattern(bytes, 5), *host = malloc(bytes);
        uint8_t *to = pinned ? d->table->alloc_host(d, bytes, &err) : host;
        CHECK_OK(to ? 0 : -1, err);
        d->table->from_host(d, at, some, bytes);
        d->table->snap(d, to, at, bytes);
        d->table->snap_fence(d);
        d->table->clear(d, at, bytes);
        check_sync(d);
        CHECK_OK(d->table->snap_wait(d, &err), err);
        CHECK_BYTES(to, bytes, some, bytes);
        if (pinned)
            d->table->free_host(d, to);
        dt_device_free(d, at);
        free(host);
        free(some);
    }
    check_sync(d);
    dt_device_close(d);
}

static void *wait_for_snapshot(void *device)
{
    struct dt_device *d = device;
    struct dt_err err = {0};
    CHECK_OK(d->table->snap_wait(d, &err), err);
    return NULL;
}

TEST(a_snapshot_can_be_waited_for_in_another_thread)
{
    struct dt_device *d = open_capped(0);
    struct dt_err err = {0};
    enum { BYTES = 1000 };
    uint8_t *at = get(d, BYTES), *some = pattern(BYTES, 9);
    uint8_t *to = d->table->alloc_host(d, BYTES, &err);
    pthread_t thread;
    CHECK_OK(to ? 0 : -1, err);
    d->table->from_host(d, at, some, BYTES);
    d->table->snap(d, to, at, BYTES);
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_snapshot, d), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_BYTES(to, BYTES, some, BYTES);
    d->table->free_host(d, to);
    dt_device_free(d, at);
    free(some);
    dt_device_close(d);
}

TEST(copies_of_any_size_come_back_as_they_were)
{
    struct dt_device *d = open_capped(0);
    static const size_t sizes[] = {0, 1, 255, 256 << 10, (256 << 10) + 1, 3 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_ROW("%zu bytes", sizes[i]);
        uint8_t *at = get(d, sizes[i]), *x = pattern(sizes[i], 5);
        d->table->from_host(d, at, x, sizes[i]);
        memset(x, 0xee, sizes[i]); /* the host may do so as soon as the call is back */
        check_holds(d, at, sizes[i], 5);
        free(x);
    }
    dt_device_close(d);
}

TEST(a_row_of_little_copies_from_one_buffer_does_not_mix_them_up)
{
    enum { COPIES = 40, BYTES = 5000 };
    struct dt_device *d = open_capped(0);
    uint8_t *at = get(d, (size_t)COPIES * BYTES), *x = malloc(BYTES);
    for (unsigned i = 0; i < COPIES; i++) {
        uint8_t *fresh = pattern(BYTES, i);
        memcpy(x, fresh, BYTES);
        d->table->from_host(d, at + (size_t)i * BYTES, x, BYTES);
        memset(x, 0xee, BYTES);
        free(fresh);
    }
    for (unsigned i = 0; i < COPIES; i++)
        check_holds(d, at + (size_t)i * BYTES, BYTES, i);
    free(x);
    dt_device_close(d);
}

TEST(pinned_memory_is_memory_of_the_host)
{
    struct dt_err err = {0};
    struct dt_device *d = open_capped(0);
    uint8_t *pinned = d->table->alloc_host(d, MIB, &err), *x = pattern(MIB, 9), *at = get(d, MIB);
    CHECK_OK(pinned ? 0 : -1, err);
    memcpy(pinned, x, MIB);
    d->table->from_host(d, at, pinned, MIB);
    memset(pinned, 0, MIB);
    d->table->to_host(d, pinned, at, MIB);
    CHECK_BYTES(pinned, MIB, x, MIB);
    d->table->free_host(d, pinned);
    d->table->free_host(d, NULL);
    void *none = d->table->alloc_host(d, 0, &err);
    CHECK(none != NULL);
    d->table->free_host(d, none);
    check_sync(d);
    free(x);
    dt_device_close(d);
}

TEST(the_cap_holds_and_the_error_tells_who_has_what)
{
    struct dt_err err = {0};
    struct dt_device *d = open_capped(160 * MIB);
    uint8_t *at = get(d, 8 * MIB);
    CHECK_FAIL(dt_device_alloc(d, 100 * MIB, "logits", &err) ? 0 : -1, err,
               "GPU 0 has no room for 100 MiB of logits: ");
    CHECK_EQ(err.code, DT_E_MEMORY);
    CHECK(strstr(err.text, "a worker may have 160 MiB; this worker: scratch of ops 64 MiB, "
                           "workspace of cuBLASLt 32 MiB, a test 8.0 MiB"));
    dt_device_free(d, at);
    get(d, 40 * MIB); /* what was refused has spoilt nothing */
    check_sync(d);
    dt_device_close(d);
}

TEST(a_cap_too_low_for_a_device_itself_is_told)
{
    struct dt_err err = {0};
    struct dt_device_wish w = {.kind = "cuda", .local_world = 1, .memory = 65 * MIB};
    CHECK_FAIL(dt_device_open(&w, &err) ? 0 : -1, err,
               "GPU 0 has no room for 32 MiB of workspace of cuBLASLt");
    w.memory = 1;
    CHECK_FAIL(dt_device_open(&w, &err) ? 0 : -1, err,
               "GPU 0 has no room for 64 MiB of scratch of ops");
    dt_device_close(open_capped(100 * MIB));
}

TEST(no_gpu_has_room_for_everything)
{
    struct dt_err err = {0};
    struct dt_device *d = open_capped(0);
    CHECK_FAIL(dt_device_alloc(d, (size_t)1 << 50, "logits", &err) ? 0 : -1, err,
               "GPU 0 has no room for 1024 TiB of logits: ");
    check_sync(d);
    dt_device_close(d);
}

TEST(the_first_failure_is_the_one_that_is_told)
{
    struct dt_err err = {0};
    struct dt_device *d = open_capped(0);
    uint8_t *x = pattern(MIB, 1);
    d->table->from_host(d, NULL, x, MIB);
    d->table->to_host(d, x, NULL, MIB);
    CHECK_FAIL(dt_device_sync(d, &err), err, "a copy to the GPU: CUDA says \"");
    CHECK_FAIL(dt_device_sync(d, &err), err, "a copy to the GPU: CUDA says \"");
    free(x);
    dt_device_close(d);
}

/* A thread begins with the first GPU; so this is not that, where there are more. */
static struct dt_device *open_last(void)
{
    int last = gpu_plugin_or_skip()->devices(NULL) - 1;
    struct dt_err err = {0};
    struct dt_device_wish w = {.kind = "cuda", .local_rank = last, .local_world = last + 1};
    struct dt_device *d = dt_device_open(&w, &err);
    CHECK_OK(d ? 0 : -1, err);
    return d;
}

struct visit { /* of another thread */
    struct dt_device *d;
    float *zeros;
};

static void *use_from_here(void *arg)
{
    const struct visit *v = arg;
    double sum = 1;
    const struct dt_squares_part part = {.count = MIB / sizeof *v->zeros, .x = v->zeros};
    v->d->ops->sum_squares(DT_F32, 1, &sum, &part, v->d->stream);
    CHECK(sum == 0);
    uint8_t *at = get(v->d, 5 * MIB), *x = pattern(5 * MIB, 2);
    v->d->table->from_host(v->d, at, x, 5 * MIB);
    check_holds(v->d, at, 5 * MIB, 2);
    free(x);
    dt_device_free(v->d, at);
    return NULL;
}

TEST(other_threads_may_use_it_too)
{
    struct visit v = {.d = open_last()};
    pthread_t thread;
    v.zeros = (float *)get(v.d, MIB);
    CHECK_EQ(pthread_create(&thread, NULL, use_from_here, &v), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    check_sync(v.d);
    dt_device_close(v.d);
}

TEST(it_can_be_opened_again_and_again)
{
    for (int i = 0; i < 5; i++) {
        struct dt_device *d = open_capped(0);
        get(d, 4 * MIB); /* and never given back */
        dt_device_close(d);
    }
}
