/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of several nodes, each a dtrun of its own: on one loopback, and in network namespaces with a
 * cable between them that can be pulled. */
#include "tests/lib/cable.h"
#include "tests/lib/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER
#define NODE(rank, nodes, addr, port)                                                              \
    "OMP_NUM_THREADS=1", "LOGLEVEL=INFO", "--nnodes", nodes, "--node-rank", rank, "--master-addr", \
        addr, "--master-port", port
#define HERE "127.0.0.1"
/* Seconds in which whoever is under way is there, on a busy machine too. */
#define LONG_ENOUGH "6"
/* By it a test sees that a node is through with its workers and on its way to the barrier. */
#define EVENTS "--event-log-handler", "console"
#define AT_BARRIER "torchelastic.worker.status.SUCCEEDED\", \"source\": \"WORKER\""

struct file {
    char dir[64], path[96], await[128], touch[128];
};

static void file_make(struct file *f)
{
    snprintf(f->path, sizeof f->path, "%s/go", tmp_make(f->dir));
    snprintf(f->await, sizeof f->await, "await:%s", f->path);
    snprintf(f->touch, sizeof f->touch, "touch:%s", f->path);
}

static void file_touch(const struct file *f)
{
    int fd = open(f->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
}

static void check_lines(struct job *j, int count, const char *const *lines)
{
    CHECK_EQ(count_words(job_out(j), "\n"), count);
    for (int i = 0; i < count; i++) {
        CHECK_ROW("%s", lines[i]);
        CHECK(strstr(job_out(j), lines[i]) != NULL);
    }
}

/* -- one loopback ----------------------------------------------------------------------------- */

TEST(uneven_nodes_with_roles_started_in_any_order_have_their_ranks)
{
    struct job a, b, c;
    char port[8];
    free_port(port);
    JOB_START(&b, NODE("1", "3", HERE, port), "--nproc-per-node", "3", "--role", "eval", NO_PYTHON,
              "place");
    CHECK(job_says(&b, JOB_ERR, "joining"));
    JOB_START(&c, NODE("2", "3", HERE, port), NO_PYTHON, "place");
    JOB_START(&a, NODE("0", "3", HERE, port), "--nproc-per-node", "2", NO_PYTHON, "place");
    CHECK_EQ(job_wait(&a), 0);
    CHECK_EQ(job_wait(&b), 0);
    CHECK_EQ(job_wait(&c), 0);
    check_lines(&a, 2,
                (const char *[]){"rank 0/6 role 0/3 default node 0/3 local 0/2\n",
                                 "rank 1/6 role 1/3 default node 0/3 local 1/2\n"});
    check_lines(&b, 3,
                (const char *[]){"rank 2/6 role 0/3 eval node 1/3 local 0/3\n",
                                 "rank 3/6 role 1/3 eval node 1/3 local 1/3\n",
                                 "rank 4/6 role 2/3 eval node 1/3 local 2/3\n"});
    check_lines(&c, 1, (const char *[]){"rank 5/6 role 2/3 default node 2/3 local 0/1\n"});
    job_finish(&a);
    job_finish(&b);
    job_finish(&c);
}

/* What J says of a hang, up to the end of the line. */
static const char *hang_of(struct job *j, char out[1024])
{
    CHECK(job_says(j, JOB_ERR, "what each worker does is in "));
    const char *at = strstr(job_err(j), "the job has stood still for ");
    CHECK(at != NULL);
    snprintf(out, 1024, "%.*s", (int)strcspn(at, "\n"), at);
    CHECK_EQ(count_words(job_err(j), "the job has stood still for "), 1);
    return out;
}

static pid_t pid_of(struct job *j)
{
    CHECK(job_says(j, JOB_OUT, "\n"));
    return atoi(job_out(j));
}

TEST(a_hang_is_found_by_all_nodes_together_and_each_says_the_same)
{
    struct job j[3];
    char port[8], rank[3][2] = {"0", "1", "2"}, said[3][1024];
    free_port(port);
    for (int i = 0; i < 3; i++)
        JOB_START(&j[i], NODE(rank[i], "3", HERE, port), "--hang-after", "1", "--nproc-per-node",
                  "2", NO_PYTHON, "rank:3:pid", "rank:3:stop", "hang");
    for (int i = 0; i < 3; i++)
        CHECK(strstr(hang_of(&j[i], said[i]), ": rank 3 is stopped") != NULL);
    CHECK_STR(said[0], said[1]);
    CHECK_STR(said[0], said[2]);
    CHECK(strstr(said[0], "ranks 0 to 2, 4 and 5 ") != NULL);
    kill(pid_of(&j[1]), SIGCONT);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(job_stop(&j[i], SIGTERM), 1);
    for (int i = 0; i < 3; i++)
        job_finish(&j[i]);
}

/* Its workers have left, and the other node's wait for them. */
TEST(a_node_that_is_through_takes_part_in_what_is_found_of_a_hang)
{
    struct job a, b;
    char port[8], said[1024];
    free_port(port);
    JOB_START(&b, NODE("1", "2", HERE, port), NO_PYTHON, "place");
    JOB_START(&a, NODE("0", "2", HERE, port), "--hang-after", "1", NO_PYTHON, "hang");
    CHECK(strstr(hang_of(&a, said), ": rank 1 has left") != NULL);
    CHECK(job_says(&b, JOB_ERR, said));
    CHECK_EQ(job_stop(&a, SIGTERM), 1);
    job_stop(&b, SIGTERM);
    job_finish(&a);
    job_finish(&b);
}

TEST(a_node_that_never_comes_is_named_and_the_end_of_the_host_is_everybodys)
{
    struct job a, b;
    char port[8];
    free_port(port);
    JOB_START(&b, NODE("1", "3", HERE, port), "--rdzv-conf", "timeout=60", NO_PYTHON);
    CHECK(job_says(&b, JOB_ERR, "joining"));
    JOB_START(&a, NODE("0", "3", HERE, port), "--rdzv-conf", "timeout=" LONG_ENOUGH, NO_PYTHON);
    CHECK_EQ(job_wait(&a), 1);
    CHECK(strstr(job_err(&a), "node 2 of 3 never came to " HERE) != NULL);
    /* The host's end is the other's at once, not after its own 60 s. */
    CHECK_EQ(job_wait(&b), 1);
    CHECK(strstr(job_err(&b), "node 0 went away while this node waited") != NULL);
    job_finish(&a);
    job_finish(&b);
}

/* A node that waits for its ranks does so on a second connection to the store. */
TEST(a_host_that_is_killed_while_nodes_are_waited_for_ends_those_that_came)
{
    struct job a, b;
    char port[8];
    free_port(port);
    JOB_START(&a, NODE("0", "3", HERE, port), "--log-level", "debug", NO_PYTHON);
    JOB_START(&b, NODE("1", "3", HERE, port), NO_PYTHON, "line:a worker ran");
    CHECK(job_says_times(&a, JOB_ERR, " connected\n", 4));
    CHECK_EQ(job_stop(&a, SIGKILL), 128 + SIGKILL);
    CHECK_EQ(job_wait(&b), 1);
    CHECK(strstr(job_err(&b), "node 0 went away while this node waited for the others") != NULL);
    CHECK_STR(job_out(&b), "");
    job_finish(&a);
    job_finish(&b);
}

TEST(two_nodes_of_one_rank_are_told)
{
    struct job a, b[2];
    char port[8];
    free_port(port);
    for (int i = 0; i < 2; i++)
        JOB_START(&b[i], NODE("1", "3", HERE, port), NO_PYTHON);
    for (int i = 0; i < 2; i++)
        CHECK(job_says(&b[i], JOB_ERR, "joining"));
    JOB_START(&a, NODE("0", "3", HERE, port), "--rdzv-conf", "timeout=" LONG_ENOUGH, NO_PYTHON);
    CHECK_EQ(job_wait(&a), 1);
    CHECK(strstr(job_err(&a), "node 2 of 3 never came to ") != NULL);
    CHECK(strstr(job_err(&a), "although 3 agents did; has each its own --node-rank?") != NULL);
    job_finish(&a);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(job_wait(&b[i]), 1);
        job_finish(&b[i]);
    }
}

/* Whoever is wrong, the job would not be what either of them was told. */
TEST(nodes_that_were_told_different_numbers_of_nodes_say_so)
{
    static const struct {
        const char *nodes[2], *says; /* what each of the two says */
    } rows[] = {
        {{"2", "3"}, "node 0 was started with --nnodes 2 and node 1 with --nnodes 3"},
        {{"3", "2"}, "node 0 was started with --nnodes 3 and node 1 with --nnodes 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job a, b;
        char port[8];
        CHECK_ROW("%s", rows[i].says);
        free_port(port);
        JOB_START(&a, NODE("0", rows[i].nodes[0], HERE, port), NO_PYTHON, "line:ran");
        CHECK(job_says(&a, JOB_ERR, "joining at"));
        JOB_START(&b, NODE("1", rows[i].nodes[1], HERE, port), NO_PYTHON, "line:ran");
        CHECK_EQ(job_wait(&a), 1);
        CHECK_EQ(job_wait(&b), 1);
        CHECK(strstr(job_err(&a), rows[i].says));
        CHECK(strstr(job_err(&b), rows[i].says));
        CHECK_STR(job_out(&a), "");
        CHECK_STR(job_out(&b), "");
        job_finish(&a);
        job_finish(&b);
    }
}

/* It is told when it has waited for a while. */
TEST(a_c10d_node_at_the_port_of_a_static_job_hears_what_is_there)
{
    struct job a, b;
    char port[8], endpoint[32];
    snprintf(endpoint, sizeof endpoint, HERE ":%s", free_port(port));
    JOB_START(&a, NODE("0", "2", HERE, port), NO_PYTHON, "line:ran");
    CHECK(job_says(&a, JOB_ERR, "joining at"));
    JOB_START(&b, "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint,
              "--rdzv-conf", "is_host=false", NO_PYTHON, "line:ran");
    CHECK(job_says(&b, JOB_ERR, "job \"none\" at 127.0.0.1:"));
    CHECK(strstr(job_err(&b), " is a static one; give all its nodes the same --rdzv-backend"));
    job_stop(&a, SIGTERM);
    job_stop(&b, SIGTERM);
    job_finish(&a);
    job_finish(&b);
}

/* Nobody could come, or no worker could meet, and one would wait without a word why. */
TEST(a_name_of_this_node_that_is_not_known_here_is_said)
{
    struct job j;
    char port[8];
    free_port(port);
    JOB_START(&j, NODE("0", "2", "nosuch..invalid", port), NO_PYTHON, "line:ran");
    CHECK(
        job_says(&j, JOB_ERR, "--master-addr: this host itself does not know \"nosuch..invalid\""));
    job_stop(&j, SIGTERM);
    job_finish(&j);
    JOB_START(&j, "--local-addr", "nosuch..invalid", NO_PYTHON, "hang");
    CHECK(
        job_says(&j, JOB_ERR, "--local-addr: this host itself does not know \"nosuch..invalid\""));
    job_stop(&j, SIGTERM);
    job_finish(&j);
}

/* Node 0 does not look for it, as it has all its nodes. */
TEST(a_node_beyond_those_of_node_0_says_so_at_once)
{
    struct job a, b, c;
    struct file f;
    char port[8];
    free_port(port);
    file_make(&f);
    JOB_START(&a, NODE("0", "2", HERE, port), NO_PYTHON, f.await);
    JOB_START(&b, NODE("1", "2", HERE, port), NO_PYTHON, f.await);
    JOB_START(&c, NODE("2", "3", HERE, port), NO_PYTHON, "line:ran");
    CHECK_EQ(job_wait(&c), 1);
    CHECK(strstr(job_err(&c), "with --nnodes 2 and node 2 with --nnodes 3"));
    file_touch(&f);
    CHECK_EQ(job_wait(&a), 0);
    CHECK_EQ(job_wait(&b), 0);
    job_finish(&a);
    job_finish(&b);
    job_finish(&c);
    tmp_remove(f.dir);
}

TEST(a_node_whose_workers_fail_starts_them_again_and_the_other_runs_on)
{
    struct job a, b;
    struct file f;
    char port[8];
    free_port(port);
    file_make(&f);
    JOB_START(&a, NODE("0", "2", HERE, port), "--max-restarts", "3", NO_PYTHON, "line:up", f.await,
              "place");
    JOB_START(&b, NODE("1", "2", HERE, port), "--max-restarts", "3", NO_PYTHON, "line:up",
              "fail-below:2", "place", f.touch);
    CHECK_EQ(job_wait(&a), 0);
    CHECK_EQ(job_wait(&b), 0);
    CHECK_STR(job_out(&a), "up\nrank 0/2 role 0/2 default node 0/2 local 0/1\n");
    CHECK_STR(job_out(&b), "up\nup\nup\nrank 1/2 role 1/2 default node 1/2 local 0/1\n");
    CHECK_EQ(count_words(job_err(&b), "; restart "), 2);
    CHECK_EQ(count_words(job_err(&a), "; restart "), 0);
    job_finish(&a);
    job_finish(&b);
    tmp_remove(f.dir);
}

TEST(who_is_done_early_waits_for_the_late_and_the_host_leaves_last)
{
    for (int early = 0; early < 2; early++) {
        struct job j[2];
        struct file f;
        char port[8];
        CHECK_ROW("node %d is early", early);
        free_port(port);
        file_make(&f);
        for (int i = 0; i < 2; i++)
            JOB_START(&j[i], NODE(i ? "1" : "0", "2", HERE, port), EVENTS, NO_PYTHON,
                      i == early ? "line:early" : f.await);
        CHECK(job_says(&j[early], JOB_ERR, AT_BARRIER));
        file_touch(&f);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(job_wait(&j[i]), 0);
            CHECK(strstr(job_err(&j[i]), " warn: ") == NULL);
            CHECK(strstr(job_err(&j[i]), " error: ") == NULL);
            job_finish(&j[i]);
        }
        tmp_remove(f.dir);
    }
}

TEST(a_signal_in_the_barrier_acts_at_once)
{
    for (int early = 0; early < 2; early++) {
        struct job j[2];
        char port[8];
        CHECK_ROW("node %d is early", early);
        free_port(port);
        for (int i = 0; i < 2; i++)
            JOB_START(&j[i], NODE(i ? "1" : "0", "2", HERE, port), EVENTS, "--exit-barrier-timeout",
                      "1000", NO_PYTHON, "line:up", i == early ? "exit:0" : "hang");
        CHECK(job_says(&j[early], JOB_ERR, AT_BARRIER));
        CHECK(job_says(&j[!early], JOB_OUT, "up\n")); /* it has no need of node 0 any more */
        CHECK_EQ(job_stop(&j[early], SIGTERM), 1);
        CHECK(strstr(job_err(&j[early]), "got signal: 15") != NULL);
        CHECK_EQ(job_stop(&j[!early], SIGTERM), 1);
        job_finish(&j[0]);
        job_finish(&j[1]);
    }
}

static int open_pid(struct job *j)
{
    CHECK(job_says_lines(j, 1));
    int fd = (int)syscall(SYS_pidfd_open, atoi(job_out(j)), 0);
    CHECK(fd >= 0);
    return fd;
}

static bool ends(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    bool is = poll(&p, 1, 60000) == 1;
    close(pidfd);
    return is;
}

TEST(a_node_that_is_killed_leaves_nothing_and_the_others_wait_no_longer_than_told)
{
    for (int dead = 0; dead < 2; dead++) {
        struct job j[2];
        char port[8];
        CHECK_ROW("node %d is killed", dead);
        free_port(port);
        for (int i = 0; i < 2; i++)
            JOB_START(&j[i], NODE(i ? "1" : "0", "2", HERE, port), EVENTS, "--exit-barrier-timeout",
                      "1", NO_PYTHON, "ignore:15", "pid", i == dead ? "hang" : "exit:0");
        int pidfd = open_pid(&j[dead]);
        CHECK(job_says(&j[!dead], JOB_ERR, AT_BARRIER));
        CHECK_EQ(job_stop(&j[dead], SIGKILL), 128 + SIGKILL);
        CHECK(ends(pidfd));
        CHECK_EQ(job_wait(&j[!dead]), 0);
        CHECK(strstr(job_err(&j[!dead]), "not waiting for the other nodes to finish: ") != NULL);
        job_finish(&j[0]);
        job_finish(&j[1]);
    }
}

TEST(a_node_that_fails_says_so_and_the_other_is_not_kept)
{
    struct job a, b;
    struct file f;
    char port[8];
    free_port(port);
    file_make(&f);
    JOB_START(&a, NODE("0", "2", HERE, port), "--exit-barrier-timeout", "1", NO_PYTHON, f.await);
    JOB_START(&b, NODE("1", "2", HERE, port), NO_PYTHON, f.touch, "exit:3");
    CHECK_EQ(job_wait(&b), 1);
    CHECK(strstr(job_err(&b), "\n  rank      : 1 (local_rank: 0)\n") != NULL);
    CHECK_EQ(job_wait(&a), 0);
    job_finish(&a);
    job_finish(&b);
    tmp_remove(f.dir);
}

/* -- two hosts and a cable -------------------------------------------------------------------- */

TEST(two_hosts_meet_over_the_network)
{
    struct cable c;
    struct job a, b;
    cable_make(&c);
    START_ON(&c, 1, &b, NODE("1", "2", ADDR_0, "29500"), "--nproc-per-node", "2", NO_PYTHON,
             "place");
    job_says(&b, JOB_ERR, "joining");
    START_ON(&c, 0, &a, NODE("0", "2", ADDR_0, "29500"), NO_PYTHON, "place");
    int ends_with[2] = {job_wait(&a), job_wait(&b)};
    cable_remove(&c);
    CHECK_EQ(ends_with[0], 0);
    CHECK_EQ(ends_with[1], 0);
    CHECK_STR(job_out(&a), "rank 0/3 role 0/3 default node 0/2 local 0/1\n");
    CHECK(strstr(job_out(&b), "rank 1/3 role 1/3 default node 1/2 local 0/2\n") != NULL);
    CHECK(strstr(job_out(&b), "rank 2/3 role 2/3 default node 1/2 local 1/2\n") != NULL);
    job_finish(&a);
    job_finish(&b);
}

TEST(a_cable_that_is_out_from_the_start_is_told_by_both)
{
    struct cable c;
    struct job a, b;
    cable_make(&c);
    cable_pull(&c);
    START_ON(&c, 0, &a, NODE("0", "2", ADDR_0, "29500"), "--rdzv-conf", "timeout=1", NO_PYTHON,
             "line:a worker ran");
    START_ON(&c, 1, &b, NODE("1", "2", ADDR_0, "29500"), "--rdzv-conf", "timeout=1", NO_PYTHON,
             "line:a worker ran");
    int ends_with[2] = {job_wait(&a), job_wait(&b)};
    cable_remove(&c);
    CHECK_EQ(ends_with[0], 1);
    CHECK_EQ(ends_with[1], 1);
    CHECK(strstr(job_err(&a), "waited 1 s for the other nodes: node 1 of 2 never came to " ADDR_0
                              ":29500") != NULL);
    CHECK(strstr(job_err(&b), "this node, 1 of 2, could not reach node 0") != NULL);
    CHECK(strstr(job_err(&b), "network") != NULL);
    CHECK_STR(job_out(&a), "");
    CHECK_STR(job_out(&b), "");
    job_finish(&a);
    job_finish(&b);
}

TEST(a_cable_that_is_pulled_in_the_barrier_costs_the_time_of_the_barrier_and_no_more)
{
    struct cable c;
    struct job a, b;
    struct file up, go;
    cable_make(&c);
    file_make(&up);
    file_make(&go);
    START_ON(&c, 0, &a, NODE("0", "2", ADDR_0, "29500"), EVENTS, "--exit-barrier-timeout", "1",
             NO_PYTHON, up.await);
    START_ON(&c, 1, &b, NODE("1", "2", ADDR_0, "29500"), EVENTS, "--exit-barrier-timeout", "1",
             NO_PYTHON, up.touch, go.await);
    bool in_barrier = job_says(&a, JOB_ERR, AT_BARRIER);
    cable_pull(&c);
    file_touch(&go);
    int ends_with[2] = {job_wait(&a), job_wait(&b)};
    cable_remove(&c);
    tmp_remove(up.dir);
    tmp_remove(go.dir);
    CHECK(in_barrier);
    CHECK_EQ(ends_with[0], 0);
    CHECK_EQ(ends_with[1], 0);
    CHECK(strstr(job_err(&a), "waited 1 s for the other nodes to finish") != NULL);
    CHECK(strstr(job_err(&b), "not waiting for the other nodes to finish: ") != NULL);
    job_finish(&a);
    job_finish(&b);
}
