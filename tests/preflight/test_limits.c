/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/limits.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

#define LIMITS(files, processes, locked)                                                           \
    "Limit                     Soft Limit           Hard Limit           Units     \n"             \
    "Max processes             " processes "\n"                                                    \
    "Max open files            " files "\n"                                                        \
    "Max locked memory         " locked "\n"

TEST(a_limit_is_found_in_its_line)
{
    static const char text[] =
        LIMITS("1024     524288   files", "unlimited unlimited processes", "8388608 8388608 bytes");
    CHECK_EQ(dt_limits_find(text, "Max open files", false), 1024);
    CHECK_EQ(dt_limits_find(text, "Max open files", true), 524288);
    CHECK_EQ(dt_limits_find(text, "Max processes", false), DT_LIMIT_NONE);
    CHECK_EQ(dt_limits_find(text, "Max nice priority", false), DT_LIMIT_UNKNOWN);
    CHECK_EQ(dt_limits_find("Max open files", "Max open files", true), DT_LIMIT_UNKNOWN);
}

TEST(what_is_said_of_them)
{
    /* clang-format off */
    static const struct { struct dt_limits l; int workers; const char *words; } rows[] = {
        {{65536, 65536, DT_LIMIT_NONE, DT_LIMIT_NONE, -1, 0, true}, 8, "ok: files, processes"},
        {{1024, 524288, DT_LIMIT_NONE, DT_LIMIT_NONE, -1, 0, false}, 8, "warn: a process may have 1024 files open"},
        {{65536, 65536, 500, DT_LIMIT_NONE, -1, 0, false}, 8, "warn: this user may have 500 processes"},
        {{65536, 65536, 500, DT_LIMIT_NONE, -1, 0, false}, 1, "ok: "},
        {{65536, 65536, DT_LIMIT_NONE, DT_LIMIT_NONE, 600, 590, false}, 1, "warn: the control group has room for 10 more"},
        {{65536, 65536, DT_LIMIT_NONE, 8 << 20, -1, 0, true}, 1, "warn: a process may lock 8 MiB of memory"},
        {{65536, 65536, DT_LIMIT_NONE, 8 << 20, -1, 0, false}, 1, "ok: "},
        {{-1, -1, -1, -1, -1, 0, true}, 1, "ok: "},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_limits_judge(&rows[i].l, rows[i].workers, s);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

TEST(a_recorded_host)
{
    struct dt_sheet *s = fresh_sheet();
    put("a", "/proc/self/limits", LIMITS("256 256 files", "9 9 processes", "65536 65536 bytes"));
    put("a", "/proc/self/cgroup", "0::/job\n");
    put("a", "/proc/self/mountinfo",
        "30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
    put("a", "/sys/fs/cgroup/job/pids.max", "100\n");
    put("a", "/sys/fs/cgroup/job/pids.current", "40\n");
    put("a", "/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    dt_limits_probe(&(struct dt_checkup){.root = at("a"), .workers = 1}, s);
    CHECK_EQ(s->remark_count, 4);
    check_said(s, "256 files");
    check_said(s, "9 processes");
    check_said(s, "room for 60 more");
    check_said(s, "lock 64 KiB");
}
