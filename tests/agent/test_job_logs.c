/* SPDX-License-Identifier: Apache-2.0 */
/* What workers print, read from elsewhere: real nodes at a real rendezvous, and the real dtrun-ctl
 * logs. Workers wait for a file that the test makes, so that nothing depends on time. */
#include "base/fs.h"
#include "tests/lib/daemon.h"
#include "tests/lib/folder.h"
#include "tests/lib/job.h"
#include "tests/lib/port.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PROGRAM getenv("DT_RENDEZVOUS")
/* A job of NODES, each with WORKERS that run SCRIPT. */
#define NODE(name, nodes, workers, endpoint)                                                       \
    "OMP_NUM_THREADS=1", "--node-name", name, "--nnodes", nodes, "--nproc-per-node", workers,      \
        "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "job"
#define SCRIPT(text) "--no-python", "/bin/sh", "-c", text
#define UNTIL "; while ! [ -e \"$GO\" ]; do sleep 0.05; done"

BEFORE_ALL
{
    folder_make();
    if (!getenv("DT_CTL"))
        SKIP("DT_CTL does not name the program");
}

static char out[1 << 20], errors[8192];

static void read_into(const char *path, char *text, size_t size)
{
    struct dt_buf b = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_read(path, size - 1, &b, &err), err);
    snprintf(text, size, "%s", dt_buf_cstr(&b));
    dt_buf_finish(&b);
}

static int logs(const char *endpoint, const char *args)
{
    char line[1024];
    snprintf(line, sizeof line, "\"$DT_CTL\" logs --endpoint %s %s >'%s' 2>'%s'", endpoint, args,
             at("out"), at("errors"));
    int status = system(line);
    read_into(at("out"), out, sizeof out);
    read_into(at("errors"), errors, sizeof errors);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Lines come and go on; what it prints is read as the log of a daemon is. */
static void follow(struct daemon_process *f, const char *endpoint, const char *args,
                   const char *first)
{
    char line[512];
    snprintf(line, sizeof line, "exec \"$DT_CTL\" logs --endpoint %s job --follow %s 1>&2",
             endpoint, args);
    daemon_start(f, first, "/bin/sh", (const char *const[]){"-c", line, NULL});
}

static const char *free_endpoint(char text[32])
{
    snprintf(text, 32, "127.0.0.1:%d", port_take());
    return text;
}

/* "GO=/.../go3", of a file that is not there yet. */
static const char *gate(char text[300])
{
    static int count;
    char name[20];
    snprintf(name, sizeof name, "go%d", ++count);
    snprintf(text, 300, "GO=%s", at(name));
    return text;
}

static void let_go(const char *gate)
{
    FILE *f = fopen(gate + strlen("GO="), "w");
    CHECK(f != NULL);
    fclose(f);
}

/* A worker whose output goes into a file says by another file that it is there. */
#define SAYS_SO "; : >\"$GO.$RANK\""

static void await_word(const char *gate, int rank)
{
    char path[320];
    snprintf(path, sizeof path, "%s.%d", gate + strlen("GO="), rank);
    while (access(path, F_OK) < 0)
        usleep(1000);
}

TEST(the_last_lines_of_all_ranks_are_shown_in_their_order)
{
    struct daemon_process d;
    struct job a, b;
    char endpoint[32], go[300];
    static const char script[] = "echo one; echo two; echo three from $RANK; printf 'no end'; "
                                 "echo oh >&2" UNTIL;
    gate(go);
    DAEMON_START(&d, PROGRAM, "--listen", free_endpoint(endpoint));
    JOB_START(&a, go, NODE("n0", "2", "2", endpoint), SCRIPT(script));
    JOB_START(&b, go, NODE("n1", "2", "2", endpoint), SCRIPT(script));
    for (int i = 0; i < 2; i++) {
        CHECK(job_says_times(&a, i ? JOB_ERR : JOB_OUT, i ? "oh\n" : "no end", 2));
        CHECK(job_says_times(&b, i ? JOB_ERR : JOB_OUT, i ? "oh\n" : "no end", 2));
    }
    CHECK_EQ(logs(endpoint, "job --lines 2"), 0);
    CHECK_STR(errors, "");
    CHECK_EQ(count_words(out, "\n"), 12); /* two of stdout and one of stderr */
    const char *previous = out;
    for (int i = 0; i < 4; i++) {
        char words[100];
        snprintf(words, sizeof words, "[default%d]:three from ", i);
        CHECK(strstr(previous, words) != NULL);
        previous = strstr(previous, words);
        snprintf(words, sizeof words, "[default%d]:no end\n[default%d]:oh\n", i, i);
        CHECK(strstr(previous, words) != NULL);
    }
    CHECK(strstr(out, "two") == NULL);
    CHECK_EQ(logs(endpoint, "job 3 --lines all"), 0);
    CHECK(strncmp(out, "one\ntwo\nthree from 3\nno end\noh\n", 32) == 0);
    CHECK_EQ(logs(endpoint, "job --node n0 --lines 1 --prefix never"), 0);
    CHECK_STR(out, "no end\noh\nno end\noh\n");
    CHECK_EQ(logs(endpoint, "job 4"), 1);
    CHECK(strstr(errors, "run \"job\" has no such rank; its ranks are 0 to 3") != NULL);
    CHECK_EQ(logs(endpoint, "job --node n7"), 1);
    CHECK(strstr(errors, "run \"job\" has no node \"n7\"") != NULL);
    CHECK_EQ(logs(endpoint, "other"), 1);
    CHECK(strstr(errors, "there is no run \"other\"") != NULL);
    let_go(go);
    CHECK_EQ(job_wait(&a), 0);
    CHECK_EQ(job_wait(&b), 0);
    CHECK_EQ(logs(endpoint, "job"), 1);
    CHECK(strstr(errors, "run \"job\" is over (") != NULL);
    job_finish(&a);
    job_finish(&b);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* Files that workers write themselves, and those that dtrun writes for them. */
TEST(files_are_read_as_well)
{
    static const char *const ways[] = {"--redirects", "--tee"};
    for (int i = 0; i < 2; i++) {
        struct daemon_process d;
        struct job a;
        char endpoint[32], go[300];
        CHECK_ROW("%s", ways[i]);
        gate(go);
        DAEMON_START(&d, PROGRAM, "--listen", free_endpoint(endpoint));
        JOB_START(&a, go, NODE("n0", "1", "1", endpoint), "--log-dir", at(i ? "t" : "r"), ways[i],
                  "3", SCRIPT("echo one; echo two; echo oh >&2" SAYS_SO UNTIL));
        await_word(go, 0);
        if (i == 1)
            CHECK(job_says(&a, JOB_OUT, "two"));
        CHECK_EQ(logs(endpoint, "job --lines 1"), 0);
        CHECK_STR(out, "[default0]:two\n[default0]:oh\n");
        let_go(go);
        CHECK_EQ(job_wait(&a), 0);
        job_finish(&a);
        CHECK_EQ(daemon_stop(&d), 0);
    }
}

TEST(who_follows_reads_over_rounds_until_the_run_ends)
{
    struct daemon_process d, f;
    struct job a;
    char endpoint[32], go[300];
    gate(go);
    DAEMON_START(&d, PROGRAM, "--listen", free_endpoint(endpoint));
    JOB_START(&a, go, NODE("n0", "1", "2", endpoint), "--max-restarts", "1",
              SCRIPT("echo begin $TORCHELASTIC_RESTART_COUNT" UNTIL
                     "; if [ $TORCHELASTIC_RESTART_COUNT$RANK = 00 ]; then echo dying; exit 3; fi; "
                     "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 60; echo last words"));
    CHECK(job_says_times(&a, JOB_OUT, "begin 0", 2));
    follow(&f, endpoint, "", "begin 0");
    let_go(go);
    CHECK_EQ(job_wait(&a), 0);
    CHECK_EQ(daemon_wait(&f), 0);
    CHECK_EQ(daemon_log_count(&f, "]:begin 0\n"), 2);
    CHECK_EQ(daemon_log_count(&f, "[default0]:dying\n"), 1);
    CHECK_EQ(daemon_log_count(&f, "dtrun-ctl: round 1 began: workers were started anew\n"), 1);
    CHECK_EQ(daemon_log_count(&f, "]:begin 1\n"), 2);
    CHECK_EQ(daemon_log_count(&f, "]:last words\n"), 2);
    CHECK_EQ(daemon_log_count(&f, "dtrun-ctl: run \"job\" is over: "), 1);
    daemon_stop(&f);
    job_finish(&a);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(who_follows_reads_on_when_the_rendezvous_was_killed)
{
    struct daemon_process d, f;
    struct job a;
    char endpoint[32], go[300], state[300];
    gate(go);
    snprintf(state, sizeof state, "%s", at("state"));
    DAEMON_START(&d, PROGRAM, "--listen", free_endpoint(endpoint), "--state-dir", state);
    JOB_START(&a, go, NODE("n0", "1", "1", endpoint),
              SCRIPT("echo first" UNTIL "; echo second; rm \"$GO\"" UNTIL));
    CHECK(job_says(&a, JOB_OUT, "first"));
    follow(&f, endpoint, "", "first");
    kill(d.pid, SIGKILL);
    daemon_wait(&d);
    daemon_stop(&d);
    let_go(go);
    CHECK(job_says(&a, JOB_OUT, "second"));
    CHECK(daemon_log_has(&f, "dtrun-ctl: rendezvous "));
    DAEMON_START(&d, PROGRAM, "--listen", endpoint, "--state-dir", state);
    CHECK(daemon_log_has(&f, "second\n"));
    let_go(go);
    CHECK_EQ(job_wait(&a), 0);
    CHECK_EQ(daemon_wait(&f), 0);
    CHECK_EQ(daemon_log_count(&f, "[default0]:first\n"), 1);
    CHECK_EQ(daemon_log_count(&f, "[default0]:second\n"), 1);
    daemon_stop(&f);
    job_finish(&a);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* Nobody waits for a rendezvous that an agent served. */
TEST(a_rendezvous_that_an_agent_serves_ends_with_its_job)
{
    for (int killed = 0; killed < 2; killed++) {
        struct daemon_process f;
        struct job a;
        char endpoint[32], go[300];
        CHECK_ROW("%s", killed ? "killed" : "well");
        gate(go);
        free_endpoint(endpoint);
        JOB_START(&a, go, NODE("n0", "1", "1", endpoint), SCRIPT("echo here" UNTIL));
        CHECK(job_says(&a, JOB_OUT, "here"));
        follow(&f, endpoint, "", "here");
        if (killed)
            kill(a.pid, SIGKILL);
        else
            let_go(go);
        CHECK_EQ(daemon_wait(&f), killed);
        CHECK_EQ(daemon_log_count(&f, killed ? "; an agent of the job served it, and is gone\n"
                                             : "dtrun-ctl: run \"job\" is over: "),
                 1);
        daemon_stop(&f);
        CHECK_EQ(job_wait(&a), killed ? 128 + SIGKILL : 0);
        job_finish(&a);
    }
}

TEST(an_agent_that_is_killed_is_said)
{
    struct daemon_process d, f;
    struct job a, b;
    char endpoint[32], go[300];
    gate(go);
    DAEMON_START(&d, PROGRAM, "--listen", free_endpoint(endpoint));
    JOB_START(&a, go, NODE("n0", "1:2", "1", endpoint), SCRIPT("echo here $GROUP_RANK" UNTIL));
    JOB_START(&b, go, NODE("n1", "1:2", "1", endpoint), SCRIPT("echo here $GROUP_RANK" UNTIL));
    CHECK(job_says(&a, JOB_OUT, "here"));
    CHECK(job_says(&b, JOB_OUT, "here"));
    follow(&f, endpoint, "", "]:here");
    kill(b.pid, SIGKILL);
    CHECK(daemon_log_has(&f, "dtrun-ctl: n1 is not connected to the rendezvous: what its workers "
                             "print is missing from here on\n"));
    kill(f.pid, SIGINT);
    CHECK_EQ(daemon_wait(&f), 128 + SIGINT);
    daemon_stop(&f);
    job_wait(&b);
    let_go(go);
    CHECK_EQ(job_wait(&a), 0);
    job_finish(&a);
    job_finish(&b);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* More than anybody reads: what is left out is said, and the worker waits for nobody. */
TEST(a_flood_is_read_with_gaps_and_holds_up_nobody)
{
    struct daemon_process d, f;
    struct job a;
    char endpoint[32], go[300];
    gate(go);
    DAEMON_START(&d, PROGRAM, "--listen", free_endpoint(endpoint));
    JOB_START(&a, go, NODE("n0", "1", "2", endpoint), "--log-dir", at("flood"), "--redirects", "3",
              SCRIPT("echo begin" SAYS_SO UNTIL
                     "; head -c 100000000 /dev/zero | tr '\\0' x | fold -w 99; "
                     "head -c 1048576 /dev/zero | tr '\\0' y; echo; printf 'torn \\303\\n'; "
                     "echo the end"));
    await_word(go, 0);
    await_word(go, 1);
    follow(&f, endpoint, "", "]:begin");
    let_go(go);
    CHECK_EQ(job_wait(&a), 0);
    CHECK_EQ(daemon_wait(&f), 0);
    CHECK_EQ(daemon_log_count(&f, "]:the end\n"), 2);
    CHECK_EQ(daemon_log_count(&f, "]:torn \xef\xbf\xbd\n"), 2);
    CHECK(daemon_log_count(&f, " bytes of its stdout are left out here\n") >= 2);
    daemon_stop(&f);
    job_finish(&a);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(output_that_workers_were_given_as_it_is_cannot_be_read)
{
    struct daemon_process d;
    struct job a;
    char endpoint[32], go[300];
    gate(go);
    DAEMON_START(&d, PROGRAM, "--listen", free_endpoint(endpoint));
    JOB_START(&a, go, NODE("n0", "1", "1", endpoint), "--inherit-streams",
              SCRIPT("echo here" UNTIL));
    CHECK(job_says(&a, JOB_OUT, "here"));
    CHECK_EQ(logs(endpoint, "job"), 0);
    CHECK_STR(out, "");
    CHECK(strstr(errors, "n0: workers write to pipe:") != NULL);
    let_go(go);
    CHECK_EQ(job_wait(&a), 0);
    job_finish(&a);
    CHECK_EQ(daemon_stop(&d), 0);
}
