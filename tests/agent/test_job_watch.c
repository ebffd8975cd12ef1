/* SPDX-License-Identifier: Apache-2.0 */
/* What watches a whole job, and what it may be watched by: health port, file timers, events,
 * binding, error files, and other jobs. */
#include "tests/lib/http.h"
#include "tests/lib/job.h"

#include "base/json.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER
#define OMP "OMP_NUM_THREADS=1"

/* -- HTTP ------------------------------------------------------------------------------------- */

/* The answer to a GET of PATH; "" when nobody listens. In static memory. */
static const char *ask(const char *port, const char *path)
{
    int fd = http_reach(atoi(port), AF_INET);
    if (fd < 0)
        return "";
    http_send(fd, "GET", path, "Connection: close\r\n");
    return http_read_all(fd);
}

static const char *ask_health(const char *port)
{
    return ask(port, "/healthz");
}

TEST(the_agent_that_hosts_the_rendezvous_shows_it)
{
    struct job j;
    char port[8], endpoint[32], http[32];
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%s", free_port(port));
    snprintf(http, sizeof http, "127.0.0.1:%s", free_port(port));
    JOB_START(&j, OMP, "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "seen",
              "--http", http, "--nproc-per-node", "2", NO_PYTHON, "line:up", "hang");
    CHECK(job_says_lines(&j, 2));
    CHECK(http_has(ask(port, "/readyz"), " 200 "));
    CHECK(http_has(ask(port, "/metrics"), "\ndtrun_run_workers{run=\"seen\"} 2\n"));
    CHECK(http_has(ask(port, "/metrics"), ",host=\"agent\"} 1\n"));
    CHECK(http_has(ask(port, "/status.json?run=seen"), "\"state\":\"running\""));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK_STR(ask(port, "/healthz"), "");
    job_finish(&j);
}

TEST(an_http_port_that_is_taken_ends_the_job_at_once)
{
    struct job j, other;
    char port[8], endpoint[32], http[32];
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
    snprintf(http, sizeof http, "127.0.0.1:%s", free_port(port));
    for (int i = 0; i < 2; i++) {
        snprintf(endpoint, sizeof endpoint, "127.0.0.1:%s", free_port(port));
        JOB_START(i ? &other : &j, OMP, "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint,
                  "--http", http, NO_PYTHON, "line:up", "hang");
        if (i == 0)
            CHECK(job_says_lines(&j, 1));
    }
    CHECK_EQ(job_wait(&other), 1);
    CHECK(http_has(job_err(&other), "--http: HTTP cannot be opened: 127.0.0.1:"));
    job_finish(&other);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    job_finish(&j);
}

TEST(the_health_port_answers_while_the_job_runs_and_is_gone_with_it)
{
    struct job j;
    char port[8];
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
    JOB_START(&j, OMP, "--health-port", free_port(port), "--nproc-per-node", "2", "--max-restarts",
              "1", NO_PYTHON, "fail-below:1", "line:up", "hang");
    CHECK(job_says_lines(&j, 2));
    const char *answer = ask_health(port);
    CHECK(strstr(answer, " 200 ") != NULL);
    CHECK(strstr(answer, "\"state\": \"running\", \"round\": ") != NULL);
    CHECK(strstr(answer, "\"restarts\": 1, \"workers\": 2}") != NULL);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK_STR(ask_health(port), "");
    job_finish(&j);
}

TEST(the_health_port_tells_how_old_the_last_step_is)
{
    struct job j;
    char port[8];
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
    JOB_START(&j, OMP, "--health-port", free_port(port), "--nproc-per-node", "2", NO_PYTHON,
              "progress:7,3,forward", "line:up", "hang");
    CHECK(job_says_lines(&j, 2));
    /* A second may pass before dtrun looks. */
    for (int asks = 0; !strstr(ask_health(port), "\"workers\": 2, \"step\": 7, \"step_age_s\": ");)
        CHECK(++asks < 6000 && poll(NULL, 0, 10) == 0);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    job_finish(&j);
}

TEST(the_health_port_tells_of_workers_that_stand_still)
{
    struct job j;
    char port[8];
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
    JOB_START(&j, OMP, "--health-port", free_port(port), "--hang-after", "1", "--nproc-per-node",
              "2", NO_PYTHON, "rank:1:stop", "hang");
    CHECK(job_says(&j, JOB_ERR, "what each worker does is in "));
    const char *answer = ask_health(port);
    CHECK(strstr(answer, " 503 ") != NULL);
    CHECK(strstr(answer, ", \"hang\": \"the job has stood still for ") != NULL);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    job_finish(&j);
}

TEST(the_health_port_names_the_worker_that_holds_the_others_up)
{
    struct job j;
    char port[8];
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
    JOB_START(&j, OMP, "--health-port", free_port(port), "--nproc-per-node", "3", NO_PYTHON,
              "rank:1:steps:90", "steps:40");
    CHECK(job_says(&j, JOB_ERR, "rank 1 holds the others up: of a step of "));
    const char *answer = ask_health(port);
    CHECK(strstr(answer, " 200 ") != NULL);
    CHECK(strstr(answer, ", \"straggler\": \"rank 1 holds the others up: of a step of ") != NULL);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    job_finish(&j);
}

/* A loop without an end looks like a long evaluation, for which nobody is to be ended. */
TEST(the_health_port_answers_well_while_a_rank_may_only_take_long)
{
    /* A name of PyTorch's makes it a collective. */
    static const char script[] =
        "import os, time\n"
        "torch = '/x/site-packages/torch/distributed/distributed_c10d.py'\n"
        "exec(compile('def all_reduce(): time.sleep(1000)', torch, 'exec'))\n"
        "if os.environ['RANK'] == '0':\n"
        "    all_reduce()\n"
        "while True:\n"
        "    while time.time() % 2 < 1: pass\n"
        "\n"
        "    while time.time() % 2 >= 1: pass\n";
    struct job j;
    char port[8], dir[64], file[80];
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
    snprintf(file, sizeof file, "%s/train.py", tmp_make(dir));
    FILE *f = fopen(file, "w");
    CHECK(f && fputs(script, f) >= 0 && fclose(f) == 0);
    JOB_START(&j, OMP, "--health-port", free_port(port), "--hang-after", "1", "--on-hang", "stop",
              "--log-dir", dir, "--nproc-per-node", "2", file);
    CHECK(job_says(&j, JOB_ERR, "what each worker does is in "));
    CHECK(strstr(job_err(&j), ": rank 1 loops at ") != NULL);
    CHECK(strstr(job_err(&j), " between lines 7 and 9; rank 0 waits in all_reduce ") != NULL);
    CHECK(strstr(ask_health(port), " 200 ") != NULL);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    job_finish(&j);
    tmp_remove(dir);
}

/* -- time limits ------------------------------------------------------------------------------ */

TEST(a_worker_that_is_over_its_time_is_killed_and_the_job_starts_again)
{
    struct job j;
    char dir[64], file[96], setting[160];
    struct stat st;
    snprintf(file, sizeof file, "%s/timers", tmp_make(dir));
    snprintf(setting, sizeof setting, "TORCHELASTIC_TIMER_FILE=%s", file);
    JOB_START(&j, OMP, "TORCHELASTIC_ENABLE_FILE_TIMER=1", setting, "--nproc-per-node", "2",
              "--max-restarts", "1", NO_PYTHON, "rank:1:line:up", "rank:1:timer:0.01", "hang");
    CHECK_EQ(job_wait(&j), 1);
    CHECK_EQ(count_words(job_out(&j), "up\n"), 2); /* once in each attempt */
    CHECK_EQ(count_words(job_err(&j), "is over its time in \"step\": sending SIGKILL"), 2);
    CHECK(strstr(job_err(&j), "was killed by SIGKILL after ") != NULL);
    CHECK(strstr(job_err(&j), "rank      : 1 (local_rank: 1)\n  exitcode  : -9 ") != NULL);
    CHECK(strstr(job_err(&j), "<NO_OTHER_FAILURES>") != NULL);
    CHECK(stat(file, &st) < 0);
    job_finish(&j);
    tmp_remove(dir);
}

/* -- events ----------------------------------------------------------------------------------- */

/* "WORKER SUCCEEDED" for a line of the log. */
static void check_event(const char *line, const char *wanted)
{
    char found[128];
    struct dt_json json;
    struct dt_err err = {0};
    const char *name = NULL, *source = NULL;
    CHECK_OK(dt_json_parse(&json, line, strlen(line), 65536, &err), err);
    CHECK_OK(dt_json_string(&json, NULL, "name", &name, &err), err);
    CHECK_OK(dt_json_string(&json, NULL, "source", &source, &err), err);
    CHECK(strncmp(name, "torchelastic.worker.status.", 27) == 0);
    snprintf(found, sizeof found, "%s %s", source, name + 27);
    dt_json_finish(&json);
    CHECK_STR(found, wanted);
}

/* TEXT is a line of JSON for each of WANTED, which are apart by '|'. */
static void check_events(const char *text, const char *wanted)
{
    char *lines = strdup(text), *rows = strdup(wanted), *line = lines, *row = rows;
    while (row && *row) {
        char *one = strsep(&row, "|"), *event = strsep(&line, "\n");
        CHECK_ROW("%s", one);
        CHECK(event != NULL);
        check_event(event, one);
    }
    CHECK_STR(line, "");
    free(lines);
    free(rows);
}

#define BEGINS "AGENT RENDEZVOUS|AGENT ASSIGN_WORKER_RANKS|"

TEST(events_tell_the_life_of_a_job_in_order)
{
    static const struct {
        const char *action, *events;
        int status, signum;
    } rows[] = {
        {"line:up", BEGINS "WORKER SUCCEEDED|WORKER SUCCEEDED|AGENT SUCCEEDED", 0, 0},
        {"fail-below:1", BEGINS BEGINS "WORKER SUCCEEDED|WORKER SUCCEEDED|AGENT SUCCEEDED", 0, 0},
        {"rank:0:exit:3", BEGINS BEGINS "WORKER FAILED|WORKER TERMINATED|AGENT SUCCEEDED", 1, 0},
        {"hang", BEGINS "AGENT FAILED", 1, SIGTERM},
    };
    char dir[64], file[96], handler[128];
    snprintf(file, sizeof file, "%s/events", tmp_make(dir));
    snprintf(handler, sizeof handler, "file:%s", file);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job j;
        CHECK_ROW("%s", rows[i].action);
        unlink(file);
        JOB_START(&j, OMP, "--event-log-handler", handler, "--nproc-per-node", "2",
                  "--max-restarts", "1", NO_PYTHON, "line:up", rows[i].action,
                  i == 2 ? "hang" : "line:past");
        CHECK(job_says_lines(&j, 2));
        CHECK_EQ(rows[i].signum ? job_stop(&j, rows[i].signum) : job_wait(&j), rows[i].status);
        check_events(read_text(file), rows[i].events);
        job_finish(&j);
    }
    tmp_remove(dir);
}

TEST(events_on_the_console_are_lines_of_standard_error)
{
    struct job j;
    CHECK_EQ(JOB(&j, "--event-log-handler", "console", NO_PYTHON, "line:x"), 0);
    CHECK_STR(job_out(&j), "x\n");
    check_events(job_err(&j), BEGINS "WORKER SUCCEEDED|AGENT SUCCEEDED");
    job_finish(&j);
}

/* -- binding ---------------------------------------------------------------------------------- */

/* What stands behind WORDS up to the end of the line, kept. */
static char *rest_of_line(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    CHECK(at != NULL);
    at += strlen(words);
    return keep(strndup(at, strcspn(at, "\n")));
}

TEST(a_worker_is_bound_as_print_config_says)
{
    struct job j;
    if (!DT_TEST_HWLOC)
        SKIP("built without hwloc");
    CHECK_EQ(JOB(&j, OMP, "--print-config", "--numa-binding", "exclusive", "--nproc-per-node", "1",
                 NO_PYTHON),
             0);
    char *said = rest_of_line(job_out(&j), "binding of local rank 0: ");
    char *cpus = rest_of_line(said, ", cpus ");
    job_finish(&j);
    CHECK_EQ(JOB(&j, OMP, "--numa-binding", "exclusive", NO_PYTHON, "mask"), 0);
    CHECK_STR(rest_of_line(job_out(&j), "Cpus_allowed_list:\t"), cpus);
    job_finish(&j);
}

static void use_last_processor(void *arg)
{
    cpu_set_t all, last;
    int n = CPU_SETSIZE - 1;
    (void)arg;
    sched_getaffinity(0, sizeof all, &all);
    while (n > 0 && !CPU_ISSET(n, &all))
        n--;
    CPU_ZERO(&last);
    CPU_SET(n, &last);
    sched_setaffinity(0, sizeof last, &last);
}

TEST(binding_stays_within_the_processors_that_dtrun_may_use)
{
    struct job j;
    if (!DT_TEST_HWLOC)
        SKIP("built without hwloc");
    JOB_START_AS(&j, use_last_processor, NULL, "--numa-binding", "node", NO_PYTHON, "mask");
    CHECK_EQ(job_wait(&j), 0);
    char *cpus = rest_of_line(job_out(&j), "Cpus_allowed_list:\t");
    CHECK_EQ(strspn(cpus, "0123456789"), strlen(cpus));
    job_finish(&j);
}

/* -- error files ------------------------------------------------------------------------------ */

static const char *fill(char c, size_t n)
{
    char *text = keep(malloc(n + 1));
    memset(text, c, n);
    text[n] = '\0';
    return text;
}

/* A worker leaves it, fails, and the report comes: with the file's words where it has some. */
TEST(an_error_file_of_any_content_leads_to_a_report)
{
    const struct {
        const char *name, *content, *words;
        size_t len;
    } rows[] = {
        {"empty", "", "last words", 0},
        {"no JSON", "{\"message\": ", "last words", 12},
        {"a list", "[1, 2]", "last words", 6},
        {"bytes", "\x00\xff\xfe\x80{}", "last words", 6},
        {"text alone", "{\"message\": \"boom 1\"}", "boom 1", 21},
        {"no timestamp", "{\"message\": {\"message\": \"boom 2\", \"extraInfo\": {}}}", "boom 2",
         51},
        {"huge", fill('x', 8u << 20), "last words", 8u << 20},
        {"deep", fill('[', 1u << 20), "last words", 1u << 20},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job j;
        char dir[64], file[96], action[200];
        CHECK_ROW("%s", rows[i].name);
        snprintf(file, sizeof file, "%s/content", tmp_make(dir));
        FILE *f = fopen(file, "w");
        CHECK(f && fwrite(rows[i].content, 1, rows[i].len, f) == rows[i].len && fclose(f) == 0);
        snprintf(action, sizeof action,
                 "cp %s \"$TORCHELASTIC_ERROR_FILE\"; echo last words >&2; "
                 "exit 5",
                 file);
        CHECK_EQ(JOB(&j, "--no-python", "sh", "-c", action), 1);
        CHECK_EQ(count_words(job_err(&j), "ChildFailedError"), 1);
        CHECK(strstr(job_err(&j), "exitcode  : 5 ") != NULL);
        const char *report = strstr(job_err(&j), "traceback : ");
        CHECK(report != NULL && strstr(report, rows[i].words) != NULL);
        job_finish(&j);
        tmp_remove(dir);
    }
}

TEST(a_folder_a_link_or_a_pipe_in_the_place_of_the_error_file_leads_to_a_report)
{
    static const char *const rows[] = {"mkdir", "mkfifo", "ln -s /nonexistent", "ln -s /dev/zero"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job j;
        char action[200];
        CHECK_ROW("%s", rows[i]);
        snprintf(action, sizeof action,
                 "%s \"$TORCHELASTIC_ERROR_FILE\"; echo last words >&2; "
                 "exit 5",
                 rows[i]);
        CHECK_EQ(JOB(&j, "--no-python", "sh", "-c", action), 1);
        CHECK_EQ(count_words(job_err(&j), "ChildFailedError"), 1);
        const char *report = strstr(job_err(&j), "traceback : ");
        CHECK(report != NULL && strstr(report, "last words") != NULL);
        job_finish(&j);
    }
}

/* -- beside each other ------------------------------------------------------------------------ */

TEST(with_virtual_local_ranks_each_worker_is_0_and_has_its_device)
{
    struct job j;
    CHECK_EQ(JOB(&j, OMP, "CUDA_VISIBLE_DEVICES=4,5", "--virtual-local-rank", "--nproc-per-node",
                 "2", "--no-python", "sh", "-c",
                 "echo rank $RANK local $LOCAL_RANK of $LOCAL_WORLD_SIZE on $CUDA_VISIBLE_DEVICES"),
             0);
    CHECK(strstr(job_out(&j), "rank 0 local 0 of 2 on 4\n") != NULL);
    CHECK(strstr(job_out(&j), "rank 1 local 0 of 2 on 5\n") != NULL);
    job_finish(&j);
}

TEST(two_jobs_at_once_do_not_disturb_each_other)
{
    struct job a, b;
    JOB_START(&a, OMP, "--nproc-per-node", "2", NO_PYTHON, "line:up", "hang");
    CHECK(job_says_lines(&a, 2));
    CHECK_EQ(JOB(&b, OMP, "--nproc-per-node", "2", NO_PYTHON, "line:up", "rank:1:exit:1", "hang"),
             1);
    CHECK_EQ(kill(a.pid, 0), 0);
    CHECK_EQ(job_stop(&a, SIGINT), 1);
    CHECK(strstr(job_err(&a), "Received 2 death signal") != NULL);
    CHECK(strstr(job_err(&a), "failed (exitcode") == NULL);
    job_finish(&a);
    job_finish(&b);
}
