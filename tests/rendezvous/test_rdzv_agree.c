/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: nodes come that may be of another job. */
#include "tests/rendezvous/rdzv_story.h"

TEST(nodes_that_ask_for_another_size_are_refused_by_name)
{
    begin_running(2, 2, 2);
    spec.max_nodes = 5;
    join(1003);
    CHECK_STR(told[3], "close-refused ");
    CHECK(strstr(why[3], "node3 asks for --nnodes 2:5, but run \"run\" has 2:2") != NULL);
    CHECK_STR(told[0], "");
    end();
}

TEST(a_job_whose_agents_were_all_killed_begins_anew_with_another_size)
{
    begin_running(2, 2, 2);
    lose(1000);
    spec.min_nodes = spec.max_nodes = 1;
    last_round[0] = last_round[1] = -1;
    join(2000);
    CHECK_STR(told[0], "close-refused "); /* node1 is still there */
    lose(1001);
    now += 100;
    join(3000);
    CHECK_STR(told[0], "close-refused world 1:0/1 ");
    last_round[1] = 0;
    come_back(1001, false);
    CHECK_STR(told[1], "close-refused "); /* it is of another size */
    end();
}

TEST(an_agent_of_another_host_does_not_replace_a_job_of_another_size)
{
    begin_running(2, 2, 2);
    lose(1000);
    lose(1001);
    spec.min_nodes = spec.max_nodes = 1;
    join(1002);
    CHECK_STR(told[2], "close-refused ");
    spec.min_nodes = spec.max_nodes = 2;
    come_back(1000, false);
    come_back(1001, false);
    CHECK_STR(told[0], "");
    CHECK_EQ(run->round, 0);
    end();
}

TEST(another_schedulers_job_of_the_same_name_is_refused)
{
    begin(2, 2);
    set_text(spec.job, "17");
    join(1000);
    set_text(spec.job, "18");
    join(1001);
    CHECK_STR(told[1], "close-refused ");
    CHECK(strstr(why[1], "job 17") != NULL);
    end();
}

/* Whether the last step logged a warning that ends so. */
static bool warned(const char *end_of_line)
{
    for (size_t i = 0; i < done.len; i++) {
        const char *text = dt_rdzv_text(&done, done.at[i].text);
        size_t len = strlen(text), wanted = strlen(end_of_line);
        if (done.at[i].type == DT_DO_SAY && done.at[i].weight == DT_EVENT_WARNING &&
            len >= wanted && strcmp(text + len - wanted, end_of_line) == 0)
            return true;
    }
    return false;
}

TEST(a_node_whose_options_differ_is_told_of_in_the_log)
{
    begin(3, 3);
    join(1000);
    CHECK(!warned("came first"));
    spec.max_restarts = 5;
    join(1001);
    CHECK(warned("node1 asks for --max-restarts 5; the run has 0, from the node that came first"));
    spec.max_restarts = 0;
    spec.torchrun_ranks = true;
    spec.quarantine = DT_SECOND;
    spec.max_node_losses = 2;
    join(1002);
    CHECK(warned("node2 asks for --rank-policy torchrun, --max-node-losses 2, --quarantine-time "
                 "1 s; the run has stable, unlimited, 10 min, from the node that came first"));
    CHECK_EQ(run->spec.max_node_losses, -1);
    CHECK_STR(told[2], "world 0:2/3 ");
    end();
}

/* The first node runs train.py as ada. */
static void begin_as_ada(bool shared, bool mixed)
{
    begin(2, 2);
    dt_rdzv_set_shared(run, shared);
    set_text(spec.script, "train.py");
    set_text(spec.user, "ada");
    spec.mixed = mixed;
    join(1000);
}

static void join_other(uint64_t id, uint64_t command, const char *script, const char *user,
                       bool mixed)
{
    spec.command = command;
    set_text(spec.script, script);
    set_text(spec.user, user);
    spec.mixed = mixed;
    join(id);
}

TEST(where_several_people_meet_another_job_of_the_same_name_is_refused)
{
    static const struct {
        const char *script, *user, *says;
        uint64_t command;
        bool first_mixed, mixed;
    } rows[] = {
        /* clang-format off */
        {"train.py", "ada", NULL, 7, false, false},
        {"train.py", "", NULL, 7, false, false}, /* of a dtrun that does not tell */
        {"train.py", "bob", "node1 runs train.py as bob, but run \"run\" runs train.py as ada; ", 7, false, false},
        {"eval.py", "ada", "node1 runs eval.py as ada, but run \"run\" runs train.py as ada; ", 8, false, false},
        {"", "", "node1 runs another command, but run \"run\" runs train.py as ada; ", 8, false, false},
        {"eval.py", "bob", "--allow-mixed-nodes", 8, false, true}, /* it takes both */
        {"eval.py", "bob", "give each job an --rdzv-id", 8, true, false},
        {"eval.py", "bob", NULL, 8, true, true},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu: %s as %s", i, rows[i].script, rows[i].user);
        begin_as_ada(true, rows[i].first_mixed);
        join_other(1001, rows[i].command, rows[i].script, rows[i].user, rows[i].mixed);
        CHECK_STR(told[1], rows[i].says ? "close-refused " : "world 0:1/2 ");
        CHECK_STR(told[0], rows[i].says ? "" : "world 0:0/2 ");
        if (rows[i].says && !strstr(why[1], rows[i].says))
            CHECK_STR(why[1], rows[i].says);
        if (rows[i].says && !strstr(why[0], rows[i].says)) /* the other terminal */
            CHECK_STR(why[0], rows[i].says);
        end();
    }
}

TEST(who_comes_again_and_again_does_not_fill_the_terminals_of_others)
{
    begin_as_ada(true, false);
    for (int i = 0; i < 1000; i++) {
        now += 5;
        why[0][0] = why[1][0] = '\0';
        join_other(1001, 8, "eval.py", "bob", false);
        CHECK(strstr(why[1], "give each job an --rdzv-id"));
        CHECK_EQ(*why[0] != '\0', i == 0);
    }
    pass(30 * DT_SECOND, 1, 1);
    join_other(1001, 8, "eval.py", "bob", false);
    CHECK(strstr(why[0], "the rendezvous refused a node: node1 runs eval.py as bob"));
    end();
}

TEST(what_a_job_is_for_outlives_a_restart_of_the_server)
{
    struct dt_buf record = {0};
    begin_as_ada(true, false);
    CHECK_STR(run->beginning.node, "node0");
    run->beginning.wall_us = 1795261992123456;
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    CHECK_STR(run->beginning.node, "node0");
    CHECK_EQ(run->beginning.wall_us, 1795261992123456);
    dt_rdzv_set_shared(run, true);
    join(1000);
    join_other(1001, 7, "train.py", "bob", false);
    CHECK_STR(told[1], "close-refused ");
    CHECK(strstr(why[1], "runs train.py as ada"));
    dt_buf_finish(&record);
    end();
}

TEST(a_run_that_was_begun_with_a_token_takes_nobody_without_it)
{
    static const struct {
        const char *first, *next, *says;
    } rows[] = {
        {"k1", "k1", NULL},
        {"k1", NULL, "run \"run\" has a token of its own, and node1 has none; give all nodes"},
        {"k1", "k2",
         "run \"run\" has a token of its own, and node1 has another one; give all nodes"},
        {NULL, "k1",
         "node1 has a --run-token-file, but run \"run\" was begun without one; give it"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        key = rows[i].first;
        begin_as_ada(true, true);
        key = rows[i].next;
        join_other(1001, 7, "train.py", "ada", true);
        CHECK_STR(told[1], rows[i].says ? "close-refused " : "world 0:1/2 ");
        for (int k = 0; rows[i].says && k < 2; k++)
            if (!strstr(why[k], rows[i].says)) /* on both terminals */
                CHECK_STR(why[k], rows[i].says);
        end();
    }
}

/* By its number, by what it says it has, and after the server was started again. */
TEST(nobody_passes_for_a_node_of_a_run_with_a_token)
{
    struct dt_buf record = {0};
    key = "k1";
    begin_running(2, 2, 2);
    key = NULL;
    come_back(1000, false);
    CHECK_STR(told[0], "close-refused ");
    come_back(2001, false); /* another number, and workers in that seat */
    CHECK_STR(told[1], "close-refused ");
    CHECK_EQ(run->members.count, 2);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    forget_told();
    come_back(1000, false);
    CHECK_STR(told[0], "close-refused ");
    forget_told();
    key = "k1";
    come_back(1000, false);
    come_back(1001, false);
    CHECK_STR(told[0], "");
    CHECK_STR(told[1], "");
    CHECK_EQ(run->members.connected, 2);
    dt_buf_finish(&record);
    end();
}

/* The next job of that name is another's. */
TEST(a_token_ends_with_its_job)
{
    key = "k1";
    begin_running(1, 1, 1);
    result(1000, true);
    CHECK_STR(told[0], "close-succeeded ");
    key = NULL;
    last_round[1] = -1;
    join(1001);
    CHECK_STR(told[1], "world 1:0/1 ");
    CHECK_STR(run->key, "");
    end();
}

/* Nobody knows who made the mistake. */
TEST(where_one_of_the_nodes_hosts_all_are_told_of_another_command)
{
    begin(3, 3);
    set_text(spec.script, "train.py");
    set_text(spec.user, "ada");
    join(1000);
    join_other(1001, 8, "wrap.sh", "ada", false);
    join_other(1002, 7, "train.py", "ada", false); /* comes later, and hears of it too */
    for (int i = 0; i < 3; i++) {
        CHECK_ROW("node%d", i);
        CHECK_STR(why[i], "node1 runs wrap.sh as ada, but run \"run\" runs train.py as "
                          "ada; if these are two jobs, give each an --rdzv-id of its own");
    }
    CHECK_STR(told[2], "world 0:2/3 ");
    end();
}

TEST(nodes_of_one_job_that_were_given_two_ids_are_asked_about_it)
{
    static const struct {
        int min, max;
        uint64_t command;
        const char *user, *first_job, *job;
        bool came, one; /* as many as are wanted; it may be the same job */
    } rows[] = {
        {2, 2, 7, "ada", "", "", false, true},    {2, 3, 7, "ada", "", "", false, false},
        {2, 2, 8, "ada", "", "", false, false},   {2, 2, 7, "bob", "", "", false, false},
        {2, 2, 7, "ada", "8", "9", false, false}, {2, 2, 7, "ada", "", "9", false, true},
        {2, 2, 7, "ada", "", "", true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        begin_as_ada(true, false);
        set_text(run->spec.job, rows[i].first_job);
        struct dt_rdzv *first = run, *other = dt_rdzv_create("other", &exclude, 1);
        run = other;
        spec.min_nodes = rows[i].min;
        spec.max_nodes = rows[i].max;
        set_text(spec.job, rows[i].job);
        join_other(1001, rows[i].command, "train.py", rows[i].user, false);
        if (rows[i].came)
            join(1002);
        CHECK_EQ(dt_rdzv_may_be_one(first, other), rows[i].one);
        CHECK_EQ(dt_rdzv_may_be_one(other, first), rows[i].one);
        dt_rdzv_destroy(other);
        run = first;
        end();
    }
}

TEST(who_waits_is_told_of_a_run_that_may_be_its_own)
{
    begin_as_ada(true, false);
    pass(9 * DT_SECOND, 1, 1);
    now += DT_SECOND;
    step(&(struct dt_rdzv_event){.type = DT_EV_TICK, .twin = "17263"});
    CHECK(strstr(why[0],
                 "round 0: 1 of 2 nodes are ready; 590 s left; run \"17263\" waits here too"));
    CHECK(strstr(why[0], "was the same --rdzv-id given on all nodes?"));
    end();
}

TEST(a_job_of_at_least_more_nodes_than_at_most_is_refused)
{
    begin(3, 2);
    join(1000);
    CHECK_STR(told[0], "close-refused ");
    CHECK(!run->begun);
    end();
}
