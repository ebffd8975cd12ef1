/* SPDX-License-Identifier: Apache-2.0 */
/* No GPU here: the driver's library is tests/agent/mock/nvml.c, or none. */
#include "agent/bind/gpus.h"
#include "tests/lib/check.h"

#define FOUR "GPU-1f@0000:07:00.0 GPU-2e@0000:0f:00.0 GPU-2f@0000:47:00.0 GPU-3a@0001:4e:00.0"

/* The numbers of what DEVICES lets one see, "0 2 1". */
static const char *seen(const char *cards, const char *devices)
{
    static char text[200];
    struct dt_gpus all = {0}, visible = {0};
    struct dt_err err = {0};
    size_t n = 0;
    setenv("MOCK_NVML", cards, 1);
    CHECK_OK(dt_gpus_read(&all, &err), err);
    CHECK_OK(dt_gpus_select(&all, devices, &visible, &err), err);
    text[0] = '\0';
    for (size_t i = 0; i < visible.count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d%s", i ? " " : "",
                              visible.at[i].number, visible.at[i].mig ? "m" : "");
    dt_gpus_finish(&all);
    dt_gpus_finish(&visible);
    return text;
}

TEST(cards_are_seen_as_cuda_shows_them)
{
    static const struct {
        const char *devices, *seen;
    } rows[] = {
        {NULL, "0 1 2 3"},
        {"0,1,2,3", "0 1 2 3"},
        {"2,0", "2 0"},
        {" 3 , 1 ", "3 1"},
        {"", ""},
        {"-1", ""},
        {"1,-1,2", "1"},
        {"1,4,2", "1"},
        {"0,,1", "0"},
        {"x", ""},
        {"1gpu,2more", "1 2"},
        {"99999999999999999999", ""},
        {"0,0", ""},
        {"0,1,0", ""},
        {"GPU-1f", "0"},
        {"GPU-3a,GPU-1f", "3 0"},
        {"GPU-1,GPU-3", "0 3"}, /* a beginning will do */
        {"GPU-2", ""},          /* if it is of one only */
        {"GPU-1f,GPU-2,GPU-3a", "0"},
        {"GPU-1f,GPU-ff,GPU-3a", "0"},
        {"GPU-1f,2", "0"}, /* kinds do not mix */
        {"2,GPU-1f", "2"},
        {"GPU-1f,GPU-1", ""},
        {"gpu-1f", ""},
        {"MIG-1", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("CUDA_VISIBLE_DEVICES=%s", rows[i].devices ? rows[i].devices : "(not set)");
        CHECK_STR(seen(FOUR, rows[i].devices), rows[i].seen);
    }
}

TEST(parts_of_cards_are_seen_where_they_are_named)
{
    const char *cards = "GPU-1f@0000:07:00.0 +MIG-aa + +MIG-bb GPU-2e@0000:0f:00.0 +MIG-cc";
    CHECK_STR(seen(cards, NULL), "0 1");
    CHECK_STR(seen(cards, "1"), "1");
    CHECK_STR(seen(cards, "MIG-cc,MIG-bb"), "1m 0m");
    CHECK_STR(seen(cards, "MIG-bb,MIG-bb"), "");
    CHECK_STR(seen(cards, "MIG-dd,MIG-bb"), "");
    CHECK_EQ(dt_gpus_count("MIG-cc,MIG-bb"), 1); /* a process sees one */
}

TEST(a_card_is_known_by_its_bus)
{
    struct dt_gpus all = {0};
    struct dt_err err = {0};
    setenv("MOCK_NVML", FOUR, 1);
    CHECK_OK(dt_gpus_read(&all, &err), err);
    CHECK_EQ(all.count, 4);
    CHECK_EQ(all.at[3].at.domain, 1);
    CHECK_EQ(all.at[3].at.bus, 0x4e);
    CHECK_EQ(all.at[3].at.device, 0);
    CHECK_STR(all.at[3].uuid, "GPU-3a");
    dt_gpus_finish(&all);
}

TEST(devices_are_counted)
{
    setenv("MOCK_NVML", FOUR, 1);
    CHECK_EQ(dt_gpus_count(NULL), 4);
    CHECK_EQ(dt_gpus_count("1,3"), 2);
    CHECK_EQ(dt_gpus_count(""), 0);
}

TEST(without_a_driver_there_are_none)
{
    setenv("MOCK_NVML", "9", 1);
    CHECK_EQ(dt_gpus_count(NULL), 0);
    CHECK_EQ(dt_gpus_count("0"), 0);
    setenv("MOCK_NVML", "", 1);
    CHECK_EQ(dt_gpus_count(NULL), 0);
}
