/* SPDX-License-Identifier: Apache-2.0 */
/* Asking for dumps. tests/lib/flight_dump.py plays the thread of PyTorch that makes them, as that
 * one needs a GPU. */
#include "agent/hang/recorders.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct worker {
    pid_t pid;
    int in;
    FILE *out;
};

BEFORE_ALL
{
    folder_make();
    signal(SIGPIPE, SIG_IGN);
}

static void begin(struct dt_log_dir *logs, int nproc)
{
    struct dt_err err;
    CHECK_OK(dt_log_dir_open(logs, dir, "job", &err), err);
    CHECK_OK(dt_log_dir_begin(logs, 0, 0, nproc, &err), err);
}

static void wait_for(struct worker *w, const char *word)
{
    char line[32] = "";
    CHECK(fgets(line, sizeof line, w->out));
    CHECK(strncmp(line, word, strlen(word)) == 0);
}

/* One that dumps the two stories. */
static struct worker start(const char *prefix, const char *rank, const char *first,
                           const char *second)
{
    struct worker w;
    int in[2], out[2];
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    w.pid = fork();
    CHECK(w.pid >= 0);
    if (w.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        execlp("python3", "python3", DT_TEST_FLIGHT_DUMP, "serve", prefix, rank, first, second,
               (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    w.in = in[1];
    w.out = fdopen(out[0], "r");
    wait_for(&w, "ready");
    return w;
}

static void end(struct worker *w)
{
    int status;
    close(w->in);
    CHECK_EQ(waitpid(w->pid, &status, 0), w->pid);
    CHECK_EQ(status, 0);
    fclose(w->out);
}

TEST(a_worker_dumps_when_it_is_asked_and_again)
{
    struct dt_log_dir logs;
    struct dt_flight f;
    begin(&logs, 2);
    struct dt_recorders *r = dt_recorders_open(&logs, 2, 6);
    CHECK(r);
    struct worker w = start(dt_recorders_prefix(r, 1), "7", "waits", "over");
    CHECK(!dt_recorders_read(dt_recorders_dump(r, 1), &f));
    CHECK_EQ(dt_recorders_silent(r), 0);
    CHECK_EQ(dt_recorders_ask(r), 1);
    wait_for(&w, "dumped");
    CHECK_EQ(dt_recorders_silent(r), 0);
    CHECK(dt_recorders_read(dt_recorders_dump(r, 1), &f));
    CHECK_EQ(f.pending, 2);
    CHECK_EQ(f.waits.sequence, 148);
    CHECK(!dt_recorders_read(dt_recorders_dump(r, 0), &f));

    CHECK_EQ(dt_recorders_ask(r), 1);
    wait_for(&w, "dumped");
    CHECK(dt_recorders_read(dt_recorders_dump(r, 1), &f));
    CHECK_EQ(f.pending, 0);
    end(&w);
    dt_recorders_close(r);
    dt_log_dir_finish(&logs);
}

TEST(who_has_left_is_not_asked_and_its_dump_stays)
{
    struct dt_log_dir logs;
    struct dt_flight f;
    char path[512];
    begin(&logs, 1);
    snprintf(path, sizeof path, "%s/0/flight/rank_0", logs.attempt);
    struct dt_recorders *r = dt_recorders_open(&logs, 1, 0);
    CHECK(r);
    struct worker w = start(dt_recorders_prefix(r, 0), "0", "waits", "over");
    CHECK_EQ(dt_recorders_ask(r), 1);
    wait_for(&w, "dumped");
    kill(w.pid, SIGSTOP);
    CHECK_EQ(dt_recorders_ask(r), 1);
    CHECK_EQ(dt_recorders_silent(r), 1);
    kill(w.pid, SIGCONT);
    wait_for(&w, "dumped");
    kill(w.pid, SIGKILL);
    waitpid(w.pid, NULL, 0);
    CHECK_EQ(dt_recorders_ask(r), 0);
    CHECK(!dt_recorders_dump(r, 0));
    CHECK(dt_recorders_read(path, &f));
    CHECK_EQ(f.done.sequence, 147);
    close(w.in);
    fclose(w.out);
    dt_recorders_close(r);
    CHECK(access(path, F_OK) == 0);
    strcat(path, ".pipe");
    CHECK(access(path, F_OK) < 0);
    dt_log_dir_finish(&logs);
}

TEST(nothing_but_a_pipe_is_written_to_and_nobody_waits)
{
    struct dt_log_dir logs;
    char path[512];
    struct stat st;
    begin(&logs, 1);
    struct dt_recorders *r = dt_recorders_open(&logs, 1, 3);
    CHECK(r);
    snprintf(path, sizeof path, "%s3.pipe", dt_recorders_prefix(r, 0));
    CHECK_EQ(dt_recorders_ask(r), 0);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(dt_recorders_ask(r), 0);
    CHECK(fstat(fd, &st) == 0);
    CHECK_EQ(st.st_size, 0);
    close(fd);
    unlink(path);
    CHECK(mkfifo(at("elsewhere"), 0600) == 0);
    fd = open(at("elsewhere"), O_RDWR);
    CHECK(symlink(at("elsewhere"), path) == 0);
    CHECK_EQ(dt_recorders_ask(r), 0);
    close(fd);
    unlink(path);
    CHECK(mkfifo(path, 0600) == 0); /* nobody reads it */
    CHECK_EQ(dt_recorders_ask(r), 0);
    fd = open(path, O_RDWR | O_NONBLOCK);
    for (ssize_t n = 1; n > 0;) /* full */
        n = write(fd, path, sizeof path);
    CHECK_EQ(dt_recorders_ask(r), 0);
    close(fd);
    dt_recorders_close(r);
    dt_log_dir_finish(&logs);
}

TEST(half_a_dump_is_none)
{
    struct dt_log_dir logs;
    struct dt_flight f;
    begin(&logs, 1);
    struct dt_recorders *r = dt_recorders_open(&logs, 1, 0);
    CHECK(r);
    char path[512];
    snprintf(path, sizeof path, "%s0", dt_recorders_prefix(r, 0));
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite("\x80\x02}", 1, 3, file) == 3 && fclose(file) == 0);
    CHECK(!dt_recorders_read(path, &f));
    dt_recorders_close(r);
    dt_log_dir_finish(&logs);
}

TEST(folders_are_private_and_go_when_they_are_empty)
{
    struct dt_log_dir logs, none = {0};
    struct stat st;
    char path[512];
    begin(&logs, 2);
    struct dt_recorders *r = dt_recorders_open(&logs, 2, 0);
    CHECK(r);
    snprintf(path, sizeof path, "%s/1/flight", logs.attempt);
    CHECK(stat(path, &st) == 0);
    CHECK_EQ(st.st_mode & 0777, 0700);
    dt_recorders_close(r);
    CHECK(stat(path, &st) < 0);
    CHECK(!dt_recorders_open(&none, 2, 0));
    CHECK_EQ(dt_recorders_ask(NULL), 0);
    dt_recorders_close(NULL);
    dt_log_dir_finish(&logs);
}
