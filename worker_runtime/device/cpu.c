/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: its memory is the host's, its stream is a pool of threads, and an op is done
 * when its call is back, so there is nothing to wait for. */
#include "worker_runtime/device/cpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "worker_runtime/coll/host/stream.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/cpu/blas.h"
#include "worker_runtime/ops/cpu/pool.h"
#include "worker_runtime/ops/cpu/stream.h"
#include "worker_runtime/ops/ops.h"

struct cpu {
    struct dt_device device;
    struct dt_stream stream;
    char description[800]; /* with no_gpu in it */
    char no_gpu[512];
};

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

/* What is large starts on a huge page: a step walks through all of it, and fewer pages are fewer
 * misses of the TLB. */
static void *cpu_alloc(struct dt_device *d, size_t bytes, const char *what, struct dt_err *err)
{
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : LINE;
    (void)d;
    if (bytes > SIZE_MAX - align) {
        dt_err_set(err, DT_E_MEMORY, "no memory for %zu bytes of %s on the CPU", bytes, what);
        return NULL;
    }
    size_t size = (bytes + align - 1) / align * align;
    void *at = aligned_alloc(align, size ? size : align);
    if (!at) {
        dt_err_set(err, DT_E_MEMORY, "no memory for %zu bytes of %s on the CPU", bytes, what);
        return NULL;
    }
    if (align == HUGE_PAGE)
        madvise(at, size, MADV_HUGEPAGE);
    memset(at, 0, bytes);
    return at;
}

static void *cpu_alloc_host(struct dt_device *d, size_t bytes, struct dt_err *err)
{
    return cpu_alloc(d, bytes, "a copy", err);
}

static void cpu_free(struct dt_device *d, void *memory)
{
    (void)d;
    free(memory);
}

static void cpu_clear(struct dt_device *d, void *at, size_t bytes)
{
    (void)d;
    if (bytes)
        memset(at, 0, bytes);
}

static void cpu_copy(struct dt_device *d, void *to, const void *from, size_t bytes)
{
    (void)d;
    if (bytes)
        memmove(to, from, bytes);
}

/* Large, and next read by another thread. */
static void cpu_snap(struct dt_device *d, void *to, const void *from, size_t bytes)
{
    (void)d;
    if (bytes)
        dt_stream_copy(to, from, bytes);
    dt_stream_end();
}

static void cpu_snap_fence(struct dt_device *d)
{
    (void)d;
}

static int cpu_sync(struct dt_device *d, struct dt_err *err)
{
    (void)d;
    (void)err;
    return 0;
}

static void cpu_close(struct dt_device *d)
{
    struct cpu *c = (struct cpu *)d;
    for (int i = 0; c->stream.scratch && i < dt_pool_threads(c->stream.pool); i++)
        free(c->stream.scratch[i]);
    free(c->stream.scratch);
    free(c->stream.shared);
    dt_pool_destroy(c->stream.pool);
    free(c);
}

static const struct dt_device_ops cpu_table = {
    .alloc = cpu_alloc,
    .free = cpu_free,
    .clear = cpu_clear,
    .to_host = cpu_copy,
    .from_host = cpu_copy,
    .snap = cpu_snap,
    .snap_fence = cpu_snap_fence,
    .snap_wait = cpu_sync,
    .alloc_host = cpu_alloc_host,
    .free_host = cpu_free,
    .sync = cpu_sync,
    .close = cpu_close,
};

static int open_stream(struct dt_stream *s, int threads, struct dt_err *err)
{
    s->pool = dt_pool_create(threads, err);
    if (!s->pool)
        return -1;
    threads = dt_pool_threads(s->pool);
    s->shared = aligned_alloc(LINE, DT_SHARED_BYTES);
    s->scratch = calloc((size_t)threads, sizeof *s->scratch);
    bool enough = s->shared && s->scratch;
    for (int i = 0; enough && i < threads; i++) {
        s->scratch[i] = aligned_alloc(LINE, DT_SCRATCH_BYTES);
        enough = s->scratch[i];
    }
    if (!enough)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the scratch of %d threads", threads);
    return 0;
}

static void describe(struct cpu *c, const char *products)
{
    int threads = dt_pool_threads(c->stream.pool);
    snprintf(c->description, sizeof c->description, "CPU, %s, %d thread%s, %s", c->device.ops->name,
             threads, threads == 1 ? "" : "s", products);
}

struct dt_device *dt_device_open_cpu_alone(int threads, struct dt_err *err)
{
    struct cpu *c = calloc(1, sizeof *c);
    if (!c) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a device");
        return NULL;
    }
    c->device = (struct dt_device){
        .name = "cpu", .description = c->description, .stream = &c->stream, .table = &cpu_table};
    if (open_stream(&c->stream, threads, err) < 0) {
        cpu_close(&c->device);
        return NULL;
    }
    c->device.ops = dt_ops_cpu();
    const char *wanted = getenv("DTRUN_CPU_ISA");
    if (wanted && strcmp(wanted, c->device.ops->name) != 0) {
        dt_err_set(err, DT_E_USAGE,
                   "DTRUN_CPU_ISA: \"%s\" is no set of instructions that this processor has; up to "
                   "%s there are x86-64, x86-64-v3, x86-64-v4",
                   wanted, c->device.ops->name);
        cpu_close(&c->device);
        return NULL;
    }
    describe(c, "no BLAS");
    return &c->device;
}

struct dt_device *dt_device_open_cpu(int threads, struct dt_err *err)
{
    if (dt_blas_open(err) < 0)
        return NULL;
    struct dt_device *d = dt_device_open_cpu_alone(threads, err);
    if (d)
        describe((struct cpu *)d, dt_blas_name());
    return d;
}

void dt_device_cpu_no_gpu(struct dt_device *d, const char *why, bool say)
{
    struct cpu *c = (struct cpu *)d;
    size_t used = strlen(c->description);
    snprintf(c->no_gpu, sizeof c->no_gpu, "%s", why);
    d->no_gpu = c->no_gpu;
    if (say)
        snprintf(c->description + used, sizeof c->description - used, "; no GPU: %s", why);
}
