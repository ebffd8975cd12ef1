/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/speeds.h"
#include "tests/preflight/judged.h"

#define T UINT64_C(1000000000000)
#define G UINT64_C(1000000000)
#define MOST 64

static struct dt_speed speeds[MOST];
static struct dt_speed_of devices[MOST];

/* What is said of devices of one kind with these figures. */
static const struct dt_sheet *compare(bool gpus, const double *tflops, size_t count)
{
    struct dt_sheet *s = fresh_sheet();
    for (size_t i = 0; i < count; i++) {
        speeds[i] = (struct dt_speed){.kind = "H100", .flops = (uint64_t)(tflops[i] * 1e12)};
        strcpy(speeds[i].device, "CPU");
        if (gpus) {
            snprintf(speeds[i].device, sizeof speeds[i].device, "GPU %u", (unsigned)i);
            snprintf(speeds[i].id, sizeof speeds[i].id, "GPU-%zu", i);
        }
        devices[i] = (struct dt_speed_of){.speed = &speeds[i]};
    }
    dt_speeds_compare(devices, count, s);
    return s;
}

TEST(a_slow_gpu_is_named_beside_the_middle_one)
{
    /* clang-format off */
    static const struct { double tflops[5]; size_t count; const char *words; } rows[] = {
        {{600}, 1, "ok: matrices are multiplied at 600 TFLOP/s by one H100"},
        {{600, 610, 620, 590}, 4, "ok: matrices are multiplied at 590 to 620 TFLOP/s by 4 H100"},
        {{600, 451, 620, 590}, 4, "ok: "},
        {{600, 449, 620, 590}, 4, "warn: GPU 1 (GPU-1) multiplies matrices at 449 TFLOP/s; the middle one of 4 H100 has 600"},
        {{600, 300}, 2, "warn: GPU 1 (GPU-1) multiplies matrices at 300 TFLOP/s; the middle one of 2 H100 has 600"},
        {{300, 600}, 2, "warn: GPU 0 (GPU-0) multiplies"},
        {{0, 600, 0}, 3, "ok: matrices are multiplied at 600 TFLOP/s by one H100"}, /* not measured */
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        const struct dt_sheet *s = compare(true, rows[i].tflops, rows[i].count);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
    CHECK_EQ(compare(true, NULL, 0)->remark_count, 0);
}

/* Others may be at work there. */
TEST(processors_may_differ_more)
{
    check_said(compare(false, (double[]){0.06, 0.04, 0.061}, 3),
               "ok: matrices are multiplied at 0.04 to 0.061 TFLOP/s by 3 H100");
    check_said(compare(false, (double[]){0.06, 0.02, 0.061}, 3),
               "warn: CPU multiplies matrices at 0.02 TFLOP/s; the middle one of 3 H100 has 0.06");
}

TEST(only_devices_of_one_kind_are_compared)
{
    struct dt_sheet *s = fresh_sheet();
    struct dt_speed two[] = {{.device = "GPU 0", .id = "a", .kind = "H100", .flops = 600 * T},
                             {.device = "GPU 1", .id = "b", .kind = "A100", .flops = 250 * T}};
    dt_speeds_compare((struct dt_speed_of[]){{.speed = &two[0]}, {.speed = &two[1]}}, 2, s);
    CHECK_STR(said(s), "ok: matrices are multiplied at 600 TFLOP/s by one H100|"
                       "ok: matrices are multiplied at 250 TFLOP/s by one A100");
}

TEST(a_link_to_the_host_can_be_slow)
{
    struct dt_sheet *s = fresh_sheet();
    struct dt_speed three[3];
    struct dt_speed_of all[3];
    for (int i = 0; i < 3; i++) {
        three[i] = (struct dt_speed){
            .kind = "H100", .id = "x", .flops = 600 * T, .written = 50 * G, .got = 48 * G};
        snprintf(three[i].device, sizeof three[i].device, "GPU %d", i);
        all[i] = (struct dt_speed_of){.speed = &three[i]};
    }
    three[2].written = 6 * G;
    dt_speeds_compare(all, 3, s);
    CHECK_STR(said(s), "warn: GPU 2 (x) is written to at 6 GB/s; the middle one of 3 H100 has 50");
    check_advice(s);
}

TEST(of_many_slow_ones_some_are_named)
{
    double tflops[MOST];
    for (int i = 0; i < MOST; i++)
        tflops[i] = i < 20 ? 100 : 600;
    const struct dt_sheet *s = compare(true, tflops, MOST);
    CHECK_EQ(s->remark_count, 9);
    CHECK_STR(s->remarks[8].sentence, "and 12 more such H100");
    check_advice(s);
}

TEST(nodes_are_named)
{
    struct dt_sheet *s = fresh_sheet();
    struct dt_compared nodes[3] = {{.name = "node0"}, {.name = "node1"}, {.name = "node2"}};
    for (int i = 0; i < 3; i++) {
        nodes[i].sheet = calloc(1, sizeof *nodes[i].sheet);
        for (int k = 0; k < 2; k++)
            dt_sheet_add_speed(nodes[i].sheet, &(struct dt_speed){.device = "GPU 0",
                                                                  .id = "GPU-u",
                                                                  .kind = "H100",
                                                                  .flops = 600 * T});
    }
    snprintf(nodes[1].sheet->speeds[1].device, 16, "GPU 1");
    nodes[1].sheet->speeds[1].flops = 200 * T;
    dt_speeds_compare_nodes(nodes, 3, s);
    CHECK_STR(said(s), "warn: node1: GPU 1 (GPU-u) multiplies matrices at 200 TFLOP/s; the middle "
                       "one of 6 H100 has 600");
    for (int i = 0; i < 3; i++)
        free(nodes[i].sheet);
}
