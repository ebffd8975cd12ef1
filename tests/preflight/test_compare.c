/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/compare.h"
#include "tests/preflight/judged.h"

#define NODES 6

static struct dt_compared nodes[NODES];

/* Each node's value of TRAIT, with blanks between; "-": it does not tell. */
static const struct dt_sheet *compare(const char *trait, const char *values)
{
    struct dt_sheet *out = fresh_sheet();
    char copy[256], *rest = copy, *value;
    size_t count = 0;
    snprintf(copy, sizeof copy, "%s", values);
    for (; (value = strsep(&rest, " ")) && count < NODES; count++) {
        struct dt_compared *n = &nodes[count];
        if (!n->sheet)
            n->sheet = malloc(sizeof *n->sheet);
        memset(n->sheet, 0, sizeof *n->sheet);
        snprintf(n->name, sizeof n->name, "node%zu", count);
        dt_sheet_set(n->sheet, "kernel", "6.1");
        if (strcmp(value, "-") != 0)
            dt_sheet_set(n->sheet, trait, "%s", value);
    }
    dt_compare_traits(nodes, count, out);
    return out;
}

TEST(what_differs_is_named_with_its_node)
{
    static const struct {
        const char *trait, *values, *words;
    } rows[] = {
        {"PyTorch", "2.6.0 2.6.0 2.6.0", "ok: 3 nodes, alike in all"},
        {"PyTorch", "2.6.0 2.6.0 2.6.1", "warn: node2: PyTorch 2.6.1, the others 2.6.0"},
        {"PyTorch", "2.6.1 2.6.0 2.6.0", "warn: node0: PyTorch 2.6.1, the others 2.6.0"},
        {"PyTorch", "2.6.0 2.6.1", "warn: node1: PyTorch 2.6.1, the other 2.6.0"},
        {"PyTorch", "2.6.0 - 2.6.0", "warn: node1: PyTorch not told, the others 2.6.0"},
        {"PyTorch", "- - 2.6.0", "warn: node2: PyTorch 2.6.0, the others not told"},
        {"NCCL", "2.20 2.21 2.21", "fail: node0: NCCL 2.20, the others 2.21"},
        {"file /a/b", "1 2 1", "fail: node1: file /a/b 2, the others 1"},
        {"processors", "8 8 4", "note: node2: processors 4, the others 8"},
        {"MTU", "9000 1500 9000 1500 9000", "warn: node1, node3: MTU 1500, the others 9000"},
        {"MTU", "1 2 2 2 2 2", "warn: node0: MTU 1, the others 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s: %s", rows[i].trait, rows[i].values);
        const struct dt_sheet *s = compare(rows[i].trait, rows[i].values);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
    CHECK_EQ(compare("PyTorch", "1 2 3 1")->remark_count, 2);
}

TEST(many_nodes_are_not_all_listed)
{
    enum { MANY = 200 };
    struct dt_compared *many = calloc(MANY, sizeof *many);
    struct dt_sheet *s = fresh_sheet();
    for (size_t i = 0; i < MANY; i++) {
        many[i].sheet = calloc(1, sizeof *many[i].sheet);
        snprintf(many[i].name, sizeof many[i].name, "host%zu", i);
        dt_sheet_set(many[i].sheet, "PyTorch", "%s", i % 4 ? "2.6.0" : "2.5.1");
    }
    dt_compare_traits(many, MANY, s);
    check_said(s, "warn: host0, host4, host8, host12 and 46 more: PyTorch 2.5.1, the others 2.6.0");
    for (size_t i = 0; i < MANY; i++)
        free(many[i].sheet);
    free(many);
}

#define S INT64_C(1000000)

TEST(clocks_that_are_wrong)
{
    /* clang-format off */
    static const struct { int64_t offset[4]; size_t count; int64_t trip; const char *words; } rows[] = {
        {{0, 100, -100, 50}, 4, 200, "ok: those of 3 other nodes agree"},
        {{0, 3 * S, 0, 0}, 4, 200, "warn: the clock of node1 is 3.0 s ahead of the one here"},
        {{0, 0, -3 * S, 0}, 4, 200, "warn: the clock of node2 is 3.0 s behind the one here"},
        {{0, 3 * S, 3 * S, 3 * S}, 4, 200, "warn: the clock of this host is 3.0 s behind those of most"},
        {{0, 3 * S}, 2, 200, "warn: the clock of node1 is 3.0 s"},
        {{0, 3 * S}, 2, 6 * S, "ok: those of 1 other node agree"}, /* the trip may be to blame */
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        for (size_t k = 0; k < rows[i].count; k++) {
            nodes[k].reached = true;
            nodes[k].offset_us = rows[i].offset[k];
            nodes[k].trip_us = rows[i].trip;
            snprintf(nodes[k].name, sizeof nodes[k].name, "node%zu", k);
        }
        dt_compare_clocks(nodes, rows[i].count, 0, s);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

TEST(nobody_was_reached)
{
    struct dt_sheet *s = fresh_sheet();
    nodes[0].reached = nodes[1].reached = false;
    dt_compare_clocks(nodes, 2, 0, s);
    dt_compare_pairs(NULL, 0, s);
    CHECK_EQ(s->remark_count, 0);
}

TEST(what_others_found)
{
    struct dt_sheet *s = fresh_sheet();
    for (size_t i = 0; i < NODES; i++) {
        nodes[i].worst = DT_GRADE_NOTE;
        snprintf(nodes[i].name, sizeof nodes[i].name, "node%zu", i);
    }
    nodes[1].worst = DT_GRADE_FAIL;
    dt_compare_grades(nodes, NODES, 1, s);
    CHECK_EQ(s->remark_count, 0); /* its own it prints anyway */
    nodes[0].worst = nodes[4].worst = DT_GRADE_WARN;
    dt_compare_grades(nodes, NODES, 2, s);
    CHECK_STR(said(s), "fail: node1 found what will break the job|"
                       "warn: node0, node4 found what can make it fail or slow");
    s = fresh_sheet();
    for (size_t i = 0; i < NODES; i++)
        nodes[i].worst = DT_GRADE_FAIL;
    dt_compare_grades(nodes, NODES, 0, s);
    check_said(s, "fail: node1, node2, node3, node4 and 1 more found what will break");
}

TEST(the_slow_pair_is_named)
{
    static const struct dt_pair pairs[] = {{"a", "b", 1000e6},
                                           {"c", "d", 300e6},
                                           {"a", "c", 1100e6},
                                           {"b", "d", 900e6},
                                           {"e", "f", 0}};
    struct dt_sheet *s = fresh_sheet();
    dt_compare_pairs(pairs, 5, s);
    check_said(s, "warn: 300 MB/s from c to d; other pairs have about 1000");
    CHECK_EQ(s->remark_count, 1);
    s = fresh_sheet();
    dt_compare_pairs(pairs, 2, s);
    check_said(s, "ok: about 1000 MB/s over one connection of TCP, in 2 pairs of nodes");
}
