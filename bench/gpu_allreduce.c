/* SPDX-License-Identifier: Apache-2.0 */
/* What an all-reduce of bfloat16 costs between GPUs, through libdtrun: run by dtrun, a worker for
 * each GPU; rank 0 prints a line of JSON for each size, with the median of rounds. With --calls:
 * what small ones cost the host, which puts them on a stream and waits for none of them. */
#include "base/say.h"
#include "bench/program.h"
#include "worker_runtime/coll/backend.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* So few calls that the host never waits for room on the stream. */
enum { ROUNDS = 7, CALLS_AT_ONCE = 100, SMALL = 4096 };

struct options {
    bool toy;
    unsigned long calls;
};

PROGRAM_NUMBER(parse_calls, 0, 1000000)

#define AT(MEMBER) .at = offsetof(struct options, MEMBER)

/* clang-format off */
static const struct dt_opt opts[] = {
    {.name = "toy", AT(toy), .help = "tiny sizes: to see that it runs"},
    {.name = "calls", .arg = "N", .parse = parse_calls, AT(calls), .fallback = "0",
     .help = "in place of all sizes, the host's time of N of 4 KiB, a hundred at a time"},
    {0},
};
/* clang-format on */

static const struct dt_opt_program program = {
    .name = "gpu_allreduce",
    .usage = "[options]",
    .summary = "Times all-reduces between GPUs, under dtrun.",
    .table = opts,
};

static void ok(int rc, const struct dt_err *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "gpu_allreduce: %s\n", err->text);
    exit(1);
}

static void give_up(void *arg, const struct dt_err *why)
{
    (void)arg;
    dt_say("gpu_allreduce", why->text);
    _exit(1);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Milliseconds of each of CALLS all-reduces, begun together by all ranks. */
static double round_of(struct dt_coll *all, struct dt_coll *gpus, struct dt_device *d, void *memory,
                       size_t count, int calls)
{
    struct dt_err err;
    ok(dt_device_sync(d, &err), &err);
    ok(dt_coll_barrier(all, &err), &err);
    double from = now_ms();
    for (int i = 0; i < calls; i++)
        ok(dt_coll_all_reduce(gpus, memory, count, DT_BF16, DT_SUM, &err), &err);
    ok(dt_device_sync(d, &err), &err);
    return (now_ms() - from) / calls;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct dt_context *c, struct dt_coll *gpus, size_t bytes, int calls)
{
    struct dt_err err;
    struct dt_device *d = dt_context_device(c);
    void *memory = dt_device_alloc(d, bytes, "a benchmark", &err);
    double rounds[ROUNDS];
    ok(memory ? 0 : -1, &err);
    round_of(dt_context_coll(c), gpus, d, memory, bytes / 2, calls);
    for (int i = 0; i < ROUNDS; i++)
        rounds[i] = round_of(dt_context_coll(c), gpus, d, memory, bytes / 2, calls);
    qsort(rounds, ROUNDS, sizeof *rounds, by_size);
    if (dt_context_rank(c) == 0)
        printf("{\"bytes\": %zu, \"ms\": %.6f}\n", bytes, rounds[ROUNDS / 2]);
    dt_device_free(d, memory);
}

/* The first hundred connect the ranks, and are not counted. */
static void measure_calls(struct dt_context *c, struct dt_coll *gpus, unsigned long calls)
{
    struct dt_err err;
    struct dt_device *d = dt_context_device(c);
    void *memory = dt_device_alloc(d, SMALL, "a benchmark", &err);
    double host = 0, all = 0;
    ok(memory ? 0 : -1, &err);
    round_of(dt_context_coll(c), gpus, d, memory, SMALL / 2, CALLS_AT_ONCE);
    for (unsigned long left = calls, now; left > 0; left -= now) {
        now = left < CALLS_AT_ONCE ? left : CALLS_AT_ONCE;
        ok(dt_coll_barrier(dt_context_coll(c), &err), &err);
        double from = now_ms();
        for (unsigned long i = 0; i < now; i++)
            ok(dt_coll_all_reduce(gpus, memory, SMALL / 2, DT_BF16, DT_SUM, &err), &err);
        host += now_ms() - from;
        ok(dt_device_sync(d, &err), &err);
        all += now_ms() - from;
    }
    if (dt_context_rank(c) == 0)
        printf("{\"calls\": %lu, \"host_us\": %.3f, \"us\": %.3f}\n", calls,
               host * 1e3 / (double)calls, all * 1e3 / (double)calls);
    dt_device_free(d, memory);
}

int main(int argc, char **argv)
{
    struct options opt = {0};
    struct dt_context_options wish = {.device = "cuda", .elem = DT_BF16, .give_up = give_up};
    struct dt_err err;
    int rc = program_read(&program, argc, argv, &opt, &err);
    if (rc != 0)
        return program_end(&program, rc, &err);
    struct dt_context *c = dt_context_open(&wish, &err);
    ok(c ? 0 : -1, &err);
    struct dt_device *device = dt_context_device(c);
    struct dt_coll *gpus = dt_coll_beside(dt_context_coll(c), device->coll, device, &err);
    ok(gpus ? 0 : -1, &err);
    if (opt.calls > 0)
        measure_calls(c, gpus, opt.calls);
    else if (opt.toy)
        measure(c, gpus, 4096, 2);
    for (size_t bytes = 64 << 10; !opt.toy && opt.calls == 0 && bytes <= (size_t)1 << 30;
         bytes *= 16)
        measure(c, gpus, bytes, bytes < (size_t)64 << 20 ? 200 : 10);
    dt_coll_destroy(gpus);
    dt_context_close(c);
    return 0;
}
