/* SPDX-License-Identifier: Apache-2.0 */
/* Runs from their first join to their end, and nodes that are lost or refused. */
#include "base/fs.h"
#include "tests/rendezvous/rdzv_three.h"

#include <fcntl.h>

TEST(three_nodes_meet_work_and_succeed)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    three_run(n, "run", st.serving.port);
    for (int i = 0; i < 3; i++) {
        const struct dt_world_message *w = &n[i].heard.world;
        CHECK_EQ(w->seat, i);
        CHECK_EQ(w->seats, 3);
        CHECK_EQ(w->first_rank, 2 * i);
        CHECK_EQ(w->size, 6);
        CHECK_STR(w->master_addr, "node0");
        CHECK_EQ(w->master_port, 29500);
        node_beat(&n[i]);
    }
    CHECK_EQ(counters(&st)->nodes, 3);
    CHECK(st.busy);
    three_succeed(n);
    while (counters(&st)->nodes > 0 || st.busy)
        ;
    stage_close(&st);
}

TEST(runs_do_not_see_each_other)
{
    struct stage st;
    struct node a[3], b[3];
    stage_open(&st, &usual);
    three_run(a, "a", st.serving.port);
    three_enter(b, "b", st.serving.port); /* with the same names and incarnations */
    node_hang_up(&a[1]);
    node_stop(&a[0]);
    node_stop(&a[2]);
    for (int i = 0; i < 3; i++)
        node_run(&b[i]);
    CHECK_EQ(counters(&st)->runs, 2);
    three_succeed(b);
    for (int i = 0; i < 3; i++)
        node_finish(&a[i]);
    stage_close(&st);
}

TEST(a_lost_node_stops_the_others_and_another_takes_its_seat)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    three_run(n, "run", st.serving.port);
    node_hang_up(&n[1]);
    node_stop(&n[0]);
    node_stop(&n[2]);
    node_finish(&n[1]);
    n[1] = node_of("run", "spare", 99, 3);
    node_enter(&n[1], st.serving.port);
    for (int i = 0; i < 3; i++) {
        node_run(&n[i]);
        CHECK_EQ(n[i].heard.world.seat, i);
        CHECK_EQ(n[i].round, 1);
    }
    three_succeed(n);
    stage_close(&st);
}

TEST(who_comes_back_in_time_was_not_lost)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    for (int i = 0; i < 3; i++) {
        n[i] = node_of("run", names[i], (uint64_t)(10 + i), 3);
        n[i].spec.reconnect_grace = 600 * DT_SECOND;
        node_enter(&n[i], st.serving.port);
    }
    for (int i = 0; i < 3; i++)
        node_run(&n[i]);
    node_hang_up(&n[1]);
    node_enter(&n[1], st.serving.port);
    node_beat(&n[1]);
    int old = n[2].fd;
    node_enter(&n[2], st.serving.port); /* while the old connection stands */
    node_beat(&n[2]);
    peer_expect_end(old);
    for (int i = 0; i < 3; i++)
        node_beat(&n[i]); /* nobody was told anything else */
    CHECK_EQ(counters(&st)->nodes, 3);
    three_succeed(n);
    stage_close(&st);
}

TEST(more_runs_and_nodes_than_may_be_are_refused_with_a_sentence)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    config.runs = 2;
    config.nodes = 3;
    stage_open(&st, &config);
    struct node n[4];
    const char *const runs[] = {"a", "b", "c", "a"};
    for (int i = 0; i < 4; i++) {
        n[i] = node_of(runs[i], "node", (uint64_t)(1 + i), 3);
        node_enter(&n[i], st.serving.port);
        if (i != 2) {
            node_beat(&n[i]);
            continue;
        }
        CHECK_EQ(node_hear(&n[i], DT_MSG_CLOSE)->close.kind, DT_CLOSE_REFUSED);
        CHECK(strstr(n[i].heard.why, "--max-runs") != NULL);
    }
    struct node late = node_of("b", "late", 9, 3);
    node_enter(&late, st.serving.port);
    CHECK_EQ(node_hear(&late, DT_MSG_CLOSE)->close.kind, DT_CLOSE_REFUSED);
    CHECK(strstr(late.heard.why, "--max-nodes") != NULL);
    CHECK_EQ(counters(&st)->nodes, 3);
    CHECK_EQ(counters(&st)->runs, 2);
    for (int i = 0; i < 4; i++)
        node_finish(&n[i]);
    node_finish(&late);
    stage_close(&st);
}

TEST(a_node_whose_name_looks_like_an_option_is_refused_with_a_sentence)
{
    struct stage st;
    stage_open(&st, &usual);
    struct node n = node_of("run", "-x", 1, 2);
    node_enter(&n, st.serving.port);
    CHECK_EQ(node_hear(&n, DT_MSG_CLOSE)->close.kind, DT_CLOSE_REFUSED);
    CHECK(strstr(n.heard.why, "begins with \"-\"") != NULL);
    CHECK_EQ(counters(&st)->runs, 0);
    node_finish(&n);
    stage_close(&st);
}

TEST(a_run_is_forgotten_with_its_last_node)
{
    struct stage st;
    stage_open(&st, &usual);
    struct node n = node_of("run", "node0", 1, 2);
    node_enter(&n, st.serving.port);
    node_beat(&n);
    CHECK_EQ(counters(&st)->runs, 1);
    node_hang_up(&n);
    while (counters(&st)->runs > 0)
        ;
    CHECK_EQ(counters(&st)->nodes, 0);
    node_finish(&n);
    stage_close(&st);
}

/* Standard error goes to a file from here on; returns what stderr_back() takes. */
static int stderr_to(const char *path)
{
    int kept = dup(STDERR_FILENO), file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    CHECK(kept >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    close(file);
    return kept;
}

static void stderr_back(int kept)
{
    CHECK(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
}

static int count_lines(const char *path, const char *with)
{
    struct dt_buf text = {0};
    struct dt_err err;
    int count = 0;
    CHECK_OK(dt_fs_read(path, 64u << 20, &text, &err), err);
    for (const char *at = dt_buf_cstr(&text); (at = strstr(at, with)); at++)
        count++;
    dt_buf_finish(&text);
    return count;
}

/* Each JOIN and each LEAVE is worth a line, where they are few; of many, five in a second. */
TEST(who_comes_and_goes_without_end_does_not_fill_the_log)
{
    struct stage st;
    struct node n = node_of("flood", "node0", 1, 2);
    const char *log = at("flood.log");
    int kept = stderr_to(log);
    dt_ms began = dt_clock_monotonic();
    stage_open(&st, &usual);
    node_greet(&n, st.serving.port);
    for (int i = 0; i < 5000; i++) {
        struct dt_message leave = node_message(&n, DT_MSG_LEAVE);
        node_join(&n);
        leave.why = "it was not meant";
        node_send(&n, &leave);
    }
    node_join(&n);
    node_beat(&n); /* all of it was heard */
    stderr_back(kept);
    CHECK(count_lines(log, "run flood: ") <= 500 + (dt_clock_monotonic() - began) / 200 + 1);
    node_finish(&n);
    stage_close(&st);
}

TEST(the_store_is_served_beside_it)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    int client = peer_greet(st.serving.port);
    peer_set(client, "k", "v");
    three_run(n, "run", st.serving.port);
    peer_get(client, "k", "v");
    peer_num_keys(client, 1); /* the control state is none of the store's */
    close(client);
    three_succeed(n);
    stage_close(&st);
}
