/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a whole job are given: environment, arguments, streams, folders. */
#include "tests/lib/check.h"
#include "tests/lib/job.h"
#include "tests/lib/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER
#define CANNOT_HIDE 77 /* an exit status that dtrun has not */

/* The value of NAME in output of the action "env"; NULL: not set. In static memory. */
static const char *value(struct job *j, const char *name)
{
    static char out[1024];
    size_t n = strlen(name);
    for (const char *line = job_out(j); line && *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, name, n) == 0 && line[n] == '=') {
            snprintf(out, sizeof out, "%.*s", (int)(strcspn(line, "\n") - n - 1), line + n + 1);
            return out;
        }
    return NULL;
}

TEST(a_worker_has_the_variables_of_torchrun)
{
    static const struct {
        const char *name, *value;
    } rows[] = {
        {"GROUP_RANK", "0"},
        {"GROUP_WORLD_SIZE", "1"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"OMP_NUM_THREADS", "1"},
        {"RANK", "1"},
        {"ROLE_NAME", "trainer"},
        {"ROLE_RANK", "1"},
        {"ROLE_WORLD_SIZE", "2"},
        {"TORCHELASTIC_MAX_RESTARTS", "4"},
        {"TORCHELASTIC_RESTART_COUNT", "0"},
        {"TORCHELASTIC_RUN_ID", "job42"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
        {"WORLD_SIZE", "2"},
        {"UNTOUCHED", "as it was"},
    };
    struct job j;
    unsetenv("OMP_NUM_THREADS");
    CHECK_EQ(JOB(&j, "UNTOUCHED=as it was", "RANK=77", "--nproc-per-node", "2", "--max-restarts",
                 "4", "--role", "trainer", "--rdzv-id", "job42", "--rdzv-endpoint", "127.0.0.1:0",
                 "--rdzv-backend", "c10d", NO_PYTHON, "rank:1:env"),
             0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_ROW("%s", rows[i].name);
        CHECK_STR(value(&j, rows[i].name), rows[i].value);
    }
    CHECK(atoi(value(&j, "MASTER_PORT")) > 0);
    CHECK(strstr(value(&j, "TORCHELASTIC_ERROR_FILE"), "/attempt_0/1/error.json") != NULL);
    CHECK(strstr(job_err(&j), "OMP_NUM_THREADS") != NULL);
    job_finish(&j);
}

TEST(omp_num_threads_is_left_alone_where_it_is_set_and_for_one_worker)
{
    struct job j;
    CHECK_EQ(JOB(&j, "OMP_NUM_THREADS=5", "--nproc-per-node", "2", NO_PYTHON, "rank:0:env"), 0);
    CHECK_STR(value(&j, "OMP_NUM_THREADS"), "5");
    CHECK_STR(job_err(&j), "");
    job_finish(&j);
    unsetenv("OMP_NUM_THREADS");
    CHECK_EQ(JOB(&j, "--nproc-per-node", "1", NO_PYTHON, "env"), 0);
    CHECK(value(&j, "OMP_NUM_THREADS") == NULL);
    job_finish(&j);
}

TEST(a_static_job_of_one_node_meets_at_the_port_it_was_given)
{
    struct job j;
    char port[8];
    CHECK_EQ(
        JOB(&j, "--master-addr", "localhost", "--master-port", free_port(port), NO_PYTHON, "env"),
        0);
    CHECK_STR(value(&j, "MASTER_ADDR"), "localhost");
    CHECK_STR(value(&j, "MASTER_PORT"), port);
    CHECK_STR(value(&j, "TORCHELASTIC_RUN_ID"), "none");
    job_finish(&j);
}

TEST(macros_are_put_into_arguments)
{
    struct job j;
    CHECK_EQ(JOB(&j, "OMP_NUM_THREADS=1", "--nproc-per-node", "2", NO_PYTHON,
                 "rank:1:line:<$local_rank> <${local_rank}> <$$HOME> <${other}>"),
             0);
    CHECK_STR(job_out(&j), "<1> <1> <$HOME> <${other}>\n");
    job_finish(&j);
}

TEST(everything_behind_the_script_is_the_scripts)
{
    struct job j;
    CHECK_EQ(JOB(&j, NO_PYTHON, "line:--nnodes", "line:-m", "line:--"), 0);
    CHECK_STR(job_out(&j), "--nnodes\n-m\n--\n");
    job_finish(&j);
}

TEST(a_script_is_run_by_python_unbuffered)
{
    struct job j;
    CHECK_EQ(JOB(&j, "PYTHON_EXEC=/bin/echo", "train.py", "--lr", "1"), 0);
    CHECK_STR(job_out(&j), "-u train.py --lr 1\n");
    job_finish(&j);
    CHECK_EQ(JOB(&j, "PYTHON_EXEC=/bin/echo", "-m", "pkg.train", "x"), 0);
    CHECK_STR(job_out(&j), "-u -m pkg.train x\n");
    job_finish(&j);
}

/* -- streams ---------------------------------------------------------------------------------- */

TEST(inherited_output_has_no_prefix_and_keeps_the_order_of_both_streams)
{
    struct job j;
    CHECK_EQ(JOB(&j, NO_PYTHON, "out:1", "err:2", "out:3"), 0);
    CHECK_STR(job_out(&j), "13");
    CHECK_STR(job_err(&j), "2");
    job_finish(&j);
    /* One file for both: dtrun is the shell's last word here. */
    char dir[64], line[512], file[96];
    snprintf(file, sizeof file, "%s/both", tmp_make(dir));
    snprintf(line, sizeof line, "'%s' --no-python '%s' out:1 err:2 out:3 err:4 >%s 2>&1",
             getenv("DT_RUN"), WORKER, file);
    CHECK_EQ(system(line), 0);
    CHECK_STR(read_text(file), "1234");
    tmp_remove(dir);
}

TEST(redirected_streams_are_in_their_files_and_not_on_the_console)
{
    struct job j;
    char dir[64], run[128], path[192];
    CHECK_EQ(JOB(&j, "OMP_NUM_THREADS=1", "--nproc-per-node", "2", "--log-dir", tmp_make(dir), "-r",
                 "0:3,1:2", "--rdzv-id", "abc", NO_PYTHON, "line:to out", "err:to err"),
             0);
    CHECK_STR(job_out(&j), "to out\n"); /* rank 1 */
    CHECK_STR(job_err(&j), "");
    only_entry(dir, run, sizeof run);
    CHECK(strstr(run, "/abc_") != NULL);
    snprintf(path, sizeof path, "%s/attempt_0/0/stdout.log", run);
    CHECK_STR(read_text(path), "to out\n");
    snprintf(path, sizeof path, "%s/attempt_0/1/stderr.log", run);
    CHECK_STR(read_text(path), "to err");
    job_finish(&j);
    tmp_remove(dir);
}

TEST(what_a_flight_recorder_dumps_stays_and_its_pipe_goes)
{
    static const char script[] = "mkfifo \"${TORCH_NCCL_DEBUG_INFO_PIPE_FILE}$RANK.pipe\" && "
                                 "[ $RANK = 0 ] || echo dump >\"$TORCH_FR_DUMP_TEMP_FILE$RANK\"\n";
    struct job j;
    char dir[64], logs[80], file[80], run[128], path[192];
    snprintf(file, sizeof file, "%s/train.sh", tmp_make(dir));
    snprintf(logs, sizeof logs, "%s/logs", dir);
    FILE *f = fopen(file, "w");
    CHECK(f && fputs(script, f) >= 0 && fclose(f) == 0);
    CHECK_EQ(JOB(&j, "OMP_NUM_THREADS=1", "PYTHON_EXEC=/bin/sh", "--nproc-per-node", "2",
                 "--log-dir", logs, file),
             0);
    only_entry(logs, run, sizeof run);
    snprintf(path, sizeof path, "%s/attempt_0/1/flight/rank_1", run);
    CHECK_STR(read_text(path), "dump\n");
    snprintf(path, sizeof path, "%s/attempt_0/1/flight/rank_1.pipe", run);
    CHECK(access(path, F_OK) < 0);
    snprintf(path, sizeof path, "%s/attempt_0/0/flight", run);
    CHECK(access(path, F_OK) < 0);
    job_finish(&j);
    tmp_remove(dir);
}

TEST(teed_streams_are_in_both_with_a_prefix_once_per_line)
{
    struct job j;
    char dir[64], run[128], path[192];
    CHECK_EQ(JOB(&j, "--log-dir", tmp_make(dir), "-t", "3", "--role", "w", NO_PYTHON, "out:one ",
                 "out:line\\n", "err:half", "out:and \xff\\n"),
             0);
    CHECK_STR(job_out(&j), "[w0]:one line\n[w0]:and \xff\n");
    CHECK_STR(job_err(&j), "[w0]:half\n");
    only_entry(dir, run, sizeof run);
    snprintf(path, sizeof path, "%s/attempt_0/0/stdout.log", run);
    CHECK_STR(read_text(path), "one line\nand \xff\n");
    snprintf(path, sizeof path, "%s/attempt_0/0/stderr.log", run);
    CHECK_STR(read_text(path), "half");
    job_finish(&j);
    tmp_remove(dir);
}

TEST(the_prefix_can_be_chosen)
{
    struct job j;
    CHECK_EQ(JOB(&j, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=${role_name}/$rank/${local_rank}$$ ",
                 "-t", "1", NO_PYTHON, "line:x"),
             0);
    CHECK_STR(job_out(&j), "default/0/0$ x\n");
    job_finish(&j);
}

TEST(only_the_ranks_that_are_asked_for_show)
{
    struct job j;
    CHECK_EQ(JOB(&j, "OMP_NUM_THREADS=1", "--nproc-per-node", "3", "--local-ranks-filter", "1",
                 NO_PYTHON, "line:$local_rank"),
             0);
    CHECK_STR(job_out(&j), "1\n");
    job_finish(&j);
}

TEST(without_a_log_folder_nothing_is_filed_and_nothing_is_prefixed)
{
    struct job j;
    CHECK_EQ(JOB(&j, "--log-dir", "/dev/null", "-t", "3", "-r", "3", NO_PYTHON, "line:x", "env"),
             0);
    CHECK(strncmp(job_out(&j), "x\n", 2) == 0);
    CHECK_STR(value(&j, "TORCHELASTIC_ERROR_FILE"), "");
    job_finish(&j);
}

/* As in a container or a chroot that has none: new ones cannot be had, those that are open stay. */
static void hide_terminals(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", "/dev/pts", "tmpfs", 0, NULL) < 0)
        _exit(CANNOT_HIDE);
}

/* What a process with a terminal of its own shows; dtrun's end is waited for. */
static char *run_on_terminal(void (*prepare)(void), const char *const *args)
{
    static char out[65536];
    size_t n = 0;
    ssize_t got;
    int master = terminal_open();
    struct winsize size = {.ws_row = 33, .ws_col = 77};
    ioctl(master, TIOCSWINSZ, &size);
    pid_t pid = fork();
    if (pid == 0) {
        int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
        for (int fd = 0; fd < 3; fd++)
            dup2(slave, fd);
        if (prepare)
            prepare();
        execv(getenv("DT_RUN"), (char *const *)(uintptr_t)args);
        _exit(127);
    }
    int status;
    struct pollfd p = {.fd = master, .events = POLLIN};
    while (poll(&p, 1, 60000) == 1 && (got = read(master, out + n, sizeof out - n - 1)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    CHECK(waitpid(pid, &status, 0) == pid);
    close(master);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_HIDE)
        SKIP("/dev/pts cannot be hidden: no mount namespace of our own can be made");
    CHECK_EQ(status, 0);
    return out;
}

TEST(on_a_terminal_workers_see_a_terminal)
{
    const char *const plain[] = {"dtrun", "--no-python", WORKER, "tty", NULL};
    CHECK_STR(run_on_terminal(NULL, plain), "tty 1 1 1\r\n");
    const char *const inherit[] = {"dtrun", "--inherit-streams", "--no-python", WORKER, "tty",
                                   NULL};
    CHECK_STR(run_on_terminal(NULL, inherit), "tty 1 1 1\r\n");
    const char *const teed[] = {"dtrun", "-t", "1", "--no-python", WORKER, "tty", NULL};
    CHECK_STR(run_on_terminal(NULL, teed), "[default0]:tty 1 0 1\r\n");
}

TEST(without_pseudo_terminals_workers_see_pipes_which_is_said_once)
{
    const char *const args[] = {"dtrun", "--nproc-per-node", "3", "--no-python", WORKER, "tty",
                                NULL};
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("LOGLEVEL", "INFO", 1);
    const char *shown = run_on_terminal(hide_terminals, args);
    unsetenv("LOGLEVEL");
    unsetenv("OMP_NUM_THREADS");
    CHECK_EQ(count_words(shown, "workers see a pipe instead of a terminal: "), 1);
    CHECK_EQ(count_words(shown, "tty 1 0 0"), 3);
}
