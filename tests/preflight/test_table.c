/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/table.h"
#include "tests/preflight/judged.h"

static struct dt_sheet *example(void)
{
    struct dt_sheet *s = fresh_sheet();
    dt_sheet_remark(s, "host", DT_GRADE_OK, NULL, "Linux 6.1");
    dt_sheet_remark(s, "links", DT_GRADE_NOTE, "ask", "slow");
    dt_sheet_remark(s, "shm", DT_GRADE_FAIL, "mount it", "there is no /dev/shm");
    dt_sheet_remark(s, "infiniband", DT_GRADE_WARN, "look at \033[2Jit", "port 1 is down");
    dt_sheet_set(s, "kernel", "6.1");
    return s;
}

TEST(the_worst_comes_first)
{
    struct dt_buf out = {0};
    dt_table_put(example(), false, SIZE_MAX, &out);
    CHECK_STR(dt_buf_cstr(&out), "FAIL shm        there is no /dev/shm (mount it)\n"
                                 "warn infiniband port 1 is down (look at \\x1b[2Jit)\n"
                                 "note links      slow (ask)\n"
                                 "ok   host       Linux 6.1\n");
    dt_buf_finish(&out);
}

TEST(long_sentences_are_wrapped)
{
    struct dt_buf out = {0};
    struct dt_sheet *s = fresh_sheet();
    dt_sheet_remark(s, "shm", DT_GRADE_WARN, NULL,
                    "one two three four five six seven eight nine ten");
    dt_table_put(s, false, 10, &out);
    CHECK_STR(dt_buf_cstr(&out), "warn shm        one two three four five six\n"
                                 "                seven eight nine ten\n");
    dt_buf_finish(&out);
}

TEST(a_terminal_gets_colours)
{
    struct dt_buf out = {0};
    dt_table_put(example(), true, SIZE_MAX, &out);
    CHECK(strstr(dt_buf_cstr(&out), "\033[1;31mFAIL\033[0m shm"));
    CHECK(strstr(dt_buf_cstr(&out), "\nnote links"));
    dt_buf_finish(&out);
}

TEST(programs_get_json)
{
    struct dt_buf out = {0};
    struct dt_json_writer w = {.out = &out};
    struct dt_sheet *s = example();
    s->remark_count = 2;
    dt_sheet_add_speed(s, &(struct dt_speed){.device = "GPU 1", .kind = "H100", .flops = 5});
    dt_table_put_json(s, &w);
    CHECK_STR(dt_buf_cstr(&out),
              "{\"verdict\":\"note\",\"remarks\":[{\"grade\":\"ok\",\"probe\":\"host\","
              "\"sentence\":\"Linux 6.1\",\"advice\":null},{\"grade\":\"note\",\"probe\":\"links\","
              "\"sentence\":\"slow\",\"advice\":\"ask\"}],\"traits\":{\"kernel\":\"6.1\"},"
              "\"speeds\":[{\"device\":\"GPU 1\",\"id\":null,\"kind\":\"H100\",\"flops\":5,"
              "\"written\":0,\"got\":0}]}");
    dt_buf_finish(&out);
}
