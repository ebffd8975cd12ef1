/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/stance.h"
#include "rendezvous/protocol/stance_text.h"
#include "tests/lib/check.h"

static struct dt_stance sleeping(const char *where)
{
    struct dt_stance s = {.doing = DT_DOING_SLEEP, .sequence = -1, .step = -1};
    snprintf(s.where, sizeof s.where, "%s", where);
    return s;
}

static void add(struct dt_stances *s, const char *where, int first, int last)
{
    struct dt_stance stance = sleeping(where);
    struct dt_err err;
    for (int rank = first; rank <= last; rank++)
        CHECK_OK(dt_stances_add(s, &stance, rank, &err), err);
}

/* "a.py:1 = ranks 0 to 2 | b.py:2 = rank 3" */
static const char *text_of(const struct dt_stances *s, char out[400])
{
    char ranks[100];
    size_t n = 0;
    *out = '\0';
    for (size_t i = 0; i < s->len; i++)
        n += (size_t)snprintf(out + n, 400 - n, "%s%s = %s", i ? " | " : "", s->at[i].stance.where,
                              dt_stance_ranks(&s->at[i], ranks, sizeof ranks));
    return out;
}

static int count_ranks(const struct dt_stances *s)
{
    int n = 0;
    for (size_t i = 0; i < s->len; i++)
        n += s->at[i].ranks;
    return n;
}

TEST(every_doing_has_a_name_of_its_own)
{
    for (int i = 0; i < DT_DOINGS; i++)
        for (int k = 0; k < i; k++)
            CHECK(strcmp(dt_doing_name((enum dt_doing)i), dt_doing_name((enum dt_doing)k)) != 0);
    CHECK_STR(dt_doing_name(DT_DOINGS), "unknown");
}

TEST(a_look_shows_for_which_key_and_between_which_lines)
{
    struct dt_stance waits = {.doing = DT_DOING_COLLECTIVE,
                              .where = "a.py:7",
                              .collective = "init_process_group",
                              .keys = "default_pg/0//cpu//0/3",
                              .sequence = -1};
    struct dt_stance loops = sleeping("a.py:31");
    struct dt_stances s = {0};
    struct dt_buf text = {0};
    struct dt_err err;
    loops.first_line = 28;
    loops.last_line = 34;
    CHECK_OK(dt_stances_add(&s, &waits, 0, &err), err);
    CHECK_OK(dt_stances_add(&s, &loops, 1, &err), err);
    snprintf(waits.keys, sizeof waits.keys, "tokenizer");
    CHECK_OK(dt_stances_add(&s, &waits, 2, &err), err);
    dt_stances_put_text(&s, &text);
    CHECK_STR(dt_buf_cstr(&text),
              "rank 0: init_process_group a.py:7 (waits in the store for rank 3's address, key "
              "default_pg/0//cpu//0/3)\n"
              "rank 1: a.py:31 (sleeps between lines 28 and 34)\n"
              "rank 2: init_process_group a.py:7 (waits in the store for key tokenizer)\n");
    dt_buf_finish(&text);
    dt_stances_finish(&s);
}

TEST(stances_are_the_same_whatever_their_step_and_time)
{
    struct dt_stance a = sleeping("a.py:1"), b = a;
    b.step = 7;
    b.still = 900;
    CHECK(dt_stance_same(&a, &b));
    snprintf(b.detail, sizeof b.detail, "holds the GIL");
    CHECK(!dt_stance_same(&a, &b));
    CHECK(dt_stance_alike(&a, &b));
    b = a;
    b.sequence = 4;
    CHECK(!dt_stance_alike(&a, &b));
}

TEST(ranks_that_do_the_same_share_one)
{
    char text[400];
    struct dt_stances s = {0};
    add(&s, "b.py:2", 2, 2);
    add(&s, "a.py:1", 3, 7);
    add(&s, "a.py:1", 0, 1);
    CHECK_STR(text_of(&s, text), "a.py:1 = ranks 0, 1 and 3 to 7 | b.py:2 = rank 2");
    CHECK_EQ(s.at[0].ranks, 7);
    dt_stances_finish(&s);
    CHECK_EQ(s.len, 0);
}

TEST(a_rank_that_is_there_moves)
{
    static const struct {
        int first, last;
        const char *text;
    } rows[] = {
        {4, 4, "a = ranks 0 to 3 and 5 to 9 | b = rank 4"},
        {0, 0, "b = rank 0 | a = ranks 1 to 9"},
        {9, 9, "a = ranks 0 to 8 | b = rank 9"},
        {0, 9, "b = ranks 0 to 9"},
        {8, 12, "a = ranks 0 to 7 | b = ranks 8 to 12"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[400];
        struct dt_stances s = {0};
        CHECK_ROW("%d to %d", rows[i].first, rows[i].last);
        add(&s, "a", 0, 9);
        add(&s, "b", rows[i].first, rows[i].last);
        CHECK_STR(text_of(&s, text), rows[i].text);
        CHECK_EQ(count_ranks(&s), rows[i].last > 9 ? rows[i].last + 1 : 10);
        dt_stances_finish(&s);
    }
}

TEST(the_groups_of_several_agents_become_one_job)
{
    char text[400];
    struct dt_err err;
    struct dt_stances job = {0}, node0 = {0}, node1 = {0}, again = {0};
    add(&node0, "a", 0, 3);
    add(&node1, "a", 5, 7);
    add(&node1, "b", 4, 4);
    CHECK_OK(dt_stances_merge(&job, &node1, &err), err);
    CHECK_OK(dt_stances_merge(&job, &node0, &err), err);
    CHECK_STR(text_of(&job, text), "a = ranks 0 to 3 and 5 to 7 | b = rank 4");
    add(&again, "a", 4, 7);
    CHECK_OK(dt_stances_merge(&job, &again, &err), err);
    CHECK_STR(text_of(&job, text), "a = ranks 0 to 7");
    dt_stances_finish(&job);
    dt_stances_finish(&node0);
    dt_stances_finish(&node1);
    dt_stances_finish(&again);
}

TEST(a_group_has_the_least_step_and_time_of_its_ranks)
{
    struct dt_stances s = {0};
    struct dt_err err;
    struct dt_stance a = sleeping("a");
    a.still = 5000;
    CHECK_OK(dt_stances_add(&s, &a, 0, &err), err);
    a.step = 12;
    a.still = 3000;
    CHECK_OK(dt_stances_add(&s, &a, 1, &err), err);
    a.step = 11;
    a.still = 4000;
    CHECK_OK(dt_stances_add(&s, &a, 2, &err), err);
    CHECK_EQ(s.len, 1);
    CHECK_EQ(s.at[0].stance.step, 11);
    CHECK_EQ(s.at[0].stance.still, 3000);
    dt_stances_finish(&s);
}

TEST(an_agent_has_a_bounded_number_of_groups)
{
    struct dt_stances s = {0};
    for (int rank = 0; rank < 200; rank++) {
        char where[20];
        snprintf(where, sizeof where, "a.py:%d", rank);
        add(&s, where, rank, rank);
    }
    CHECK_EQ(s.len, DT_STANCES_MAX);
    CHECK_EQ(count_ranks(&s), 200);
    CHECK_EQ(s.at[DT_STANCES_MAX - 1].stance.doing, DT_DOING_UNKNOWN);
    CHECK_EQ(s.at[DT_STANCES_MAX - 1].ranks, 200 - DT_STANCES_MAX + 1);
    dt_stances_finish(&s);
}

TEST(ranks_in_words)
{
    static const struct {
        struct dt_rank_range ranges[4];
        size_t len, size;
        const char *text;
    } rows[] = {
        {{{2, 2}}, 1, 100, "rank 2"},
        {{{0, 1}}, 1, 100, "ranks 0 and 1"},
        {{{0, 63}}, 1, 100, "ranks 0 to 63"},
        {{{0, 1}, {3, 63}}, 2, 100, "ranks 0, 1 and 3 to 63"},
        {{{0, 0}, {2, 2}, {4, 4}, {6, 6}}, 4, 100, "ranks 0, 2, 4 and 6"},
        {{{0, 0}, {900, 900}, {910, 910}, {920, 920}}, 4, 25, "ranks 0, ... (4 in all)"},
        {{{0, 0}, {20, 20}, {40, 40}, {60, 60}}, 4, 12, "ranks ..."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_rank_range ranges[4];
        struct dt_stance_group g = {.ranges = ranges, .len = rows[i].len};
        char out[100];
        CHECK_ROW("%s", rows[i].text);
        memcpy(ranges, rows[i].ranges, sizeof ranges);
        for (size_t k = 0; k < g.len; k++)
            g.ranks += ranges[k].last - ranges[k].first + 1;
        CHECK_STR(dt_stance_ranks(&g, out, rows[i].size), rows[i].text);
    }
}

TEST(what_a_worker_made_up_does_not_steer_a_terminal)
{
    struct dt_stances s = {0};
    struct dt_err err;
    struct dt_stance a = sleeping("/tmp/\x1b[2J\xff/\xe2\x80\xaegr\xc3\xbc\xc3\x9f.py:1");
    a.doing = DT_DOINGS;
    a.sequence = INT64_MAX;
    a.step = INT64_MIN;
    a.still = -1;
    CHECK_OK(dt_stances_add(&s, &a, 0, &err), err);
    CHECK_STR(s.at[0].stance.where, "/tmp/?[2J?/?gr\xc3\xbc\xc3\x9f.py:1");
    CHECK_EQ(s.at[0].stance.doing, DT_DOING_UNKNOWN);
    CHECK_EQ(s.at[0].stance.sequence, -1);
    CHECK_EQ(s.at[0].stance.step, -1);
    CHECK_EQ(s.at[0].stance.still, 0);
    dt_stances_finish(&s);
}

/* -- JSON ------------------------------------------------------------------------------------- */

static const char *json_of(const struct dt_stances *s, struct dt_buf *out)
{
    struct dt_json_writer w = {.out = out};
    dt_buf_clear(out);
    dt_stances_put_json(s, NULL, &w);
    return dt_buf_cstr(out);
}

static int get(struct dt_stances *s, const char *array, struct dt_err *err)
{
    struct dt_buf text = {0};
    struct dt_json doc;
    const struct cJSON *at;
    dt_buf_printf(&text, "{\"stances\":%s}", array);
    CHECK_OK(dt_json_parse(&doc, (const char *)text.at, text.len, 1 << 20, err), *err);
    int rc = dt_json_array(&doc, NULL, "stances", &at, err);
    if (rc == 0)
        rc = dt_stances_get_json(s, &doc, at, err);
    dt_json_finish(&doc);
    dt_buf_finish(&text);
    return rc;
}

TEST(json_there_and_back)
{
    struct dt_buf json = {0}, again = {0};
    struct dt_stances s = {0}, read = {0};
    struct dt_err err;
    struct dt_stance a = {.doing = DT_DOING_COLLECTIVE,
                          .where = "/home/u/train.py:11",
                          .function = "step",
                          .collective = "all_reduce",
                          .group = "default",
                          .shape = "Float [1024]",
                          .sequence = 48,
                          .keys = "rank_3",
                          .object = "a \"b\"",
                          .detail = "holds the GIL",
                          .first_line = 28,
                          .last_line = 34,
                          .step = 9,
                          .still = 2100};
    CHECK_OK(dt_stances_add(&s, &a, 0, &err), err);
    CHECK_OK(dt_stances_add(&s, &a, 1, &err), err);
    add(&s, "train.py:5", 2, 2);
    CHECK_STR(json_of(&s, &json),
              "[{\"ranks\":[{\"first\":0,\"last\":1}],\"doing\":\"collective\","
              "\"where\":\"/home/u/train.py:11\",\"function\":\"step\","
              "\"collective\":\"all_reduce\",\"group\":\"default\",\"shape\":\"Float [1024]\","
              "\"sequence\":48,\"keys\":\"rank_3\",\"object\":\"a \\\"b\\\"\","
              "\"detail\":\"holds the GIL\",\"first_line\":28,\"last_line\":34,"
              "\"step\":9,\"still_ms\":2100},"
              "{\"ranks\":[{\"first\":2,\"last\":2}],\"doing\":\"sleep\",\"where\":\"train.py:5\","
              "\"sequence\":-1,\"step\":-1,\"still_ms\":0}]");
    CHECK_OK(get(&read, dt_buf_cstr(&json), &err), err);
    CHECK_STR(json_of(&read, &again), dt_buf_cstr(&json));
    dt_stances_finish(&s);
    dt_stances_finish(&read);
    dt_buf_finish(&json);
    dt_buf_finish(&again);
}

#define REST "\"sequence\":-1,\"step\":-1,\"still_ms\":0}]"

TEST(json_that_is_refused)
{
    static const struct {
        const char *json, *why;
    } rows[] = {
        {"7", "expected an array"},
        {"[7]", "expected an object"},
        {"[{}]", "\"doing\" is missing"},
        {"[{\"doing\":\"dreaming\"," REST, "dreaming"},
        {"[{\"doing\":\"sleep\"," REST, "\"ranks\" is missing"},
        {"[{\"doing\":\"sleep\",\"ranks\":[3]," REST, "ranks[0]"},
        {"[{\"doing\":\"sleep\",\"ranks\":[{\"first\":-1,\"last\":0}]," REST, "first"},
        {"[{\"doing\":\"sleep\",\"ranks\":[{\"first\":2,\"last\":1}]," REST, "last"},
        {"[{\"doing\":\"sleep\",\"ranks\":[{\"first\":0,\"last\":1073741824}]," REST, "last"},
        {"[{\"doing\":\"sleep\",\"last_line\":-1,\"ranks\":[]," REST, "last_line"},
        {"[{\"doing\":\"sleep\",\"where\":3,\"ranks\":[]," REST, "where"},
        {"[{\"doing\":\"sleep\",\"collective\":\"0123456789012345678901234567890123456789"
         "012345678901234567890123\",\"ranks\":[]," REST,
         "64 bytes; at most 63"},
        {"[{\"doing\":\"sleep\",\"ranks\":[],\"sequence\":-2,\"step\":-1,\"still_ms\":0}]",
         "sequence"},
        {"[{\"doing\":\"sleep\",\"ranks\":[],\"sequence\":-1,\"step\":-1,\"still_ms\":-1}]",
         "still_ms"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_stances s = {0};
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].json);
        CHECK_FAIL(get(&s, rows[i].json, &err), err, rows[i].why);
        dt_stances_finish(&s);
    }
}

TEST(json_has_bounds)
{
    struct dt_buf many = {0};
    struct dt_stances s = {0};
    struct dt_err err = {0};
    dt_buf_put_str(&many, "[{\"doing\":\"sleep\",\"ranks\":[");
    for (int i = 0; i <= DT_STANCE_RANGES_MAX; i++)
        dt_buf_printf(&many, "%s{\"first\":%d,\"last\":%d}", i ? "," : "", 2 * i, 2 * i);
    dt_buf_put_str(&many, "]," REST);
    CHECK_FAIL(get(&s, dt_buf_cstr(&many), &err), err, "over 256 ranges");
    dt_stances_finish(&s);
    dt_buf_clear(&many);
    dt_buf_put_str(&many, "[");
    for (int i = 0; i <= DT_STANCES_ALL_MAX; i++)
        dt_buf_printf(&many,
                      "%s{\"doing\":\"sleep\",\"where\":\"a:%d\",\"ranks\":[{\"first\":%d,"
                      "\"last\":%d}],\"sequence\":-1,\"step\":-1,\"still_ms\":0}",
                      i ? "," : "", i, i, i);
    dt_buf_put_str(&many, "]");
    CHECK_FAIL(get(&s, dt_buf_cstr(&many), &err), err, "over 1024 stances");
    dt_stances_finish(&s);
    dt_buf_finish(&many);
}

TEST(more_ranges_than_json_has_room_for_are_left_out)
{
    struct dt_buf json = {0};
    struct dt_stances s = {0}, read = {0};
    struct dt_err err;
    for (int rank = 0; rank < 1024; rank += 2)
        add(&s, "a", rank, rank);
    CHECK_OK(get(&read, json_of(&s, &json), &err), err);
    CHECK_EQ(count_ranks(&read), DT_STANCE_RANGES_MAX);
    dt_stances_finish(&s);
    dt_stances_finish(&read);
    dt_buf_finish(&json);
}

TEST(a_person_reads_a_line_for_each_group)
{
    static const struct dt_stance rows[] = {
        {.doing = DT_DOING_COLLECTIVE,
         .where = "a.py:11",
         .function = "step",
         .collective = "all_reduce"},
        {.doing = DT_DOING_SLEEP, .where = "a.py:5", .function = "load"},
        {.doing = DT_DOING_WAIT, .object = "pause"},
        {.doing = DT_DOING_UNKNOWN, .detail = "it has ended"},
    };
    struct dt_stances s = {0};
    struct dt_buf text = {0};
    struct dt_err err;
    for (int rank = 0; rank < 6; rank++)
        CHECK_OK(dt_stances_add(&s, &rows[rank < 4 ? rank : 0], rank, &err), err);
    dt_stances_put_text(&s, &text);
    CHECK_STR(dt_buf_cstr(&text), "ranks 0, 4 and 5: all_reduce a.py:11\n"
                                  "rank 1: load a.py:5 (sleeps)\n"
                                  "rank 2: (waits in the kernel: pause)\n"
                                  "rank 3: (cannot be looked at, it has ended)\n");
    dt_buf_finish(&text);
    dt_stances_finish(&s);
}
