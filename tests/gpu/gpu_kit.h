/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of a GPU's ops share: a device by way of the plugin, for each type it computes with;
 * arrays on it that begin as the same numbers on both sides and have guards around them; and
 * comparison. Without a GPU the program is skipped.
 *
 *   static void add(struct gpu_kit *g)
 *   {
 *       float *x = gpu_numbers(g, n), *y = gpu_numbers(g, n);     host, as the type can hold them
 *       void *dx = gpu_up(g, n, x), *dy = gpu_up(g, n, y);        the same on the device
 *       g->ops->add(n, dx, dy, g->s);
 *       ref->add(n, x, y, NULL);
 *       gpu_near(g, "sum", n, dx, x, 1e-6);
 *   }
 *   TEST(sums) { gpu_each(add); } */
#ifndef DT_TESTS_GPU_KIT_H
#define DT_TESTS_GPU_KIT_H

#include "tests/runtime/ops_kit.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/half.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/device/cuda_plugin.h"

enum { GPU_ARRAYS = 256, GPU_GUARD = 256 };

struct gpu_array {
    uint8_t *memory; /* GPU_GUARD bytes, the array, GPU_GUARD bytes and more */
    size_t before, bytes, after;
};

struct gpu_kit {
    struct kit k; /* seed, and arrays of the host */
    struct dt_device *device;
    const struct dt_ops *ops;
    struct dt_stream *s;
    enum dt_dtype elem;
    size_t shift; /* elements that arrays begin behind an address of the best alignment */
    struct gpu_array arrays[GPU_ARRAYS];
    size_t used;
};

static const struct dt_ops *const ref = &dt_ops_reference;

/* To be called in BEFORE_ALL. */
static inline const struct dt_cuda_plugin *gpu_plugin_or_skip(void)
{
    struct dt_err err = {0};
    const struct dt_cuda_plugin *p = dt_cuda_plugin_load(&err);
    const char *named = getenv("DTRUN_CUDA_PLUGIN");
    if (named && strstr(named, "emulated")) /* the mock GPU is there wherever it was built */
        CHECK_OK(p ? 0 : -1, err);
    if (!p || p->devices(&err) == 0)
        SKIP("%s", err.text);
    return p;
}

static inline struct dt_device *gpu_open_device(enum dt_dtype elem, bool fast)
{
    struct dt_err err = {0};
    struct dt_device_wish w = {.kind = "cuda", .local_world = 1, .elem = elem, .fast = fast};
    struct dt_device *d = gpu_plugin_or_skip()->open(&w, &err);
    CHECK_ROW("%s", d ? d->description : err.text);
    CHECK(d != NULL);
    return d;
}

/* -- arrays ----------------------------------------------------------------------------------- */

static inline size_t gpu_size(const struct gpu_kit *g)
{
    return dt_dtype_size(g->elem);
}

/* BYTES of the device from FROM, or NaNs where that is NULL. The guards are NaNs too. */
static inline void *gpu_bytes(struct gpu_kit *g, size_t bytes, const void *from, size_t shift)
{
    struct dt_err err = {0};
    struct gpu_array a = {.before = GPU_GUARD + shift, .bytes = bytes, .after = GPU_GUARD};
    size_t all = a.before + a.bytes + a.after;
    a.memory = dt_device_alloc(g->device, all, "a test", &err);
    CHECK_OK(a.memory ? 0 : -1, err);
    uint8_t *image = malloc(all);
    memset(image, 0xff, all);
    if (from && bytes)
        memcpy(image + a.before, from, bytes);
    g->device->table->from_host(g->device, a.memory, image, all);
    free(image);
    if (g->used == GPU_ARRAYS)
        abort();
    g->arrays[g->used++] = a;
    return a.memory + a.before;
}

static inline void *gpu_up_float(struct gpu_kit *g, size_t n, const float *x)
{
    return gpu_bytes(g, n * sizeof *x, x, g->shift * sizeof *x);
}

static inline void *gpu_up_ids(struct gpu_kit *g, size_t n, const int32_t *ids)
{
    return gpu_bytes(g, n * sizeof *ids, ids, 0);
}

/* As elements; X NULL: NaNs. */
static inline void *gpu_up(struct gpu_kit *g, size_t n, const float *x)
{
    if (g->elem == DT_F32)
        return gpu_up_float(g, n, x);
    uint16_t *half = x ? malloc(n * 2 + 1) : NULL;
    for (size_t i = 0; half && i < n; i++)
        half[i] = dt_float_to_bf16(x[i]);
    void *at = gpu_bytes(g, n * 2, half, g->shift * 2);
    free(half);
    return at;
}

static inline void gpu_to_host(struct gpu_kit *g, void *to, const void *at, size_t bytes)
{
    struct dt_err err = {0};
    if (bytes)
        g->device->table->to_host(g->device, to, at, bytes);
    CHECK_OK(dt_device_sync(g->device, &err), err);
}

static inline float *gpu_down_float(struct gpu_kit *g, size_t n, const void *at)
{
    float *x = kit_alloc(&g->k, n * sizeof *x);
    gpu_to_host(g, x, at, n * sizeof *x);
    return x;
}

static inline int32_t *gpu_down_ids(struct gpu_kit *g, size_t n, const void *at)
{
    int32_t *ids = kit_alloc(&g->k, n * sizeof *ids);
    gpu_to_host(g, ids, at, n * sizeof *ids);
    return ids;
}

static inline float *gpu_down(struct gpu_kit *g, size_t n, const void *at)
{
    if (g->elem == DT_F32)
        return gpu_down_float(g, n, at);
    float *x = kit_alloc(&g->k, n * sizeof *x);
    uint16_t *half = malloc(n * 2 + 1);
    gpu_to_host(g, half, at, n * 2);
    for (size_t i = 0; i < n; i++)
        x[i] = dt_bf16_to_float(half[i]);
    free(half);
    return x;
}

/* -- numbers of the host that an element can hold --------------------------------------------- */

static inline float *gpu_rounded(struct gpu_kit *g, size_t n, float *x)
{
    for (size_t i = 0; g->elem == DT_BF16 && i < n; i++)
        x[i] = dt_bf16_to_float(dt_float_to_bf16(x[i]));
    return x;
}

static inline float *gpu_numbers(struct gpu_kit *g, size_t n)
{
    return gpu_rounded(g, n, kit_numbers(&g->k, n));
}

/* -- comparison ------------------------------------------------------------------------------- */

/* What kit_near() is to allow where SINGLE is right for float: a bfloat16 has 8 bits. */
static inline double gpu_error(const struct gpu_kit *g, double single)
{
    return g->elem == DT_BF16 ? 0x1p-8 + single : single;
}

static inline void gpu_near(struct gpu_kit *g, const char *what, size_t n, const void *at,
                            const float *wanted, double single)
{
    kit_near(what, n, gpu_down(g, n, at), wanted, gpu_error(g, single));
}

static inline void gpu_near_float(struct gpu_kit *g, const char *what, size_t n, const void *at,
                                  const float *wanted, double error)
{
    kit_near(what, n, gpu_down_float(g, n, at), wanted, error);
}

static inline bool gpu_all_ff(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != 0xff)
            return false;
    return true;
}

/* Whether nobody wrote beside the array. */
static inline bool gpu_guards_hold(struct gpu_kit *g, const struct gpu_array *a)
{
    size_t all = a->before + a->bytes + a->after;
    uint8_t *image = kit_alloc(&g->k, all);
    gpu_to_host(g, image, a->memory, all);
    return gpu_all_ff(image, a->before) && gpu_all_ff(image + a->before + a->bytes, a->after);
}

/* All arrays, of both sides, after a look at the guards. */
static inline void gpu_free(struct gpu_kit *g)
{
    while (g->used > 0) {
        const struct gpu_array *a = &g->arrays[--g->used];
        CHECK_ROW("array %zu, of %zu bytes", g->used, a->bytes);
        CHECK(gpu_guards_hold(g, a));
        dt_device_free(g->device, a->memory);
    }
    kit_free(&g->k);
}

/* Runs STORY on a device that computes with floats, then on one with bfloat16. */
static inline void gpu_each(void (*story)(struct gpu_kit *g))
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        CHECK_ROW("%s", types[i] == DT_F32 ? "float" : "bfloat16");
        struct gpu_kit g = {.k.state = 7, .elem = types[i]};
        g.device = gpu_open_device(types[i], false);
        g.ops = g.device->ops;
        g.s = g.device->stream;
        story(&g);
        gpu_free(&g);
        dt_device_close(g.device);
    }
}

#endif
