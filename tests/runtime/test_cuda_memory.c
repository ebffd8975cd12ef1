/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a GPU that is a few numbers: what a driver would give is a place that nobody looks
 * at. */
#include "cuda/memory/memory.h"

#include "tests/lib/check.h"

#include <stdint.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* A device of straw: TOTAL bytes, some of them others'. */
struct straw {
    size_t total, others, used;
    uintptr_t next; /* address of what is taken next */
    int pieces, taken;
    bool broken;
    struct {
        void *at;
        size_t bytes;
    } piece[64];
};

static enum dt_cuda_took take(void *arg, size_t bytes, void **at, struct dt_err *err)
{
    struct straw *s = arg;
    if (s->broken) {
        dt_err_set(err, DT_E_RUNTIME, "GPU 3 is on fire");
        return DT_CUDA_TOOK_FAILED;
    }
    if (bytes > s->total - s->others - s->used)
        return DT_CUDA_NONE_LEFT;
    *at = (void *)s->next;
    s->next += bytes + MIB;
    s->used += bytes;
    s->taken++;
    s->piece[s->pieces].at = *at;
    s->piece[s->pieces++].bytes = bytes;
    return DT_CUDA_TOOK;
}

static void give(void *arg, void *at)
{
    struct straw *s = arg;
    for (int i = 0; i < s->pieces; i++) {
        if (s->piece[i].at == at) {
            s->used -= s->piece[i].bytes;
            s->piece[i] = s->piece[--s->pieces];
            return;
        }
    }
    CHECK(!"given back what was never taken");
}

static void left(void *arg, size_t *free_bytes, size_t *total)
{
    struct straw *s = arg;
    *free_bytes = s->total - s->others - s->used;
    *total = s->total;
}

static struct straw device_of(size_t total)
{
    return (struct straw){.total = total, .next = 512 * MIB};
}

static struct dt_cuda_memory *memory_of(struct straw *s, size_t cap)
{
    const struct dt_cuda_memory_calls calls = {
        .take = take, .give = give, .left = left, .arg = s, .name = "GPU 3"};
    struct dt_err err = {0};
    struct dt_cuda_memory *m = dt_cuda_memory_create(&calls, cap, &err);
    CHECK_OK(m ? 0 : -1, err);
    return m;
}

static void *get(struct dt_cuda_memory *m, size_t bytes, const char *what)
{
    struct dt_err err = {0};
    void *at = dt_cuda_memory_alloc(m, bytes, what, &err);
    CHECK_OK(at ? 0 : -1, err);
    CHECK_EQ((uintptr_t)at % 256, 0);
    return at;
}

#define CHECK_REFUSED(m, bytes, words)                                                             \
    do {                                                                                           \
        struct dt_err refused = {0};                                                               \
        CHECK_FAIL(dt_cuda_memory_alloc(m, bytes, "activations", &refused) ? 0 : -1, refused,      \
                   words);                                                                         \
    } while (0)

static struct dt_cuda_memory_figures figures(struct dt_cuda_memory *m)
{
    struct dt_cuda_memory_figures f;
    dt_cuda_memory_figures(m, &f);
    return f;
}

TEST(what_is_given_back_serves_the_next_without_the_driver)
{
    struct straw s = device_of(GIB);
    struct dt_cuda_memory *m = memory_of(&s, 0);
    void *a = get(m, 100 * MIB, "gradients");
    dt_cuda_memory_free(m, a);
    CHECK_EQ(figures(m).in_use, 0);
    CHECK_EQ(figures(m).reserved, 100 * MIB);
    for (int i = 0; i < 10; i++) {
        void *b = get(m, 100 * MIB - (size_t)i, "gradients");
        CHECK(b == a);
        dt_cuda_memory_free(m, b);
    }
    CHECK_EQ(s.taken, 1);
    CHECK_EQ(figures(m).peak, 100 * MIB);
    dt_cuda_memory_destroy(m);
    CHECK_EQ(s.used, 0);
}

TEST(little_blocks_share_a_piece_and_do_not_cut_up_large_ones)
{
    struct straw s = device_of(GIB);
    struct dt_cuda_memory *m = memory_of(&s, 0);
    void *large = get(m, 100 * MIB, "gradients");
    dt_cuda_memory_free(m, large);
    char *first = get(m, 1, "norms");
    char *second = get(m, 257, "norms");
    char *third = get(m, 0, "nothing");
    CHECK_EQ(second - first, 256);
    CHECK_EQ(third - second, 512);
    CHECK_EQ(s.taken, 2);
    CHECK_EQ(figures(m).in_use, 256 + 512 + 256);
    CHECK(get(m, 100 * MIB, "gradients") == large);
    dt_cuda_memory_destroy(m);
}

TEST(the_tightest_block_is_cut_and_neighbours_grow_together_again)
{
    struct straw s = device_of(GIB);
    struct dt_cuda_memory *m = memory_of(&s, 0);
    char *wide = get(m, 400 * MIB, "a"), *tight = get(m, 60 * MIB, "a");
    dt_cuda_memory_free(m, wide);
    dt_cuda_memory_free(m, tight);
    CHECK(get(m, 50 * MIB, "b") == tight);
    char *b = get(m, 100 * MIB, "b"), *c = get(m, 100 * MIB, "c"), *d = get(m, 100 * MIB, "d");
    CHECK(b == wide && c == wide + 100 * MIB && d == wide + 200 * MIB);
    dt_cuda_memory_free(m, b);
    dt_cuda_memory_free(m, d);
    dt_cuda_memory_free(m, c); /* with a free one on either side */
    CHECK(get(m, 400 * MIB, "e") == wide);
    CHECK_EQ(s.taken, 2);
    dt_cuda_memory_destroy(m);
}

TEST(kept_pieces_go_back_when_the_device_has_no_more)
{
    struct straw s = device_of(GIB);
    struct dt_cuda_memory *m = memory_of(&s, 0);
    void *a = get(m, 500 * MIB, "a"), *b = get(m, 300 * MIB, "b");
    dt_cuda_memory_free(m, a);
    dt_cuda_memory_free(m, b);
    get(m, 900 * MIB, "c");
    CHECK_EQ(s.pieces, 1);
    CHECK_EQ(figures(m).reserved, 900 * MIB);
    dt_cuda_memory_destroy(m);
}

TEST(a_piece_for_little_blocks_is_smaller_where_little_is_left)
{
    struct straw s = device_of(10 * MIB);
    struct dt_cuda_memory *m = memory_of(&s, 0);
    get(m, 1000, "norms");
    CHECK_EQ(figures(m).reserved, 2 * MIB);
    dt_cuda_memory_destroy(m);
}

TEST(the_cap_counts_all_that_is_kept)
{
    struct straw s = device_of(4 * GIB);
    struct dt_cuda_memory *m = memory_of(&s, GIB);
    void *a = get(m, 600 * MIB, "a");
    CHECK_REFUSED(m, 600 * MIB, "and a worker may have 1.0 GiB");
    dt_cuda_memory_free(m, a);
    get(m, 700 * MIB, "b");
    CHECK_EQ(s.used, 700 * MIB);
    CHECK_REFUSED(m, 2 * GIB, "GPU 3 has no room for 2.0 GiB of activations");
    dt_cuda_memory_destroy(m);
}

TEST(sizes_that_overflow_are_refused)
{
    struct straw s = device_of(GIB);
    struct dt_cuda_memory *m = memory_of(&s, 0);
    CHECK_REFUSED(m, SIZE_MAX, "GPU 3 has no room for");
    CHECK_REFUSED(m, SIZE_MAX - 256, "GPU 3 has no room for");
    CHECK_REFUSED(m, SIZE_MAX / 2, "GPU 3 has no room for");
    CHECK_EQ(s.taken, 0);
    dt_cuda_memory_destroy(m);
}

TEST(the_error_says_who_holds_how_much)
{
    struct straw s = device_of(80 * GIB);
    s.others = 10 * GIB;
    struct dt_cuda_memory *m = memory_of(&s, 70 * GIB);
    get(m, 5 * GIB, "parameters");
    get(m, 30 * GIB, "optimizer state");
    get(m, 5 * GIB, "parameters");
    get(m, 20 * GIB, "gradients");
    get(m, 3 * GIB, "logits");
    dt_cuda_memory_free(m, get(m, 2 * GIB, "scratch"));
    get(m, GIB + 1, "scratch"); /* keeps what is behind it from going back */
    struct dt_err err = {0};
    CHECK_FAIL(dt_cuda_memory_alloc(m, 12 * GIB, "activations", &err) ? 0 : -1, err,
               "GPU 3 has no room for 12 GiB of activations: 5.0 GiB of 80 GiB are free, 10 GiB "
               "are others' and CUDA's own, and a worker may have 70 GiB; this worker: optimizer "
               "state 30 GiB, gradients 20 GiB, parameters 10 GiB, more 4.0 GiB, in pieces too "
               "small 1.0 GiB");
    CHECK_EQ(err.code, DT_E_MEMORY);
    dt_cuda_memory_destroy(m);
}

TEST(more_purposes_than_there_are_accounts_share_the_last)
{
    static char names[40][12];
    struct straw s = device_of(GIB);
    struct dt_cuda_memory *m = memory_of(&s, 0);
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "part %d", i);
        get(m, 10 * MIB, names[i]);
    }
    CHECK_REFUSED(m, GIB, "this worker: the rest 170 MiB, part 0 10 MiB");
    dt_cuda_memory_destroy(m);
}

TEST(a_driver_that_fails_is_heard)
{
    struct straw s = device_of(GIB);
    struct dt_cuda_memory *m = memory_of(&s, 0);
    s.broken = true;
    CHECK_REFUSED(m, MIB, "GPU 3 is on fire");
    s.broken = false;
    get(m, MIB, "a");
    dt_cuda_memory_free(m, NULL);
    dt_cuda_memory_destroy(m);
    dt_cuda_memory_destroy(NULL);
}

/* Blocks of all sizes come and go: none of them overlap, and all figures add up. */
TEST(blocks_never_overlap_in_any_order_of_coming_and_going)
{
    struct {
        char *at;
        size_t bytes;
    } held[40] = {{0}};
    struct straw s = device_of(2 * GIB);
    struct dt_cuda_memory *m = memory_of(&s, 0);
    size_t in_use = 0;
    uint32_t seed = 12345;
    for (int turn = 0; turn < 20000; turn++) {
        seed = seed * 1664525 + 1013904223;
        size_t i = (seed >> 16) % 40;
        CHECK_ROW("turn %d, block %zu", turn, i);
        if (held[i].at) {
            dt_cuda_memory_free(m, held[i].at);
            held[i].at = NULL;
            in_use -= held[i].bytes;
        } else {
            seed = seed * 1664525 + 1013904223;
            size_t bytes = (size_t)256 << (seed >> 16) % 17;
            char *at = get(m, bytes, "block");
            for (size_t k = 0; k < 40; k++)
                CHECK(!held[k].at || at + bytes <= held[k].at || held[k].at + held[k].bytes <= at);
            held[i].at = at;
            held[i].bytes = bytes;
            in_use += bytes;
        }
        CHECK(figures(m).in_use >= in_use);
        CHECK(figures(m).in_use <= figures(m).reserved);
        CHECK_EQ(figures(m).reserved, s.used);
    }
    dt_cuda_memory_destroy(m);
    CHECK_EQ(s.used, 0);
}
