/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks make of each other's devices. */
#include "tests/lib/check.h"
#include "worker_runtime/device/card.h"
#include "worker_runtime/ops/ops.h"

#include <string.h>

#define GPU                                                                                        \
    {                                                                                              \
        .device = "cuda", .elem = DT_BF16, .host = "node0"                                         \
    }
#define GPU_IN_FLOAT                                                                               \
    {                                                                                              \
        .device = "cuda", .elem = DT_F32, .host = "node1"                                          \
    }
#define CPU                                                                                        \
    {                                                                                              \
        .device = "cpu", .elem = DT_F32, .host = "node2", .why = "there is no NVIDIA driver"       \
    }
#define CPU_BY_WISH                                                                                \
    {                                                                                              \
        .device = "cpu", .elem = DT_F32, .host = "node3"                                           \
    }
#define RANKS 4

TEST(ranks_alike_are_taken)
{
    static const struct dt_device_card rows[][RANKS] = {
        {GPU, GPU, GPU, GPU},
        {GPU_IN_FLOAT, GPU_IN_FLOAT, GPU_IN_FLOAT, GPU_IN_FLOAT},
        {CPU, CPU_BY_WISH, CPU, CPU}, /* why is all the same */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        CHECK_ROW("%zu", i);
        CHECK_OK(dt_device_cards_check(rows[i], RANKS, &err), err);
    }
    struct dt_device_card alone = GPU;
    struct dt_err err = {0};
    CHECK_OK(dt_device_cards_check(&alone, 1, &err), err);
}

TEST(ranks_that_differ_are_told_of_one_of_each_kind)
{
    static const struct {
        struct dt_device_card cards[RANKS];
        const char *text;
    } rows[] = {
        {{GPU, GPU, CPU, GPU},
         "rank 0 (node0) is on a GPU and rank 2 (node2) is not, and one job cannot mix them; rank "
         "2 has no GPU: there is no NVIDIA driver; cure that, set train.device to \"cpu\", or "
         "leave node2 out"},
        {{CPU, CPU, CPU, GPU},
         "rank 3 (node0) is on a GPU and rank 0 (node2) is not, and one job cannot mix them; rank "
         "0 has no GPU: there is no NVIDIA driver; cure that, set train.device to \"cpu\", or "
         "leave node2 out"},
        {{GPU_IN_FLOAT, CPU_BY_WISH, GPU, GPU},
         "rank 0 (node1) is on a GPU and rank 1 (node3) is not, and one job cannot mix them; rank "
         "1 has no GPU: its train.device is \"cpu\"; cure that, set train.device to \"cpu\", or "
         "leave node3 out"},
        {{GPU, GPU, GPU, GPU_IN_FLOAT},
         "rank 0 (node0) computes with bfloat16 on \"cuda\" and rank 3 (node1) with float on "
         "\"cuda\"; give all ranks the same configuration, and dtrun of one build"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        CHECK_ROW("%zu", i);
        CHECK_EQ(dt_device_cards_check(rows[i].cards, RANKS, &err), -1);
        CHECK_EQ(err.code, DT_E_RUNTIME);
        CHECK_STR(err.text, rows[i].text);
    }
}

TEST(the_sentence_is_whole_however_long_its_parts_are)
{
    struct dt_ops ops = {.elem = DT_F32};
    char why[512];
    memset(why, 'y', sizeof why - 1);
    why[sizeof why - 1] = '\0';
    struct dt_device d = {.name = "cpu", .ops = &ops, .no_gpu = why};
    struct dt_device_card cards[2];
    struct dt_err err = {0};
    dt_device_card_write(&d, &cards[0]);
    CHECK_STR(cards[0].device, "cpu");
    CHECK_EQ(cards[0].elem, DT_F32);
    CHECK(strstr(cards[0].why, "yyy..."));
    d.name = "cuda";
    d.no_gpu = NULL;
    dt_device_card_write(&d, &cards[1]);
    CHECK_STR(cards[1].why, "");
    for (int i = 0; i < 2; i++)
        memset(cards[i].host, 'h', sizeof cards[i].host - 1);
    CHECK_EQ(dt_device_cards_check(cards, 2, &err), -1);
    CHECK_STR(err.text + strlen(err.text) - strlen("hhh out"), "hhh out");
}
