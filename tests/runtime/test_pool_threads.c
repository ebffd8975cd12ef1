/* SPDX-License-Identifier: Apache-2.0 */
/* A pool does each part once, whoever does it, and comes back when all are done; for the thread
 * sanitizer above all. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/lib/check.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/cpu/pool.h"
#include "worker_runtime/ops/ops.h"

enum { MOST = 5000 };

struct job {
    unsigned char done[MOST]; /* by whoever took the part: plain memory, for the sanitizer */
    atomic_int strangers;
    int threads;
};

static void mark(void *arg, size_t part)
{
    struct job *j = arg;
    j->done[part]++;
    if (dt_pool_self() < 0 || dt_pool_self() >= j->threads)
        atomic_fetch_add(&j->strangers, 1);
}

TEST(each_part_is_done_once)
{
    static const int threads[] = {1, 2, 3, 8};
    static const size_t parts[] = {0, 1, 2, 7, 64, MOST};
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        struct dt_err err;
        struct dt_pool *p = dt_pool_create(threads[t], &err);
        CHECK(p != NULL);
        CHECK_EQ(dt_pool_threads(p), threads[t]);
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            struct job j = {.threads = threads[t]};
            CHECK_ROW("%d threads, %zu parts", threads[t], parts[i]);
            dt_pool_run(p, parts[i], mark, &j);
            for (size_t k = 0; k < MOST; k++)
                if (j.done[k] != (k < parts[i]))
                    CHECK_EQ(j.done[k], k < parts[i]);
            CHECK_EQ(j.strangers, 0);
        }
        dt_pool_destroy(p);
    }
}

/* Rounds so short that helpers still look for parts of the last one when the next begins. */
TEST(rounds_follow_each_other_without_a_gap)
{
    struct dt_pool *p = dt_pool_create(4, NULL);
    struct job j = {.threads = 4};
    for (int round = 0; round < 20000; round++)
        dt_pool_run(p, 2 + (size_t)round % 3, mark, &j);
    CHECK_EQ(j.done[0], 20000 % 256);
    CHECK_EQ(j.done[1], 20000 % 256);
    CHECK_EQ(j.done[2], (6667 + 6666) % 256);
    CHECK_EQ(j.done[3], 6666 % 256);
    dt_pool_destroy(p);
}

static void count(void *arg, size_t part)
{
    (void)part;
    ++*(int *)arg;
}

TEST(no_pool_is_a_pool_of_one)
{
    int n = 0;
    dt_pool_run(NULL, 10, count, &n);
    CHECK_EQ(n, 10);
    CHECK_EQ(dt_pool_threads(NULL), 1);
    dt_pool_destroy(NULL);
}

TEST(a_forked_child_does_the_work_itself)
{
    struct dt_pool *p = dt_pool_create(3, NULL);
    struct job j = {.threads = 3};
    dt_pool_run(p, 10, mark, &j);
    pid_t child = fork();
    if (child == 0) {
        int n = 0;
        dt_pool_run(p, 10, count, &n);
        dt_pool_destroy(p);
        _exit(n == 10 ? 0 : 1);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    dt_pool_run(p, 10, mark, &j);
    CHECK_EQ(j.done[9], 2);
    dt_pool_destroy(p);
}

/* The whole way through ops with sums in them. */
TEST(results_do_not_depend_on_the_number_of_threads)
{
    enum { ROWS = 100, WIDTH = 48, N = ROWS * WIDTH };
    static float x[N], dout[N], out[4][N], dweight[4][WIDTH], mean[ROWS], rstd[ROWS];
    double squares[4];
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i * 7919 % 1000) * 0.01f;
        dout[i] = (float)(i * 104729 % 1000) * 0.01f;
    }
    for (int threads = 1; threads <= 4; threads++) {
        struct dt_err err;
        struct dt_device *d = dt_device_open_cpu(threads, &err);
        CHECK_ROW("%d threads: %s", threads, d ? d->description : err.text);
        CHECK(d != NULL);
        struct dt_norm n = {ROWS, WIDTH, 1e-5f, 0, x, x, mean, rstd};
        int at = threads - 1;
        d->ops->norm_forward(&n, out[at], NULL, x, NULL, d->stream);
        d->ops->norm_backward(&n, out[at], dweight[at], dweight[at], x, dout, d->stream);
        struct dt_squares_part all = {N, out[at]};
        d->ops->sum_squares(DT_F32, 1, &squares[at], &all, d->stream);
        CHECK_BYTES(out[at], sizeof out[0], out[0], sizeof out[0]);
        CHECK_BYTES(dweight[at], sizeof dweight[0], dweight[0], sizeof dweight[0]);
        CHECK(squares[at] == squares[0]);
        dt_device_close(d);
    }
}
