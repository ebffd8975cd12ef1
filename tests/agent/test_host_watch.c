/* SPDX-License-Identifier: Apache-2.0 */
/* No GPU here: the driver's library is tests/agent/mock/nvml.c, or none. */
#include "agent/watch/gpu_use.h"
#include "agent/watch/host.h"
#include "tests/lib/check.h"

#include <sched.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define GIB 1024 /* MiB */

TEST(the_fullest_disk_is_the_one_that_has_the_least_free_of_what_is_little)
{
    static const struct {
        struct dt_disk disks[3];
        const char *fullest;
    } rows[] = {
        {{{"/a", 10, 100}, {"/b", 50, 1000}, {"/c", 9, 10}}, "/b"},
        {{{"/a", 0, 0}, {"/b", 50, 50}, {"/c", 0, 0}}, "/b"},
        {{{"/large", 3000 * GIB, 100000 * GIB}, {"/small", 40 * GIB, 1000 * GIB}}, "/small"},
        {{{"/large", 90 * GIB, 100000 * GIB}, {"/small", 51 * GIB, 1000 * GIB}}, "/large"},
        {{{"/a", 0, 7}, {"/b", 0, 9}, {"/c", 1, 9}}, "/a"},
        {{{"/a", 0, 0}, {"/b", 0, 0}, {"/c", 0, 0}}, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("row %zu", i);
        const struct dt_disk *d = dt_disk_fullest(rows[i].disks, 3);
        CHECK_STR(d ? d->folder : NULL, rows[i].fullest);
    }
    CHECK(dt_disk_fullest(NULL, 0) == NULL);
}

TEST(a_disk_is_never_more_than_can_be_told)
{
    static const struct {
        uint64_t blocks, size;
        int64_t mib;
    } rows[] = {{0, 4096, 0},
                {255, 4096, 0},
                {256, 4096, 1},
                {UINT64_C(1) << 43, 1 << 20, DT_MIB_MOST},
                {UINT64_MAX, 512, DT_MIB_MOST},
                {UINT64_MAX, UINT64_MAX, DT_MIB_MOST}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("row %zu", i);
        CHECK_EQ(dt_disk_mib(rows[i].blocks, rows[i].size), rows[i].mib);
    }
}

TEST(gpus_are_added_up)
{
    static const struct {
        const char *cards, *devices, *use;
        int gpus, busy;
        int64_t used, total;
    } rows[] = {
        {"GPU-1@0000:07:00.0 GPU-2@0000:0f:00.0", NULL, "use=40", 2, 40, 80 * GIB, 160 * GIB},
        {"GPU-1@0000:07:00.0 GPU-2@0000:0f:00.0", "1", "use=70", 1, 70, 70 * GIB, 80 * GIB},
        {"GPU-1@0000:07:00.0 GPU-2@0000:0f:00.0", "", "use=70", 0, 0, 0, 0},
        {"GPU-1@0000:07:00.0", NULL, "", 1, 0, 1 * GIB, 80 * GIB},
        {"GPU-1@0000:07:00.0 +MIG-1 + +MIG-3", "MIG-3", "use=9", 1, -1, 9 * GIB, 80 * GIB},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dt_nvml nvml;
        struct dt_gpus all = {0}, visible = {0};
        struct dt_err err = {0};
        struct dt_telemetry t = {0};
        CHECK_ROW("row %zu", i);
        setenv("MOCK_NVML", rows[i].cards, 1);
        setenv("MOCK_NVML_ILL", rows[i].use, 1);
        CHECK_EQ(dt_nvml_open(&nvml, NULL), DT_NVML_OPEN);
        CHECK_OK(dt_gpus_read(&all, &err), err);
        CHECK_OK(dt_gpus_select(&all, rows[i].devices, &visible, &err), err);
        dt_gpu_use_read(&nvml, &visible, &t);
        CHECK_EQ(t.gpus, rows[i].gpus);
        CHECK_EQ(t.gpu_busy, rows[i].busy);
        CHECK_EQ(t.gpu_mem_mib, rows[i].used);
        CHECK_EQ(t.gpu_mem_total_mib, rows[i].total);
        dt_gpus_finish(&all);
        dt_gpus_finish(&visible);
        dt_nvml_close(&nvml, DT_NVML_OPEN);
    }
    unsetenv("MOCK_NVML_ILL");
}

static void tell(struct dt_host_watch *w, dt_ms later, struct dt_telemetry *out)
{
    dt_host_watch_tell(w, dt_clock_monotonic() + later, out);
}

TEST(a_watch_tells_of_disks_and_gpus)
{
    static const char *const folders[] = {"/nowhere", "."};
    struct dt_err err = {0};
    struct dt_telemetry t = {0};
    setenv("MOCK_NVML", "GPU-1@0000:07:00.0 GPU-2@0000:0f:00.0", 1);
    struct dt_host_watch *w = dt_host_watch_open(folders, COUNT(folders), "0", &err);
    CHECK_OK(w ? 0 : -1, err);
    for (tell(w, 0, &t); t.gpus == 0; tell(w, 0, &t))
        sched_yield();
    CHECK_EQ(t.gpus, 1);
    CHECK_STR(t.disk, ".");
    CHECK(t.disk_total_mib > 0 && t.disk_free_mib <= t.disk_total_mib);
    dt_host_watch_close(w);
    dt_host_watch_close(NULL);
}

TEST(what_was_found_long_ago_is_not_told)
{
    static const char *const folders[] = {"."};
    struct dt_err err = {0};
    struct dt_telemetry t = {0};
    setenv("MOCK_NVML", "GPU-1@0000:07:00.0", 1);
    struct dt_host_watch *w = dt_host_watch_open(folders, COUNT(folders), NULL, &err);
    CHECK_OK(w ? 0 : -1, err);
    for (tell(w, 0, &t); t.gpus == 0; tell(w, 0, &t))
        sched_yield();
    CHECK(t.disk_total_mib > 0);
    tell(w, 3600 * DT_SECOND, &t); /* as if a look had not ended since */
    CHECK_EQ(t.gpus, 0);
    CHECK_EQ(t.gpu_mem_total_mib, 0);
    CHECK_EQ(t.disk_total_mib, 0);
    CHECK_STR(t.disk, "");
    dt_host_watch_close(w);
}

TEST(a_folder_that_comes_later_is_watched_too)
{
    struct dt_err err = {0};
    struct dt_telemetry t = {0};
    char name[32];
    struct dt_host_watch *w = dt_host_watch_open(NULL, 0, NULL, &err);
    CHECK_OK(w ? 0 : -1, err);
    dt_host_watch_add(w, "");
    dt_host_watch_add(w, ".");
    dt_host_watch_add(w, ".");
    for (int i = 0; i < 20; i++) { /* more than there is room for */
        snprintf(name, sizeof name, "/nowhere/%d", i);
        dt_host_watch_add(w, name);
    }
    for (tell(w, 0, &t); !t.disk || !*t.disk; tell(w, 0, &t))
        sched_yield();
    CHECK_STR(t.disk, ".");
    dt_host_watch_close(w);
}
