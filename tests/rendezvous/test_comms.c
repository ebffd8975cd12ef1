/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/comms.h"
#include "tests/lib/check.h"

/* The page of a worker that has one communicator. */
static struct dt_page page_of(struct dt_page_comm comm)
{
    struct dt_page page;
    dt_page_init(&page);
    page.comms[3] = comm;
    return page;
}

static struct dt_comms_told read_of(const struct dt_page *page)
{
    struct dt_comms_told told;
    memset(&told, 0xa5, sizeof told);
    dt_page_read_comms(page, &told);
    return told;
}

static const struct dt_page_comm usual = {
    .id = 0x4f00c2d1,
    .rank = 2,
    .ranks = 8,
    .entered = 812,
    .ended = 811,
    .count = 1024,
    .entered_ns = 5,
    .peer = -1,
    .state = DT_PAGE_COMM_OPEN_WITH_ENDS,
    .function = "AllReduce",
    .datatype = "Float32",
    .name = "default_pg",
};

TEST(a_new_page_has_no_communicators)
{
    struct dt_page page;
    dt_page_init(&page);
    struct dt_comms_told told = read_of(&page);
    CHECK_EQ(told.count, 0);
    CHECK_EQ(told.left_out, 0);
    CHECK_EQ(dt_comms_calls(&told), 0);
    CHECK(dt_comms_latest(&told) == NULL);
}

TEST(what_a_plugin_writes_is_read)
{
    struct dt_page page = page_of(usual);
    page.comms_left_out = 2;
    struct dt_comms_told told = read_of(&page);
    CHECK_EQ(told.count, 1);
    CHECK_EQ(told.left_out, 2);
    CHECK_EQ(told.at[0].id, 0x4f00c2d1);
    CHECK_EQ(told.at[0].rank, 2);
    CHECK_EQ(told.at[0].ranks, 8);
    CHECK_EQ(told.at[0].entered, 812);
    CHECK_EQ(told.at[0].ended, 811);
    CHECK_EQ(told.at[0].bytes, 4096);
    CHECK_EQ(told.at[0].entered_ns, 5);
    CHECK_EQ(told.at[0].peer, -1);
    CHECK_STR(told.at[0].name, "default_pg");
    CHECK(dt_comms_latest(&told) == &told.at[0]);

    page.comms[3].state = DT_PAGE_COMM_OPEN;
    CHECK_EQ(read_of(&page).at[0].ended, -1);
    page.comms[3].state = DT_PAGE_COMM_FREE;
    CHECK_EQ(read_of(&page).count, 0);
    page.comms[3].state = 99;
    CHECK_EQ(read_of(&page).count, 0);
}

TEST(a_call_is_described_in_one_line)
{
    static const struct {
        const char *name, *function, *datatype;
        int32_t peer;
        const char *words;
    } rows[] = {
        {"default_pg", "AllReduce", "Float32", -1, "AllReduce 812 of default_pg, Float32 [1024]"},
        {"", "AllReduce", "", -1, "AllReduce 812 of 4f00c2d1"},
        {"", "", "Int8", -1, "call 812 of 4f00c2d1, Int8 [1024]"},
        {"pp", "Send", "Bfloat16", 3, "Send of pp with its rank 3, Bfloat16 [1024]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        struct dt_page_comm comm = usual;
        char out[DT_COMM_WORDS];
        memset(comm.name, 0, sizeof comm.name);
        memset(comm.function, 0, sizeof comm.function);
        memset(comm.datatype, 0, sizeof comm.datatype);
        strcpy(comm.name, rows[i].name);
        strcpy(comm.function, rows[i].function);
        strcpy(comm.datatype, rows[i].datatype);
        comm.peer = rows[i].peer;
        struct dt_page page = page_of(comm);
        struct dt_comms_told told = read_of(&page);
        CHECK_STR(dt_comm_describe(&told.at[0], out), rows[i].words);
    }
}

TEST(bytes_follow_from_the_type)
{
    static const struct {
        const char *datatype;
        uint64_t count;
        int64_t bytes;
    } rows[] = {
        {"Int8", 3, 3},
        {"Uint64", 3, 24},
        {"Float16", 3, 6},
        {"Bfloat16", 0, 0},
        {"Float8e4m3", 3, 3},
        {"Float64", (uint64_t)1 << 50, (int64_t)1 << 53},
        {"Float7", 3, -1},
        {"Float", 3, -1},
        {"", 3, -1},
        {"Float64", (uint64_t)1 << 53, -1},
        {"Int99999999999", 3, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].datatype);
        struct dt_page_comm comm = usual;
        memset(comm.datatype, 0, sizeof comm.datatype);
        strcpy(comm.datatype, rows[i].datatype);
        comm.count = rows[i].count;
        struct dt_page page = page_of(comm);
        CHECK_EQ(read_of(&page).at[0].bytes, rows[i].bytes);
    }
}

TEST(the_newest_call_is_found)
{
    struct dt_page page;
    dt_page_init(&page);
    for (int i = 0; i < 4; i++) {
        page.comms[i] = usual;
        page.comms[i].id = (uint64_t)i;
        page.comms[i].entered_ns = i == 2 ? 100 : i;
    }
    page.comms[3].entered = 0; /* it was never called, whatever the time says */
    page.comms[3].entered_ns = 1000;
    struct dt_comms_told told = read_of(&page);
    CHECK_EQ(dt_comms_latest(&told)->id, 2);
    CHECK_EQ(dt_comms_calls(&told), 3 * 812);
}

TEST(what_is_beyond_reason_is_not_told)
{
    struct dt_page_comm comm = usual;
    comm.rank = 8; /* of 8 */
    comm.entered = UINT64_MAX;
    comm.exchanged = (uint64_t)1 << 60;
    comm.count = UINT64_MAX;
    comm.entered_ns = INT64_MIN;
    comm.peer = -7;
    strcpy(comm.function, "All\033[2J");
    strcpy(comm.datatype, "Float 32");
    memset(comm.name, 'x', sizeof comm.name);
    struct dt_page page = page_of(comm);
    struct dt_comms_told told = read_of(&page);
    CHECK_EQ(told.at[0].rank, -1);
    CHECK_EQ(told.at[0].ranks, 8);
    CHECK_EQ(told.at[0].entered, 0);
    CHECK_EQ(told.at[0].ended, -1);
    CHECK_EQ(told.at[0].exchanged, 0);
    CHECK_EQ(told.at[0].count, 0);
    CHECK_EQ(told.at[0].entered_ns, 0);
    CHECK_EQ(told.at[0].peer, -1);
    CHECK_STR(told.at[0].function, "");
    CHECK_STR(told.at[0].datatype, "");
    CHECK_EQ(strlen(told.at[0].name), DT_PAGE_COMM_NAME - 1);

    page.comms[3].name[5] = '\n';
    page.comms_left_out = UINT32_MAX;
    CHECK_STR(read_of(&page).at[0].name, "");
    CHECK_EQ(read_of(&page).left_out, 0);
}
