/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/memory.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

#define GIB ((int64_t)1 << 30)

TEST(what_is_said_of_it)
{
    /* clang-format off */
    static const struct { struct dt_memory_state m; const char *words; } rows[] = {
        {{64 * GIB, 60 * GIB, -1, 0, 0}, "ok: 60 GiB of 64 GiB are left"},
        {{64 * GIB, 15 * GIB, 16 * GIB, 0, 0}, "ok: 15 GiB of 16 GiB are left; the host has 64 GiB"},
        {{64 * GIB, 15 * GIB, 128 * GIB, 0, 0}, "ok: 15 GiB of 64 GiB are left"},
        {{64 * GIB, 5 * GIB, -1, 0, 0}, "warn: only 5 GiB of 64 GiB of memory are left"},
        {{64 * GIB, GIB / 4, 2 * GIB, 0, 0}, "warn: only 256 MiB of 2 GiB of memory are left; the host has 64 GiB"},
        {{64 * GIB, 60 * GIB, -1, 8 * GIB, 2 * GIB}, "warn: 6 GiB of memory are swapped out"},
        {{64 * GIB, 60 * GIB, -1, 8 * GIB, 8 * GIB}, "ok: "},
        {{-1, -1, -1, -1, -1}, "ok: "},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_memory_judge(&rows[i].m, s);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

TEST(a_recorded_host)
{
    struct dt_sheet *s = fresh_sheet();
    put("a", "/proc/meminfo",
        "MemTotal:       67108864 kB\nMemFree:        1 kB\nMemAvailable:   62914560 kB\n"
        "SwapTotal:             0 kB\nSwapFree:              0 kB\n");
    put("a", "/proc/self/cgroup", "0::/\n");
    put("a", "/proc/self/mountinfo", "");
    dt_memory_probe(&(struct dt_checkup){.root = at("a")}, s);
    check_said(s, "of 64 GiB");
    CHECK_STR(dt_sheet_trait(s, "memory"), "64 GiB");
}
