/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stay.h"

#include "tests/lib/check.h"

/* A letter for each worker: r runs, c can stay, p waits, x waits and cannot any more, . is
 * over. */
static int read_facts(const char *text, struct dt_stay_fact *out)
{
    int n = 0;
    for (; *text; text++)
        out[n++] = (struct dt_stay_fact){.runs = *text != '.',
                                         .can = *text == 'c' || *text == 'p',
                                         .waits = *text == 'p' || *text == 'x'};
    return n;
}

TEST(workers_stay_when_each_that_lives_can)
{
    static const struct {
        const char *facts;
        enum dt_stay stay;
        const char *blame;
    } rows[] = {
        {"", DT_STAY_NO, NULL},
        {"...", DT_STAY_NO, NULL},
        {"r.", DT_STAY_NO, "worker 0 cannot stay any more"},
        {"c.", DT_STAY_LEAVING, "worker 0 has not left its round within 5 s"},
        {"c", DT_STAY_LEAVING, "worker 0 has not left its round within 5 s"},
        {".cr", DT_STAY_NO, "worker 2 cannot stay any more"},
        {".pr", DT_STAY_NO, "worker 2 cannot stay any more"},
        {"pc.p", DT_STAY_LEAVING, "worker 1 has not left its round within 5 s"},
        {"pp.p", DT_STAY_WAITING, NULL},
        {"px.p", DT_STAY_WAITING, NULL},
        {".p", DT_STAY_WAITING, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_stay_fact facts[8];
        char words[DT_STAY_WORDS];
        CHECK_ROW("%s", rows[i].facts);
        int n = read_facts(rows[i].facts, facts);
        CHECK_EQ(dt_stay_judge(facts, n), rows[i].stay);
        const char *blame = dt_stay_blame(facts, n, words);
        CHECK_STR(blame ? blame : "", rows[i].blame ? rows[i].blame : "");
    }
}

TEST(a_place_in_the_next_world_is_what_a_new_worker_finds_in_its_environment)
{
    struct dt_plan plan = {.nproc = 4};
    const struct dt_world world = {.round = 7,
                                   .group_rank = 1,
                                   .group_size = 3,
                                   .first_rank = 4,
                                   .size = 12,
                                   .first_role_rank = 2,
                                   .role_size = 8,
                                   .prev_first_rank = 16,
                                   .prev_size = 20,
                                   .master_addr = "node0",
                                   .master_port = 29500};
    struct dt_page_world w = dt_stay_place(&plan, &world, 2, 3);
    CHECK_EQ(w.rank, 7);
    CHECK_EQ(w.size, 12);
    CHECK_EQ(w.local_rank, 3);
    CHECK_EQ(w.local_size, 4);
    CHECK_EQ(w.group, 1);
    CHECK_EQ(w.groups, 3);
    CHECK_EQ(w.restarts, 2);
    CHECK_EQ(w.round, 7);
    CHECK_EQ(w.master_port, 29500);
    CHECK_EQ(w.role_rank, 5);
    CHECK_EQ(w.role_size, 8);
    CHECK_EQ(w.prev_rank, 19);
    CHECK_EQ(w.prev_size, 20);
    CHECK_STR(w.master_addr, "node0");
    plan.virtual_local_rank = true;
    CHECK_EQ(dt_stay_place(&plan, &world, 2, 3).local_rank, 0);
    const struct dt_world alone = {.size = 4, .prev_first_rank = -1};
    CHECK_EQ(dt_stay_place(&plan, &alone, 1, 3).prev_size, 0);
}
