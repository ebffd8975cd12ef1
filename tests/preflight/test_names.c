/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/names.h"
#include "tests/preflight/judged.h"

static const struct dt_name good = {.name = "node7", .address = "10.0.0.7"};
static const struct dt_name local = {.name = "node7", .address = "127.0.1.1", .is_local = true};
static const struct dt_name lost = {.name = "node7", .why = "Name or service not known"};

TEST(the_own_name)
{
    const struct {
        const struct dt_name *name;
        int hosts;
        const char *words;
    } rows[] = {
        {&good, 2, "ok: node7 is 10.0.0.7"},
        {&local, 2, "warn: the name of this host, \"node7\", leads to 127.0.1.1: "},
        {&local, 1, "note: the name of this host, \"node7\", leads to 127.0.1.1: "},
        {&lost, 2, "warn: the name of this host, \"node7\", leads nowhere (Name or service"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_names_judge_own(rows[i].name, rows[i].hosts, s);
        check_said(s, rows[i].words);
    }
}

TEST(where_the_nodes_meet)
{
    const struct {
        const struct dt_name *name;
        bool elsewhere;
        const char *words;
    } rows[] = {
        {&good, true, "ok: the nodes meet at node7, which is 10.0.0.7"},
        {&local, true, "fail: \"node7\", where the nodes meet, leads to 127.0.1.1, which is this"},
        {&local, false, "warn: \"node7\", where the nodes meet, leads to 127.0.1.1 here"},
        {&lost, true, "warn: \"node7\", where the nodes meet, leads nowhere: Name or"},
        {&lost, false, "warn: \"node7\", where the nodes meet, leads nowhere: Name or"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_names_judge_meeting(rows[i].name, rows[i].elsewhere, 2, s);
        check_said(s, rows[i].words);
    }
}

TEST(a_numeric_address_is_looked_at)
{
    struct dt_sheet *s = fresh_sheet();
    struct dt_checkup c = {
        .root = "", .hosts = 2, .meeting_host = "127.0.0.1", .meets_elsewhere = true};
    dt_names_probe(&c, s);
    check_said(s, "fail: \"127.0.0.1\", where the nodes meet, leads to 127.0.0.1, which is this");
}
