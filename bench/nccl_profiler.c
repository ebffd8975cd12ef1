/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL's profiler plugin of ours costs whoever calls NCCL: a fake NCCL tells it of calls as
 * each version does, and tells the same to a plugin that does nothing, so that the difference is
 * ours. Times are of this thread's processor and the least of several tries, as other work only
 * ever makes them longer.
 *
 *     nccl_profiler_bench PLUGIN.so [tries] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/protocol/page.h"
#include "tests/lib/profiled_nccl.h"
#include "worker_runtime/telemetry/nccl_profiler/abi.h"

enum { EVENTS = 200000 };

/* -- a plugin that does nothing --------------------------------------------------------------- */

static int mask; /* as ours has it, for the same calls */
static long calls;

static int idle_start(void **handle)
{
    calls++;
    *handle = (void *)1;
    return 0;
}

static int idle_v1(void *context, void **handle, struct dt_nccl_event_v1 *e)
{
    (void)context, (void)e;
    return idle_start(handle);
}

static int idle_v2(void *context, void **handle, struct dt_nccl_event_v2 *e)
{
    (void)context, (void)e;
    return idle_start(handle);
}

static int idle_v4(void *context, void **handle, struct dt_nccl_event_v4 *e)
{
    (void)context, (void)e;
    return idle_start(handle);
}

static int idle_v5(void *context, void **handle, struct dt_nccl_event_v5 *e)
{
    (void)context, (void)e;
    return idle_start(handle);
}

static int idle_stop(void *handle)
{
    (void)handle;
    calls++;
    return 0;
}

static int idle_record(void *handle, int state, void *args)
{
    (void)handle, (void)state, (void)args;
    calls++;
    return 0;
}

static const void *idle_table(int version)
{
    static const struct dt_nccl_profiler_v1 v1 = {
        .start = idle_v1, .stop = idle_stop, .record = idle_record};
    static const struct dt_nccl_profiler_v2 v2 = {
        .start = idle_v2, .stop = idle_stop, .record = idle_record};
    static const struct dt_nccl_profiler_v4 v4 = {
        .start = idle_v4, .stop = idle_stop, .record = idle_record};
    static const struct dt_nccl_profiler_v5 v5 = {
        .start = idle_v5, .stop = idle_stop, .record = idle_record};
    return version == 1  ? (const void *)&v1
           : version < 4 ? (const void *)&v2
           : version < 5 ? (const void *)&v4
                         : (const void *)&v5;
}

/* -- what is measured ------------------------------------------------------------------------- */

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

typedef void event_fn(struct profiled_comm *c);

static void collective(struct profiled_comm *c)
{
    static const struct profiled_call call = {
        .function = "AllReduce", .datatype = "ncclFloat32", .count = 1 << 20, .channels = 1};
    struct profiled_work work = profiled_comm_collective(c, &call);
    profiled_comm_gpu_ends(c, &work, 1);
}

static void exchange(struct profiled_comm *c)
{
    static const struct profiled_call call = {
        .function = "Send", .datatype = "ncclBfloat16", .count = 1 << 20, .peer = 3, .channels = 1};
    profiled_comm_exchange(c, &call);
}

static void read_clock(struct profiled_comm *c)
{
    struct timespec t;
    (void)c;
    clock_gettime(CLOCK_MONOTONIC, &t);
}

static void do_nothing(struct profiled_comm *c)
{
    (void)c;
}

/* One event's time, in nanoseconds. */
static double time_of(event_fn *volatile event, struct profiled_comm *c, int tries)
{
    double best = 1e18;
    for (; tries > 0; tries--) {
        double from = now_ns();
        for (int i = 0; i < EVENTS; i++)
            event(c);
        double took = (now_ns() - from) / EVENTS;
        best = took < best ? took : best;
    }
    return best;
}

static double clock_ns; /* what the others are compared with */

static void measure(const char *name, event_fn *event, struct profiled_comm *c, int tries)
{
    struct profiled_nccl idle = {.version = c->nccl->version, .mask = mask};
    struct profiled_comm idle_comm = *c;
    idle.table = idle_table(idle.version);
    idle_comm.nccl = &idle;
    calls = 0;
    event(&idle_comm);
    long count = calls;
    double ns = time_of(event, c, tries) - time_of(event, &idle_comm, tries);
    printf("v%d   %-26s %5ld %10.1f %12.1f %12.2f\n", idle.version, name, count, ns,
           ns / (double)(count > 0 ? count : 1), ns / clock_ns);
}

static void measure_version(const char *path, int version, bool kernels, int tries)
{
    struct profiled_nccl n;
    struct dt_err err = {0};
    struct profiled_comm c = {.name = "default_pg", .hash = 7, .rank = 1, .ranks = 8};
    if (kernels)
        setenv(DT_NCCL_EVENTS_ENV, DT_NCCL_EVENTS_KERNELS, 1);
    else
        unsetenv(DT_NCCL_EVENTS_ENV);
    if (profiled_nccl_open(&n, path, version, &err) < 0) {
        fprintf(stderr, "nccl_profiler_bench: %s\n", err.text);
        exit(1);
    }
    profiled_comm_open(&n, &c);
    mask = n.mask;
    measure(kernels ? "collective, with its end" : "collective", collective, &c, tries);
    if (!kernels)
        measure("send", exchange, &c, tries);
    profiled_comm_close(&c);
    profiled_nccl_close(&n);
}

/* As the agent makes it. */
static void make_page(void)
{
    char number[16];
    int fd = memfd_create("progress", 0);
    struct dt_page *page = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, DT_PAGE_SIZE) == 0)
        page = mmap(NULL, DT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        perror("nccl_profiler_bench: no progress page");
        exit(1);
    }
    dt_page_init(page);
    snprintf(number, sizeof number, "%d", fd);
    setenv(DT_PAGE_ENV, number, 1);
}

int main(int argc, char **argv)
{
    int tries = argc > 2 ? atoi(argv[2]) : 10;
    if (argc < 2 || tries < 1) {
        fputs("usage: nccl_profiler_bench PLUGIN.so [tries]\n", stderr);
        return 2;
    }
    make_page();
    clock_ns = time_of(read_clock, NULL, tries);
    printf("a call of a function that does nothing %6.1f ns\n", time_of(do_nothing, NULL, tries));
    printf("clock_gettime(CLOCK_MONOTONIC)         %6.1f ns\n\n", clock_ns);
    printf("     %-26s %5s %10s %12s %12s\n", "event", "calls", "ns", "ns a call", "to the clock");
    for (int version = 1; version <= PROFILED_NCCL_VERSIONS; version++)
        measure_version(argv[1], version, false, tries);
    for (int version = 4; version <= PROFILED_NCCL_VERSIONS; version++)
        measure_version(argv[1], version, true, tries);
    return 0;
}
