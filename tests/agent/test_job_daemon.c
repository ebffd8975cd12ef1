/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs whose nodes meet at a dtrun-rendezvous, each node a dtrun of its own on this machine. */
#include "rendezvous/protocol/proof.h"
#include "tests/lib/cable.h"
#include "tests/lib/daemon.h"
#include "tests/lib/folder.h"
#include "tests/lib/job.h"
#include "tests/lib/port.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PROGRAM getenv("DT_RENDEZVOUS")
#define WORKER "--no-python", getenv("DT_MISBEHAVE")
#define NODE(nodes, endpoint)                                                                      \
    "OMP_NUM_THREADS=1", "--nnodes", nodes, "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint

BEFORE_ALL
{
    folder_make();
}

/* Where a daemon is to listen, so that a second one can take its place. */
static const char *free_endpoint(char out[32])
{
    snprintf(out, 32, "127.0.0.1:%d", port_take());
    return out;
}

static void write_secret(const char *path, const char *secret)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK(fputs(secret, f) >= 0);
    CHECK_EQ(fclose(f), 0);
    CHECK_EQ(chmod(path, 0600), 0);
}

static void daemon_kill(struct daemon_process *d)
{
    kill(d->pid, SIGKILL);
    daemon_wait(d);
    daemon_stop(d);
}

/* -- whose job it is -------------------------------------------------------------------------- */

TEST(another_command_under_the_same_name_is_refused_by_a_daemon)
{
    struct daemon_process d;
    struct job a, b;
    char endpoint[32];
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    JOB_START(&a, NODE("2", endpoint), WORKER, "line:runs", "hang");
    CHECK(daemon_log_has(&d, "came: 1 of 2"));
    CHECK_EQ(JOB(&b, NODE("2", endpoint), "--no-python", "/bin/true"), 1);
    CHECK(strstr(job_err(&b), "runs /bin/true as "));
    CHECK(strstr(job_err(&b), ", but run \"none\" runs "));
    CHECK(strstr(job_err(&b), "misbehave as "));
    CHECK(strstr(job_err(&b), "give each job an --rdzv-id of its own"));
    CHECK(job_says(&a, JOB_ERR, "the rendezvous refused a node: "));
    CHECK(strstr(job_err(&a), "runs /bin/true as "));
    CHECK(strstr(job_err(&a), "give each job an --rdzv-id of its own"));
    job_finish(&b);
    CHECK_EQ(JOB(&b, NODE("1:2", endpoint), "--rdzv-id", "b", "--rdzv-conf", "last_call_timeout=1",
                 "--no-python", "/bin/true"),
             0);
    job_finish(&b);
    job_stop(&a, SIGTERM);
    job_finish(&a);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* Two people's batch scripts without an --rdzv-id; none of them is in the way of the other. */
TEST(jobs_of_a_scheduler_that_nobody_named_meet_under_its_ids_of_them)
{
    struct daemon_process d;
    struct job jobs[4];
    char endpoint[32];
    static const char *const ids[] = {"SLURM_JOB_ID=17", "SLURM_JOB_ID=18"};
    static const char *const programs[] = {"/bin/true", "/bin/echo"};
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    for (size_t i = 0; i < 4; i++)
        JOB_START(&jobs[i], ids[i % 2], NODE("2", endpoint), "--log-level", "info", "--no-python",
                  programs[i % 2]);
    for (size_t i = 0; i < 4; i++) {
        CHECK_ROW("%zu", i);
        CHECK_EQ(job_wait(&jobs[i]), 0);
        CHECK(strstr(job_err(&jobs[i]), i % 2 ? "the job is run slurm-18, after SLURM_JOB_ID"
                                              : "the job is run slurm-17, after SLURM_JOB_ID"));
        job_finish(&jobs[i]);
    }
    CHECK(daemon_log_has(&d, "run slurm-17: "));
    CHECK(daemon_log_has(&d, "run slurm-18: "));
    CHECK_EQ(daemon_log_count(&d, "run none: "), 0);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(old_scripts_may_share_a_run_that_nobody_named)
{
    struct daemon_process d;
    struct job a, b;
    char endpoint[32];
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint, "--share-default-id");
    JOB_START(&a, "SLURM_JOB_ID=17", NODE("2", endpoint), "--no-python", "/bin/true");
    CHECK(daemon_log_has(&d, "run none: "));
    CHECK_EQ(JOB(&b, NODE("2", endpoint), "--no-python", "/bin/echo"), 0);
    CHECK_EQ(job_wait(&a), 0);
    CHECK(strstr(job_err(&a), "if these are two jobs, give each an --rdzv-id of its own"));
    CHECK(strstr(job_err(&b), "if these are two jobs, give each an --rdzv-id of its own"));
    job_finish(&a);
    job_finish(&b);
    JOB_START(&a, NODE("2", endpoint), "--rdzv-id", "named", WORKER, "hang");
    CHECK(daemon_log_has(&d, "run named: "));
    CHECK_EQ(JOB(&b, NODE("2", endpoint), "--rdzv-id", "named", "--no-python", "/bin/true"), 1);
    job_stop(&a, SIGTERM);
    job_finish(&a);
    job_finish(&b);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_job_may_be_meant_to_have_different_commands)
{
    struct daemon_process d;
    struct job a, b;
    char endpoint[32];
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    JOB_START(&a, NODE("2", endpoint), "--allow-mixed-nodes", WORKER, "line:runs");
    CHECK(daemon_log_has(&d, "came: 1 of 2"));
    CHECK_EQ(JOB(&b, NODE("2", endpoint), "--allow-mixed-nodes", "--no-python", "/bin/true"), 0);
    CHECK_EQ(job_wait(&a), 0);
    CHECK_STR(job_err(&b), "");
    job_finish(&a);
    job_finish(&b);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* As where each node makes up an id of its own. They are told when they have waited for a while. */
TEST(nodes_with_different_ids_hear_of_each_other)
{
    struct daemon_process d;
    struct job a, b;
    char endpoint[32];
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    JOB_START(&a, NODE("2", endpoint), "--rdzv-id", "17263", WORKER);
    JOB_START(&b, NODE("2", endpoint), "--rdzv-id", "9041", WORKER);
    CHECK(job_says(&a, JOB_ERR, "run \"9041\" waits here too"));
    CHECK(job_says(&b, JOB_ERR, "run \"17263\" waits here too"));
    job_stop(&a, SIGTERM);
    job_stop(&b, SIGTERM);
    job_finish(&a);
    job_finish(&b);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* -- jobs of one node ------------------------------------------------------------------------- */

static void start_standby(struct job *j, const char *endpoint)
{
    JOB_START(j, NODE("1", endpoint), "--rdzv-id", "one", WORKER, "line:runs too");
    CHECK(job_says(j, JOB_ERR, "stands by as a spare"));
}

/* As with torchrun, though there the second node fails where the first took the store away. */
TEST(a_second_node_of_a_job_of_one_waits_until_the_first_is_done)
{
    static const bool hosted[] = {false, true};
    for (size_t i = 0; i < sizeof hosted / sizeof *hosted; i++) {
        CHECK_ROW("hosted by an agent: %d", hosted[i]);
        struct daemon_process d;
        struct job a, b;
        char endpoint[32], await[300];
        snprintf(await, sizeof await, "await:%s%zu", at("go"), i);
        free_endpoint(endpoint);
        if (!hosted[i])
            DAEMON_START(&d, PROGRAM, "--listen", endpoint);
        JOB_START(&a, NODE("1", endpoint), "--rdzv-id", "one", WORKER, "line:runs", await);
        CHECK(job_says(&a, JOB_OUT, "runs"));
        start_standby(&b, endpoint);
        fclose(fopen(await + strlen("await:"), "w"));
        CHECK_EQ(job_wait(&a), 0);
        CHECK_EQ(job_wait(&b), 0);
        CHECK_STR(job_out(&b), "");
        job_finish(&a);
        job_finish(&b);
        if (!hosted[i])
            CHECK_EQ(daemon_stop(&d), 0);
    }
}

TEST(a_second_node_of_a_job_of_one_takes_the_place_of_the_first)
{
    struct daemon_process d;
    struct job a, b;
    char endpoint[32];
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    JOB_START(&a, NODE("1", endpoint), "--rdzv-id", "one", WORKER, "line:runs", "hang");
    CHECK(job_says(&a, JOB_OUT, "runs"));
    start_standby(&b, endpoint);
    job_stop(&a, SIGKILL);
    CHECK_EQ(job_wait(&b), 0);
    CHECK_STR(job_out(&b), "runs too\n");
    job_finish(&a);
    job_finish(&b);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* -- a host that calls itself localhost ------------------------------------------------------- */

/* As with torchrun, which serves on every address and tells the name of the host. */
TEST(localhost_as_the_endpoint_is_an_address_that_others_reach)
{
    static const bool hosted[] = {true, false};
    for (size_t i = 0; i < sizeof hosted / sizeof *hosted; i++) {
        CHECK_ROW("hosted by an agent: %d", hosted[i]);
        struct cable c;
        struct daemon_process d;
        struct job a, b;
        cable_make(&c);
        if (!hosted[i])
            DAEMON_START(&d, "/usr/bin/env", "ip", "netns", "exec", c.names[0], PROGRAM, "--listen",
                         "*:29400");
        START_ON(&c, 0, &a, NODE("2", "localhost:29400"), "--node-rank", "0", WORKER, "env");
        START_ON(&c, 1, &b, NODE("2", ADDR_0 ":29400"), "--node-rank", "1", WORKER, "env");
        int ends_with[2] = {job_wait(&a), job_wait(&b)};
        if (!hosted[i])
            daemon_stop(&d);
        cable_remove(&c);
        CHECK_EQ(ends_with[0], 0);
        CHECK_EQ(ends_with[1], 0);
        CHECK(strstr(job_out(&a), "MASTER_ADDR=" ADDR_0 "\n"));
        CHECK(strstr(job_out(&b), "MASTER_ADDR=" ADDR_0 "\n"));
        job_finish(&a);
        job_finish(&b);
    }
}

/* -- a daemon that is replaced ---------------------------------------------------------------- */

/* The first has the port for a while, and is not the daemon of this job. */
TEST(who_takes_the_port_of_a_daemon_that_is_away_ends_no_job)
{
    struct dt_err err;
    struct daemon_process d;
    struct job j;
    char endpoint[32], ours[300], other[300];
    if (!dt_proof_open(&err))
        SKIP("%s", err.text);
    write_secret(strcpy(ours, at("ours")), "open sesame");
    write_secret(strcpy(other, at("other")), "open barley");
    const struct {
        const char *option, *value, *says;
    } rows[] = {
        {"--token-file", other, "token is not that of this server"},
        {"--max-connections", "100", "asks for no token"},
    };
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint, "--token-file", ours);
    JOB_START(&j, NODE("1:2", endpoint), "--rdzv-conf", "last_call_timeout=1", "--token-file", ours,
              WORKER, "line:runs", "hang");
    CHECK(job_says(&j, JOB_OUT, "runs"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].says);
        daemon_kill(&d);
        DAEMON_START(&d, PROGRAM, "--listen", endpoint, rows[i].option, rows[i].value);
        CHECK(job_says(&j, JOB_ERR, rows[i].says));
    }
    daemon_kill(&d);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint, "--token-file", ours);
    CHECK(job_says(&j, JOB_ERR, "takes this node again"));
    CHECK_EQ(count_words(job_out(&j), "runs"), 1);
    job_stop(&j, SIGTERM);
    job_finish(&j);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_daemon_that_comes_back_and_may_have_fewer_runs_ends_no_job)
{
    struct daemon_process d;
    struct job a, b;
    char endpoint[32];
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    JOB_START(&a, NODE("1:2", endpoint), "--rdzv-id", "a", "--rdzv-conf", "last_call_timeout=1",
              WORKER, "line:runs", "hang");
    JOB_START(&b, NODE("1:2", endpoint), "--rdzv-id", "b", "--rdzv-conf", "last_call_timeout=1",
              WORKER, "line:runs", "hang");
    CHECK(job_says(&a, JOB_OUT, "runs"));
    CHECK(job_says(&b, JOB_OUT, "runs"));
    daemon_kill(&d);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint, "--max-runs", "1");
    CHECK(daemon_log_has(&d, "raise its --max-runs"));
    struct job *late = daemon_log_count(&d, "run b: learnt from") ? &a : &b;
    CHECK(job_says(late, JOB_ERR, "raise its --max-runs"));
    daemon_kill(&d);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    CHECK(daemon_log_has(&d, "run a: learnt from"));
    CHECK(daemon_log_has(&d, "run b: learnt from"));
    CHECK_EQ(count_words(job_out(&a), "runs") + count_words(job_out(&b), "runs"), 2);
    job_stop(&a, SIGTERM);
    job_stop(&b, SIGTERM);
    job_finish(&a);
    job_finish(&b);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* -- what people ask -------------------------------------------------------------------------- */

/* A dtrun-ctl behind PREFIX, that may be long in answering. */
static FILE *ctl_start(const char *prefix, const char *endpoint, const char *words)
{
    char command[1024];
    snprintf(command, sizeof command, "exec %s \"$DT_CTL\" --endpoint %s %s 2>&1", prefix, endpoint,
             words);
    FILE *f = popen(command, "r");
    CHECK(f != NULL);
    return f;
}

/* Its exit status; OUT has all that it said. */
static int ctl_end(FILE *f, struct dt_buf *out)
{
    dt_buf_clear(out);
    for (int c; (c = fgetc(f)) != EOF;)
        dt_buf_put_u8(out, (uint8_t)c);
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs dtrun-ctl behind PREFIX; its exit status. */
static int ctl_as(const char *prefix, const char *endpoint, const char *words, struct dt_buf *out)
{
    return ctl_end(ctl_start(prefix, endpoint, words), out);
}

static void ctl(const char *endpoint, const char *words, struct dt_buf *out)
{
    CHECK_EQ(ctl_as("", endpoint, words, out), 0);
}

/* The workers may be seen on their way there. */
TEST(a_person_asks_in_which_function_of_c_code_workers_are)
{
    const char *wanted = DT_TEST_LIBDW ? "ranks 0 and 1: hang (waits in the kernel: pause)\n"
                                       : ", no calls of C code: dtrun: --native takes libdw";
    struct daemon_process d;
    struct job a;
    struct dt_buf out = {0};
    char endpoint[32];
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    JOB_START(&a, NODE("1", endpoint), "--rdzv-id", "one", "--nproc-per-node", "2", WORKER,
              "line:runs", "hang");
    CHECK(job_says_times(&a, JOB_OUT, "runs", 2));
    do
        ctl(endpoint, "look one --native", &out);
    while (!strstr(dt_buf_cstr(&out), wanted));
    ctl(endpoint, "look one --native --json", &out);
    CHECK(strstr(dt_buf_cstr(&out), DT_TEST_LIBDW ? "\"function\":\"hang\"" : "libdw") != NULL);
    job_stop(&a, SIGTERM);
    job_finish(&a);
    dt_buf_finish(&out);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_person_ends_a_job_on_all_its_nodes)
{
    struct daemon_process d;
    struct job jobs[2];
    struct dt_buf out = {0};
    char endpoint[32];
    static const char *const exit_codes[] = {"torchrun", "root-cause"};
    static const int statuses[] = {1, 128 + SIGTERM};
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    for (int i = 0; i < 2; i++)
        JOB_START(&jobs[i], NODE("2", endpoint), "--rdzv-id", "one", "--exit-code", exit_codes[i],
                  WORKER, "line:runs", "hang");
    for (int i = 0; i < 2; i++)
        CHECK(job_says(&jobs[i], JOB_OUT, "runs"));
    CHECK_EQ(ctl_as("", endpoint, "run wait one --timeout 100ms", &out), 124);
    CHECK_STR(dt_buf_cstr(&out), "dtrun-ctl: run one has not ended within 100 ms\n");
    FILE *waits = ctl_start("", endpoint, "run wait one --json");
    ctl(endpoint, "run stop one --why 'a demo'", &out);
    CHECK_STR(dt_buf_cstr(&out), "run one ends on 2 nodes, when its workers are gone\n");
    for (int i = 0; i < 2; i++) {
        CHECK_ROW("%s", exit_codes[i]);
        CHECK_EQ(job_wait(&jobs[i]), statuses[i]);
        CHECK(strstr(job_err(&jobs[i]), "round 0 is over: the job is stopped (by "));
        CHECK(strstr(job_err(&jobs[i]), "the job is over: the job is stopped (by "));
        CHECK(strstr(job_err(&jobs[i]), ": a demo)\n"));
        job_finish(&jobs[i]);
    }
    CHECK_EQ(ctl_end(waits, &out), 1);
    CHECK(strstr(dt_buf_cstr(&out), "{\"run\":\"one\",\"ended\":\"stopped\",\"why\":\"the job is"));
    CHECK(strstr(dt_buf_cstr(&out), "run one did not end well: stopped\n"));
    ctl(endpoint, "run list", &out);
    CHECK(strstr(dt_buf_cstr(&out), "\none  stopped  "));
    CHECK_EQ(ctl_as("", endpoint, "run stop one", &out), 1);
    CHECK(strstr(dt_buf_cstr(&out), "one: not done: it is over: the job is stopped (by "));
    CHECK_EQ(ctl_as("", endpoint, "run stop other", &out), 1);
    CHECK(strstr(dt_buf_cstr(&out), "other: not done: there is no such run"));
    dt_buf_finish(&out);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_person_has_a_job_begin_another_round)
{
    struct daemon_process d;
    struct job a;
    struct dt_buf out = {0};
    char endpoint[32], await[300];
    snprintf(await, sizeof await, "await:%s", at("enough"));
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    JOB_START(&a, NODE("1", endpoint), "--rdzv-id", "one", "--max-restarts", "0", WORKER, "env",
              "line:runs", await);
    CHECK(job_says(&a, JOB_OUT, "runs"));
    FILE *waits = ctl_start("", endpoint, "run wait one");
    ctl(endpoint, "run restart one", &out);
    CHECK_STR(dt_buf_cstr(&out), "run one begins another round, with new workers on 1 node\n");
    CHECK(job_says_times(&a, JOB_OUT, "runs\n", 2));
    CHECK_EQ(count_words(job_out(&a), "TORCHELASTIC_RESTART_COUNT=0\n"), 2);
    CHECK(strstr(job_err(&a), "round 1: the run is restarted (by "));
    ctl(endpoint, "history one", &out);
    CHECK(strstr(dt_buf_cstr(&out), "no restart is charged: a person wanted another round"));
    ctl(endpoint, "status one", &out);
    CHECK(strstr(dt_buf_cstr(&out), ", round 1, 1 of 1 node, restarts 0 of 0\n"));
    ctl(endpoint, "run pause one", &out);
    CHECK_EQ(ctl_as("", endpoint, "run restart one", &out), 1);
    CHECK(strstr(dt_buf_cstr(&out), "it is paused; it goes on with: dtrun-ctl run resume one"));
    ctl(endpoint, "run resume one", &out);
    fclose(fopen(at("enough"), "w"));
    CHECK_EQ(job_wait(&a), 0);
    CHECK_EQ(ctl_end(waits, &out), 0);
    CHECK_STR(dt_buf_cstr(&out), "run one: succeeded: all nodes (1) have succeeded\n");
    job_finish(&a);
    dt_buf_finish(&out);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* -- whose wishes count ----------------------------------------------------------------------- */

TEST(a_job_with_a_token_of_its_own_is_nobody_elses)
{
    struct dt_err err;
    struct daemon_process d;
    struct job a, b;
    struct dt_buf out = {0};
    char endpoint[32], ours[300], other[300];
    if (!dt_proof_open(&err))
        SKIP("%s", err.text);
    write_secret(strcpy(ours, at("run.token")), "a secret of forty-two bytes, or nearly so.");
    write_secret(strcpy(other, at("other.token")), "another one of forty-two bytes, or nearly.");
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    JOB_START(&a, NODE("2", endpoint), "--run-token-file", ours, "--no-python", "/bin/true");
    CHECK(daemon_log_has(&d, "came: 1 of 2"));
    CHECK_EQ(JOB(&b, NODE("2", endpoint), "--no-python", "/bin/true"), 1);
    CHECK(strstr(job_err(&b), "run \"none\" has a token of its own, and "));
    CHECK(strstr(job_err(&b), "has none; give all nodes of a job the same --run-token-file"));
    CHECK(job_says(&a, JOB_ERR, "the rendezvous refused a node: run \"none\" has a token"));
    job_finish(&b);
    CHECK_EQ(JOB(&b, NODE("2", endpoint), "--run-token-file", other, "--no-python", "/bin/true"),
             1);
    CHECK(strstr(job_err(&b), "has another one; give all nodes"));
    job_finish(&b);
    ctl(endpoint, "status", &out);
    CHECK(strstr(dt_buf_cstr(&out), "  begun by "));
    CHECK(strstr(dt_buf_cstr(&out), ": /bin/true, with a token of its own\n"));
    CHECK_EQ(JOB(&b, NODE("2", endpoint), "--run-token-file", ours, "--no-python", "/bin/true"), 0);
    CHECK_EQ(job_wait(&a), 0);
    CHECK_EQ(daemon_log_count(&d, "a secret of"), 0);
    job_finish(&a);
    job_finish(&b);
    dt_buf_finish(&out);
    CHECK_EQ(daemon_stop(&d), 0);
}

#define AS_NOBODY "setpriv --reuid 65534 --regid 65534 --clear-groups"

TEST(another_user_of_the_host_drains_no_node_and_holds_no_job_up)
{
    struct daemon_process d;
    struct job a;
    struct dt_buf out = {0};
    char endpoint[32];
    if (geteuid() != 0 || !job_user_can_run(65534))
        SKIP("only root can become somebody else, who must reach what was built");
    free_endpoint(endpoint);
    DAEMON_START(&d, PROGRAM, "--listen", endpoint);
    JOB_START(&a, NODE("1", endpoint), "--node-name", "victim", WORKER, "line:runs", "hang");
    CHECK(job_says(&a, JOB_OUT, "runs"));
    CHECK_EQ(ctl_as(AS_NOBODY, endpoint, "node drain victim", &out), 1);
    CHECK(strstr(dt_buf_cstr(&out), "nodes are the operator's; ask as root"));
    CHECK_EQ(ctl_as(AS_NOBODY, endpoint, "run pause none", &out), 1);
    CHECK(strstr(dt_buf_cstr(&out), "the run is root's; ask as that user"));
    CHECK_EQ(ctl_as(AS_NOBODY, endpoint, "run stop none", &out), 1);
    CHECK(strstr(dt_buf_cstr(&out), "the run is root's; ask as that user"));
    CHECK_EQ(ctl_as(AS_NOBODY, endpoint, "run restart none", &out), 1);
    CHECK(strstr(dt_buf_cstr(&out), "the run is root's; ask as that user"));
    CHECK_EQ(ctl_as(AS_NOBODY, endpoint, "status", &out), 0);
    ctl(endpoint, "node list --quarantined", &out);
    CHECK_STR(dt_buf_cstr(&out), "no node is kept out or watched\n");
    ctl(endpoint, "node drain nowhere", &out);
    job_stop(&a, SIGTERM);
    job_finish(&a);
    dt_buf_finish(&out);
    CHECK_EQ(daemon_stop(&d), 0);
}
