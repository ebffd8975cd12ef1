/* SPDX-License-Identifier: Apache-2.0 */
/* What of the workers' output is shown, and a console that nobody reads. */
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER
#define OMP "OMP_NUM_THREADS=1"

/* Three ranks say it. Returns how often it is shown: once, if the machine has let them do so within
 * a moment. */
static int say_alike(void)
{
    struct job j;
    char dir[64], run[128], path[192];
    CHECK_EQ(JOB(&j, OMP, "--nproc-per-node", "3", "-t", "1", "--log-dir", tmp_make(dir),
                 "--collapse-lines", "--strip-codes", NO_PYTHON, "line:\x1b[31mred\x1b[0m alike",
                 "line:only $local_rank"),
             0);
    int shown = count_words(job_out(&j), "alike");
    CHECK_EQ(count_words(job_out(&j), "only "), 3);
    CHECK(strstr(job_out(&j), "\x1b[31mred") != NULL);
    only_entry(dir, run, sizeof run);
    snprintf(path, sizeof path, "%s/attempt_0/2/stdout.log", run);
    CHECK_STR(read_text(path), "red alike\nonly 2\n");
    job_finish(&j);
    tmp_remove(dir);
    return shown;
}

TEST(lines_that_ranks_say_alike_are_shown_once_and_filed_without_codes)
{
    int shown = say_alike();
    for (int tries = 1; shown != 1 && tries < 50; tries++)
        shown = say_alike();
    CHECK_EQ(shown, 1);
}

TEST(a_prompt_without_a_newline_shows_when_asked_for)
{
    struct job j;
    JOB_START(&j, "-t", "1", "--partial-line-after", "10ms", NO_PYTHON, "out:working ", "hang");
    CHECK(job_says(&j, JOB_OUT, "[default0]:working "));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    job_finish(&j);
}

static bool ends_within(pid_t pid, int ms)
{
    struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    CHECK(p.fd >= 0);
    bool is = poll(&p, 1, ms) == 1;
    close(p.fd);
    return is;
}

/* As job_says() of standard error, but standard output is left alone. */
static bool says_unread(struct job *j, const char *words)
{
    while (!strstr(job_err(j), words)) {
        uint8_t *room = dt_buf_room(&j->text[JOB_ERR], 4096);
        ssize_t n = room ? read(j->fds[JOB_ERR], room, 4096) : -1;
        if (n <= 0)
            return false;
        dt_buf_grew(&j->text[JOB_ERR], (size_t)n);
    }
    return true;
}

/* Until a pipe of one page is full, and its writer so in the middle of a block. */
static void wait_until_full(int fd)
{
    int bytes = 0;
    for (int turn = 0; bytes < 4096; turn++) {
        CHECK(turn < 60000 && ioctl(fd, FIONREAD, &bytes) == 0);
        poll(NULL, 0, 1);
    }
}

static void make_pipe_small(void *arg)
{
    const struct job *j = arg;
    if (fcntl(j->fds[JOB_OUT], F_SETPIPE_SZ, 4096) != 4096)
        _exit(126);
}

/* Nobody reads standard output, which fills. One worker floods it, the other says that it was not
 * held up; then dtrun is told to end, and does: after the time that there is for that, or when it
 * is told once more by hand. */
TEST(a_console_that_nobody_reads_stops_neither_signals_nor_other_workers)
{
    static const struct {
        const char *tee, *timeout;
        int signum;
        bool twice;
    } rows[] = {
        {"0", "1", SIGTERM, false},
        {"1", "1", SIGTERM, false},
        {"0", "1000", SIGINT, true},
        {"1", "1000", SIGINT, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job j;
        CHECK_ROW("--tee %s, signal %d", rows[i].tee, rows[i].signum);
        JOB_START_AS(&j, make_pipe_small, &j, OMP, "--shutdown-timeout", rows[i].timeout,
                     "--nproc-per-node", "2", "-t", rows[i].tee, NO_PYTHON, "rank:0:flood:2000000",
                     "rank:1:err:quiet", "hang");
        CHECK(says_unread(&j, "quiet"));
        wait_until_full(j.fds[JOB_OUT]);
        kill(j.pid, rows[i].signum);
        for (int wait = 0; rows[i].twice && !ends_within(j.pid, 10); wait++) {
            CHECK(wait < 2000);
            kill(j.pid, rows[i].signum); /* until one comes when it counts */
        }
        CHECK(ends_within(j.pid, 60000));
        CHECK_EQ(job_wait(&j), 1);
        CHECK(strstr(job_err(&j), "what workers printed last is not shown") != NULL);
        job_finish(&j);
    }
}

/* Scripts look for lines of ours that begin with torch's names, so these begin a line. */
TEST(the_last_words_begin_a_line_whatever_a_worker_left_unfinished)
{
    static const struct {
        const char *text, *action, *seen;
    } rows[] = {
        {"err:half", "exit:1", "half\n"},      {"err:50%\r", "exit:1", "50%\r\n"},
        {"err:whole\\n", "exit:1", "whole\n"}, {"err:half", "hang", "half"},
        {"err:whole\\n", "hang", "whole\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job j;
        CHECK_ROW("%s %s", rows[i].text, rows[i].action);
        JOB_START(&j, OMP, NO_PYTHON, rows[i].text, rows[i].action);
        if (strcmp(rows[i].action, "hang") == 0) {
            CHECK(job_says(&j, JOB_ERR, rows[i].seen));
            kill(j.pid, SIGTERM);
        }
        CHECK_EQ(job_wait(&j), 1);
        const char *last = strstr(job_err(&j), "torch.distributed.elastic.multiprocessing.");
        CHECK(last != NULL && last > job_err(&j) && last[-1] == '\n');
        CHECK(strstr(job_err(&j), rows[i].seen) != NULL);
        CHECK(strstr(job_err(&j), "\n\n") == NULL);
        job_finish(&j);
    }
}
