/* SPDX-License-Identifier: Apache-2.0 */
/* Our graphs before the real cuDNN, as far as that goes without a GPU: it takes a description of
 * one, chooses engines for it and makes their plans, with a driver that loads kernels into nothing
 * (stub_driver.c, which $DT_STUB_DRIVER names). What the plans compute only a GPU tells. */
#include "cuda/cudnn/shape.h"
#include "tests/lib/check.h"

#include <dlfcn.h>

/* What cuDNN wants to know of a device: an H100. */
static const char h100[] =
    "{\"deviceName\": \"NVIDIA H100 80GB HBM3\", \"cudaDeviceId\": 0, \"deviceVer\": 900,"
    " \"driverVer\": 13000, \"totalGlobalMem\": 85899345920, \"multiProcessorCount\": 132,"
    " \"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64],"
    " \"regsPerBlock\": 65536, \"maxRegistersPerSM\": 65536, \"warpSize\": 32,"
    " \"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": 232448,"
    " \"reservedSharedMemoryPerBlock\": 1024, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024,"
    " \"maxThreadsPerSM\": 2048, \"l2CacheSize\": 52428800, \"smClockRateKHz\": 1980000,"
    " \"memClockRateKHz\": 2619000, \"pciDeviceId\": 0, \"isTccDriver\": 0,"
    " \"supportCoopLaunch\": 1}";

static const struct dt_cudnn_calls *calls;
static void *properties;

/* The driver goes first: the library's name is then that of one which is loaded. */
BEFORE_ALL
{
    struct dt_err err = {0};
    const char *driver = getenv("DT_STUB_DRIVER");
    CHECK(driver && dlopen(driver, RTLD_NOW | RTLD_GLOBAL) != NULL);
    calls = dt_cudnn_load(&err);
    if (!calls)
        SKIP("%s", err.text);
    CHECK_EQ(calls->make(DT_CUDNN_PROPERTIES, &properties), DT_CUDNN_SUCCESS);
    CHECK_EQ(calls->set(properties, DT_CUDNN_PROPERTIES_JSON, DT_CUDNN_OF_CHAR,
                        (int64_t)strlen(h100), h100),
             DT_CUDNN_SUCCESS);
    CHECK_EQ(calls->finalize(properties), DT_CUDNN_SUCCESS);
}

/* Bytes of the plan's workspace, or -1. */
static int64_t plan(const struct dt_cudnn_shape *s, size_t most, char why[512])
{
    struct dt_cudnn_graph g;
    const struct dt_cudnn_where where = {
        .properties = properties, .deterministic = s->deterministic, .most = most};
    dt_cudnn_graph_begin(&g, calls);
    dt_cudnn_shape_tell(s, &g);
    int rc = dt_cudnn_graph_plan(&g, &where);
    int64_t bytes = rc < 0 ? -1 : (int64_t)g.workspace;
    snprintf(why, 512, "%s", g.failed.text);
    dt_cudnn_graph_finish(&g);
    return bytes;
}

static struct dt_cudnn_shape shape(int64_t batch, int64_t positions, int64_t heads,
                                   int64_t kv_heads, int64_t head_dim)
{
    return (struct dt_cudnn_shape){.batch = batch,
                                   .positions = positions,
                                   .heads = heads,
                                   .kv_heads = kv_heads,
                                   .head_dim = head_dim,
                                   .q_stride = heads * head_dim,
                                   .k_stride = kv_heads * head_dim,
                                   .v_stride = kv_heads * head_dim,
                                   .out_stride = heads * head_dim};
}

/* Those of bench/gpu_kernels.c, and odd ones. */
TEST(cudnn_has_engines_for_our_graphs)
{
    static const int64_t rows[][5] = {{16, 1024, 12, 12, 64}, {4, 4096, 12, 12, 64},
                                      {2, 4096, 32, 4, 64},   {2, 4096, 32, 8, 128},
                                      {1, 77, 2, 1, 64},      {1, 100, 3, 3, 80}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int backward = 0; backward < 2; backward++) {
            char why[512];
            const int64_t *r = rows[i];
            struct dt_cudnn_shape s = shape(r[0], r[1], r[2], r[3], r[4]);
            s.backward = backward;
            int64_t bytes = plan(&s, (size_t)1 << 40, why);
            CHECK_ROW("row %zu, %s: %s", i, backward ? "backward" : "forward", why);
            CHECK(bytes >= 0);
        }
}

TEST(cudnn_has_engines_for_windows_and_documents)
{
    static const struct {
        int64_t size[5], window;
        bool documents, deterministic;
    } rows[] = {{{2, 1024, 12, 12, 64}, 256, false, true},
                {{2, 1024, 32, 4, 64}, 0, true, true},
                {{2, 4096, 32, 8, 128}, 1024, true, false},
                {{1, 77, 2, 1, 80}, 1, true, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int backward = 0; backward < 2; backward++) {
            char why[512];
            const int64_t *r = rows[i].size;
            struct dt_cudnn_shape s = shape(r[0], r[1], r[2], r[3], r[4]);
            s.window = rows[i].window;
            s.documents = rows[i].documents;
            s.backward = backward;
            s.deterministic = rows[i].deterministic;
            int64_t bytes = plan(&s, (size_t)1 << 40, why);
            CHECK_ROW("row %zu, %s: %s", i, backward ? "backward" : "forward", why);
            CHECK(bytes >= 0);
        }
}

/* Q, k and v of one product lie side by side. */
TEST(rows_may_hold_all_three)
{
    for (int backward = 0; backward < 2; backward++) {
        char why[512];
        struct dt_cudnn_shape s = shape(2, 512, 12, 12, 64);
        s.q_stride = s.k_stride = s.v_stride = 3 * 12 * 64;
        s.backward = backward;
        int64_t bytes = plan(&s, (size_t)1 << 40, why);
        CHECK_ROW("%s: %s", backward ? "backward" : "forward", why);
        CHECK(bytes >= 0);
    }
}

/* It works in a matrix of all weights. */
TEST(bits_that_repeat_have_an_engine_that_wants_more_room)
{
    char why[512];
    struct dt_cudnn_shape s = shape(8, 1024, 32, 4, 64);
    s.backward = true;
    int64_t any = plan(&s, (size_t)1 << 40, why);
    s.deterministic = true;
    int64_t same = plan(&s, (size_t)1 << 40, why);
    CHECK_ROW("%lld and %lld bytes: %s", (long long)any, (long long)same, why);
    CHECK(any >= 0);
    CHECK(same >= 8ll * 32 * 1024 * 1024 * 2);
    CHECK_EQ(plan(&s, 1 << 20, why), -1);
    CHECK_STR(why, "cuDNN has no engine that makes do with the workspace");
}

/* The same question gets a no where the answer is one. */
TEST(what_no_engine_computes_is_refused)
{
    char why[512];
    struct dt_cudnn_shape s = shape(2, 128, 4, 4, 20);
    CHECK_EQ(plan(&s, (size_t)1 << 40, why), -1);
    CHECK_ROW("%s", why);
    CHECK(strlen(why) > 0);
}

TEST(a_handle_wants_a_device)
{
    void *handle = NULL;
    CHECK(calls->create(&handle) != DT_CUDNN_SUCCESS);
    struct dt_err err = {0};
    dt_cudnn_fail(calls, 1001, "starting it", &err);
    CHECK_ROW("%s", err.text);
    CHECK(strstr(err.text, "starting it: cuDNN says CUDNN_STATUS_NOT_INITIALIZED (") != NULL);
}
