/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/shm.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

#define GIB ((uint64_t)1 << 30)

TEST(what_is_said_of_it)
{
    /* clang-format off */
    static const struct { struct dt_shm_state shm; int workers; const char *words; } rows[] = {
        {{true, true, 32 * GIB, 31 * GIB}, 8, "ok: /dev/shm has 31 GiB left of 32 GiB"},
        {{false, false, 0, 0}, 1, "fail: there is no /dev/shm"},
        {{true, true, GIB / 16, GIB / 16}, 1, "warn: /dev/shm has 64 MiB for 1 worker:"},
        {{true, true, GIB, GIB}, 8, "warn: /dev/shm has 1 GiB for 8 workers:"},
        {{true, true, 32 * GIB, GIB}, 8, "warn: /dev/shm has only 1 GiB of its 32 GiB left"},
        {{true, false, 32 * GIB, 32 * GIB}, 8, "warn: /dev/shm is on a disk"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_shm_judge(&rows[i].shm, rows[i].workers, s);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

TEST(a_host_without_it)
{
    struct dt_sheet *s = fresh_sheet();
    dt_shm_probe(&(struct dt_checkup){.root = at("bare"), .workers = 1}, s);
    check_said(s, "fail: there is no /dev/shm");
}
