/* SPDX-License-Identifier: Apache-2.0 */
/* The library is the mock, whose cards are as ill as a test wants them. */
#include "preflight/probes/gpus.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

#define CARD .name = "NVIDIA H100", .memory = (uint64_t)80 << 30

TEST(what_is_said_of_a_card)
{
    /* clang-format off */
    static const struct { struct dt_card card; const char *words; } rows[] = {
        {{CARD}, "ok: 1 NVIDIA H100, in good health"},
        {{CARD, .links_up = 18}, "ok: "},
        {{CARD, .links_down = 18}, "ok: "}, /* none is built in */
        {{CARD, .uncorrected = 2}, "fail: GPU 0 had 2 errors of memory that could not be corrected"},
        {{CARD, .row_failed = true, .row_pending = true}, "fail: GPU 0 has a bad row of memory and no spare row"},
        {{CARD, .row_pending = true}, "warn: GPU 0 replaces a bad row"},
        {{CARD, .used = (uint64_t)30 << 30}, "warn: 30 GiB of the 80 GiB of GPU 0 are in use"},
        {{CARD, .slowed = 0x40}, "warn: GPU 0 is slowed down because it is too hot"},
        {{CARD, .slowed = 0x80}, "warn: GPU 0 is slowed down by its hardware"},
        {{CARD, .slowed = 0x1}, "ok: "}, /* it is idle */
        {{CARD, .not_kept = true}, "note: without persistence mode"},
        {{CARD, .links_up = 16, .links_down = 2}, "warn: 2 of 18 NVLinks of GPU 0 are down"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        struct dt_cards g = {.opened = DT_NVML_OPEN, .count = 1, .at = {rows[i].card}};
        CHECK_ROW("row %zu", i);
        dt_gpus_judge(&g, 1, s);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

TEST(what_is_said_of_all_of_them)
{
#define TWO .count = 2, .at = { {CARD}, {.number = 1, CARD} }
    /* clang-format off */
    static const struct { struct dt_cards g; int workers; const char *words; } rows[] = {
        {{.opened = DT_NVML_ABSENT}, 1, "ok: this host has none"},
        {{.opened = DT_NVML_OPEN, TWO, .by_driver = 2}, 2, "ok: 2 NVIDIA H100, in good health"},
        {{.opened = DT_NVML_OPEN, TWO, .by_driver = 3}, 2, "fail: the driver knows 3 GPUs, but only 2 answer"},
        {{.opened = DT_NVML_OPEN, TWO}, 8, "note: there are 8 workers, but 2 GPUs"},
        {{.opened = DT_NVML_OPEN, .count = 2, .at = {{CARD}, {.number = 1, .name = "NVIDIA A100"}}}, 2,
         "note: GPUs differ: GPU 0 is NVIDIA H100, GPU 1 is NVIDIA A100"},
        {{.opened = DT_NVML_NO_START, .status = 18, .by_driver = 2}, 1, "fail: NVIDIA's management library does not start (error 18)"},
        {{.opened = DT_NVML_NO_START, .status = 9}, 1, "ok: "},
        {{.opened = DT_NVML_ABSENT, .by_driver = 2}, 1, "warn: there is a driver for 2 GPUs, but no libnvidia-ml"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_gpus_judge(&rows[i].g, rows[i].workers, s);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

TEST(the_library_is_asked)
{
    struct dt_sheet *s = fresh_sheet();
    setenv("MOCK_NVML", "GPU-a@0:1:0 GPU-b@0:2:0", 1);
    setenv("MOCK_NVML_ILL", "ecc=5 throttle=64 nvlink=2", 1);
    put("a", "/proc/driver/nvidia/gpus/0000:01:00.0/information", "");
    dt_gpus_probe(&(struct dt_checkup){.root = at("a"), .workers = 2}, s);
    check_said(s, "fail: GPU 0 had 5 errors");
    check_said(s, "fail: GPU 1 had 5 errors");
    check_said(s, "warn: GPU 1 is slowed down because it is too hot");
    check_said(s, "warn: 2 of 18 NVLinks of GPU 1 are down");
    CHECK_STR(dt_sheet_trait(s, "GPUs"), "2 Mock H100");
    unsetenv("MOCK_NVML_ILL");
    s = fresh_sheet();
    dt_gpus_probe(&(struct dt_checkup){.root = at("a"), .workers = 2}, s);
    check_said(s, "ok: 2 Mock H100, in good health");
    setenv("MOCK_NVML", "18", 1);
    s = fresh_sheet();
    dt_gpus_probe(&(struct dt_checkup){.root = at("a"), .workers = 2}, s);
    check_said(s, "fail: NVIDIA's management library does not start (error 18)");
}
