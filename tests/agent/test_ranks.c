/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/fixed/ranks.h"
#include "tests/lib/check.h"

#include <limits.h>

#define ROWS(a) (sizeof(a) / sizeof *(a))

TEST(a_node_speaks_as_python_would)
{
    struct dt_buf out = {0};
    dt_ranks_write_node(&out, &(struct dt_ranks_node){(char *)"default", 2, 0}, 0);
    CHECK_STR(dt_buf_cstr(&out), "{\"role\": \"default\", \"rank\": 0, \"local_world_size\": 2}");
    dt_buf_clear(&out);
    dt_ranks_write_node(&out, &(struct dt_ranks_node){(char *)"a\"b\\\n\xc3\xa9", 8, 0}, 12);
    CHECK_STR(dt_buf_cstr(&out),
              "{\"role\": \"a\\\"b\\\\\\n\xc3\xa9\", \"rank\": 12, \"local_world_size\": 8}");
    dt_buf_clear(&out);
    dt_ranks_write_node(&out, &(struct dt_ranks_node){(char *)"r", 2, 3}, 0);
    CHECK_STR(dt_buf_cstr(&out),
              "{\"role\": \"r\", \"rank\": 0, \"local_world_size\": 2, \"nodes\": 3}");
    dt_buf_clear(&out);
    dt_ranks_write_place(&out, &(struct dt_ranks_place){2, 5, 0, 3});
    CHECK_STR(dt_buf_cstr(&out), "[2, 5, 0, 3]");
    dt_buf_finish(&out);
}

TEST(what_nodes_say)
{
    /* clang-format off */
    static const struct { const char *text; const char *role; int workers; const char *error; } rows[] = {
        {"{\"role\": \"default\", \"rank\": 0, \"local_world_size\": 2}", "default", 2, NULL},
        {" {\"local_world_size\" :\n3 ,\t\"role\":\"other\"} ", "other", 3, NULL},
        {"{\"role\": \"\\u00e9\", \"rank\": 1, \"local_world_size\": 1, \"more\": [1]}", "\xc3\xa9", 1, NULL},
        {"{\"role\": \"\", \"rank\": 1, \"local_world_size\": 16384}", "", 16384, NULL},
        {"", NULL, 0, "the JSON"},
        {"{\"role\": \"default\", \"rank\": 0, \"local_world_size\": 2", NULL, 0, "ends early"},
        {"{\"rank\": 0, \"local_world_size\": 2}", NULL, 0, "\"role\" is missing"},
        {"{\"role\": \"default\", \"rank\": 0}", NULL, 0, "\"local_world_size\" is missing"},
        {"{\"role\": 1, \"local_world_size\": 2}", NULL, 0, "role: expected a string"},
        {"{\"role\": \"a\", \"local_world_size\": 0}", NULL, 0, "from 1 to 16384"},
        {"{\"role\": \"a\", \"local_world_size\": -3}", NULL, 0, "from 1 to 16384"},
        {"{\"role\": \"a\", \"local_world_size\": 1e9}", NULL, 0, "from 1 to 16384"},
        {"{\"role\": \"a\", \"local_world_size\": 1.5}", NULL, 0, "whole number"},
        {"{\"role\": \"a\", \"local_world_size\": \"2\"}", NULL, 0, "whole number"},
        {"[0, 5, 0, 2]", NULL, 0, "expected an object"},
        {"null", NULL, 0, "expected an object"},
        {"{\"role\": \"a\", \"local_world_size\": 1, \"nodes\": -1}", NULL, 0, "nodes: expected a whole number"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_ranks_node node = {0};
        struct dt_err err = {0};
        int rc = dt_ranks_read_node(dt_bytes_of(rows[i].text), &node, &err);
        if (rows[i].error)
            CHECK_FAIL(rc, err, rows[i].error);
        else
            CHECK_OK(rc, err);
        CHECK_STR(node.role, rows[i].role);
        CHECK_EQ(node.workers, rows[i].workers);
        free(node.role);
    }
}

TEST(a_node_that_says_too_much_is_not_listened_to)
{
    struct dt_buf out = {0};
    struct dt_ranks_node node = {0};
    struct dt_err err;
    char *role = calloc(1, DT_RANKS_TEXT_MAX + 1);
    CHECK(role != NULL);
    memset(role, 'r', DT_RANKS_TEXT_MAX);
    dt_ranks_write_node(&out, &(struct dt_ranks_node){role, 1, 0}, 0);
    CHECK_FAIL(dt_ranks_read_node((struct dt_bytes){out.at, out.len}, &node, &err), err, "65536");
    CHECK(node.role == NULL);
    dt_buf_finish(&out);
    free(role);
}

TEST(a_node_may_be_told_why_it_has_no_ranks)
{
    struct dt_buf out = {0};
    struct dt_ranks_place place;
    struct dt_err err;
    dt_ranks_write_refusal(&out, "node 1 is \"lost\"\n");
    CHECK_FAIL(dt_ranks_read_place((struct dt_bytes){out.at, out.len}, &place, &err), err,
               "node 1 is \"lost\"");
    CHECK_EQ(err.code, DT_E_CANCELED);
    dt_buf_finish(&out);
}

TEST(what_a_node_is_told)
{
    /* clang-format off */
    static const struct { const char *text; struct dt_ranks_place is; } rows[] = {
        {"[0, 5, 0, 2]", {0, 5, 0, 2}},
        {"[2, 5, 0, 3]", {2, 5, 0, 3}},
        {"[2,5,0,3]", {2, 5, 0, 3}},
        {" \t\r\n[ 2\n,\t5 , 0 ,3 ] \n", {2, 5, 0, 3}},
        {"[0, 2147483647, 2147483646, 2147483647]", {0, INT_MAX, INT_MAX - 1, INT_MAX}},
        {"", {0}},
        {"[", {0}},
        {"]", {0}},
        {"[]", {0}},
        {"[0, 5, 0]", {0}},
        {"[0, 5, 0, 2", {0}},
        {"[0, 5, 0, 2,]", {0}},
        {"[0, 5, 0, 2, 1]", {0}},
        {"[0, 5, 0, 2]]", {0}},
        {"[0, 5, 0, 2] x", {0}},
        {"[0 5, 0, 2]", {0}},
        {"[0, 5, , 2]", {0}},
        {"[0, 5, 00, 2]", {0}},
        {"[0, 05, 0, 2]", {0}},
        {"[-1, 5, 0, 2]", {0}},
        {"[+0, 5, 0, 2]", {0}},
        {"[0.0, 5, 0, 2]", {0}},
        {"[0, 5e0, 0, 2]", {0}},
        {"[0, \"5\", 0, 2]", {0}},
        {"[0, 2147483648, 0, 2]", {0}},
        {"[0, 99999999999999999999999999, 0, 2]", {0}},
        {"[5, 5, 0, 2]", {0}},
        {"[0, 5, 2, 2]", {0}},
        {"[0, 5, 0, 6]", {0}},
        {"[0, 0, 0, 0]", {0}},
        {"{\"role\": \"a\"}", {0}},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_ranks_place place = {0};
        struct dt_err err;
        int rc = dt_ranks_read_place(dt_bytes_of(rows[i].text), &place, &err);
        if (rows[i].is.size == 0)
            CHECK_FAIL(rc, err, "are no ranks");
        else
            CHECK_OK(rc, err);
        CHECK_EQ(place.first, rows[i].is.first);
        CHECK_EQ(place.size, rows[i].is.size);
        CHECK_EQ(place.first_in_role, rows[i].is.first_in_role);
        CHECK_EQ(place.role_size, rows[i].is.role_size);
    }
    struct dt_ranks_place place;
    struct dt_err err;
    struct dt_bytes nul = {(const uint8_t *)"[0, 5, 0, 2]\0", 13};
    CHECK_FAIL(dt_ranks_read_place(nul, &place, &err), err, "are no ranks");
}

TEST(the_walk)
{
    /* clang-format off */
    static const struct { struct { const char *role; int workers; } nodes[6]; const char *places; } rows[] = {
        {{{"default", 1}}, "[0, 1, 0, 1]"},
        {{{"default", 2}, {"default", 3}}, "[0, 5, 0, 5][2, 5, 2, 5]"},
        {{{"default", 2}, {"other", 3}}, "[0, 5, 0, 2][2, 5, 0, 3]"}, /* as torchrun 2.6 said */
        {{{"b", 1}, {"a", 2}, {"b", 4}, {"", 8}, {"a", 16}},
         "[0, 31, 0, 5][1, 31, 0, 18][3, 31, 1, 5][7, 31, 0, 8][15, 31, 2, 18]"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%zu", i);
        struct dt_ranks_node nodes[6];
        struct dt_ranks_place places[6];
        struct dt_buf out = {0};
        struct dt_err err;
        size_t count = 0;
        for (; rows[i].nodes[count].role; count++)
            nodes[count] = (struct dt_ranks_node){(char *)rows[i].nodes[count].role,
                                                  rows[i].nodes[count].workers, 0};
        CHECK_OK(dt_ranks_assign(nodes, count, places, &err), err);
        for (size_t n = 0; n < count; n++)
            dt_ranks_write_place(&out, &places[n]);
        CHECK_STR(dt_buf_cstr(&out), rows[i].places);
        dt_buf_finish(&out);
    }
}

#define MANY 10000

/* Against the plain quadratic sum, for a few; and no node may overlap the next. */
TEST(ten_thousand_nodes_of_a_thousand_roles)
{
    struct dt_ranks_node *nodes = calloc(MANY, sizeof *nodes);
    struct dt_ranks_place *places = calloc(MANY, sizeof *places);
    struct dt_err err;
    static char roles[1000][8];
    CHECK(nodes && places);
    for (int i = 0; i < MANY; i++) {
        snprintf(roles[i % 1000], sizeof roles[0], "r%d", i % 1000);
        nodes[i] = (struct dt_ranks_node){roles[i % 1000], 1 + i % 7, 0};
    }
    CHECK_OK(dt_ranks_assign(nodes, MANY, places, &err), err);
    for (int i = 1; i < MANY; i++)
        CHECK_EQ(places[i].first, places[i - 1].first + nodes[i - 1].workers);
    for (int i = 0; i < MANY; i += 371) {
        int before = 0, all = 0;
        for (int j = i % 1000; j < MANY; j += 1000) {
            before += j < i ? nodes[j].workers : 0;
            all += nodes[j].workers;
        }
        CHECK_EQ(places[i].first_in_role, before);
        CHECK_EQ(places[i].role_size, all);
        CHECK_EQ(places[i].size, places[MANY - 1].first + nodes[MANY - 1].workers);
    }
    for (int i = 0; i < MANY; i++)
        nodes[i].workers = INT_MAX / 2;
    CHECK_FAIL(dt_ranks_assign(nodes, MANY, places, &err), err, "more than ranks can count");
    free(nodes);
    free(places);
}

TEST(nodes_that_are_known_to_be_alike)
{
    struct dt_ranks_place p;
    struct dt_err err;
    CHECK_OK(dt_ranks_identical(3, 4, 8, &p, &err), err);
    CHECK_EQ(p.first, 24);
    CHECK_EQ(p.size, 32);
    CHECK_EQ(p.first_in_role, 24);
    CHECK_EQ(p.role_size, 32);
    CHECK_FAIL(dt_ranks_identical(0, 65536, 65536, &p, &err), err, "more than ranks can count");
}

TEST(who_is_absent)
{
    /* clang-format off */
    static const struct { const char *nodes; size_t size; const char *text; } rows[] = {
        {"", 80, "none"},
        {"....", 80, "none"},
        {"x", 80, "0"},
        {".x", 80, "1"},
        {".x.x", 80, "1 and 3"},
        {".xx", 80, "1-2"},
        {"xxxx", 80, "0-3"},
        {".x.xxx.x.", 80, "1, 3-5 and 7"},
        {"x.x.x.x.x.x", 15, "0, 2, 4, ..."},
        {"x.x.x.x.x.x", 5, "..."},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].nodes);
        bool absent[16];
        char out[80];
        size_t n = strlen(rows[i].nodes);
        for (size_t j = 0; j < n; j++)
            absent[j] = rows[i].nodes[j] == 'x';
        CHECK_STR(dt_ranks_list(absent, n, out, rows[i].size), rows[i].text);
    }
}
