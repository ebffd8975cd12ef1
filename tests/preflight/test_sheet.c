/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/sheet.h"
#include "tests/preflight/judged.h"

TEST(what_has_no_room_is_left_out)
{
    struct dt_sheet *s = fresh_sheet(), *both = calloc(1, sizeof *both);
    for (int i = 0; i < 2 * DT_SHEET_REMARKS; i++) {
        dt_sheet_remark(s, "a", i ? DT_GRADE_OK : DT_GRADE_WARN, NULL, "%d", i);
        dt_sheet_set(s, "n", "%d", i);
        dt_sheet_add_speed(s, &(struct dt_speed){.flops = 1});
    }
    CHECK_EQ(s->remark_count, DT_SHEET_REMARKS);
    CHECK_EQ(s->trait_count, DT_SHEET_TRAITS);
    CHECK_EQ(s->speed_count, DT_SHEET_SPEEDS);
    CHECK_EQ(dt_sheet_worst(s), DT_GRADE_WARN);
    dt_sheet_add(both, s);
    dt_sheet_add(both, s);
    CHECK_EQ(both->remark_count, DT_SHEET_REMARKS);
    CHECK_EQ(both->trait_count, DT_SHEET_TRAITS);
    CHECK_EQ(both->speed_count, DT_SHEET_SPEEDS);
    CHECK_STR(both->remarks[1].sentence, "1");
    free(both);
}

TEST(traits_and_speeds_travel)
{
    struct dt_sheet *s = fresh_sheet(), *there = calloc(1, sizeof *there);
    struct dt_buf bytes = {0};
    dt_sheet_set(s, "PyTorch", "2.6.0");
    dt_sheet_set(s, "MTU", "1500");
    dt_sheet_add_speed(s, &(struct dt_speed){.device = "GPU 7",
                                             .id = "GPU-a",
                                             .kind = "NVIDIA H100",
                                             .flops = UINT64_C(600) << 40,
                                             .written = 2,
                                             .got = 3});
    dt_sheet_put_compared(s, &bytes);
    CHECK(dt_sheet_read_compared(there, (struct dt_bytes){bytes.at, bytes.len}));
    CHECK_STR(dt_sheet_trait(there, "MTU"), "1500");
    CHECK(dt_sheet_trait(there, "NCCL") == NULL);
    CHECK_EQ(there->speed_count, 1);
    CHECK_BYTES(&there->speeds[0], sizeof there->speeds[0], &s->speeds[0], sizeof s->speeds[0]);
    for (size_t len = 0; len < bytes.len; len++) {
        CHECK_ROW("cut after %zu", len);
        CHECK(!dt_sheet_read_compared(there, (struct dt_bytes){bytes.at, len}));
    }
    dt_buf_put_u8(&bytes, 0);
    CHECK(!dt_sheet_read_compared(there, (struct dt_bytes){bytes.at, bytes.len}));
    bytes.at[3] = 0x7f; /* two thousand million of them */
    CHECK(!dt_sheet_read_compared(there, (struct dt_bytes){bytes.at, bytes.len}));
    dt_buf_finish(&bytes);
    free(there);
}
