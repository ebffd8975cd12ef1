/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/job.h"

#include "base/fs.h"
#include "tests/lib/check.h"
#include "tests/lib/port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CEILING_MS 60000

/* Where jobs that are told no folder for their logs make one; gone with the test program. */
static struct {
    char path[64];
    pid_t owner;
} scratch;

__attribute__((constructor)) static void make_scratch(void)
{
    snprintf(scratch.path, sizeof scratch.path, "/tmp/dtrun-test-jobs-XXXXXX");
    if (!mkdtemp(scratch.path))
        return;
    scratch.owner = getpid();
    chmod(scratch.path, 01777); /* some stories are of other users */
    setenv("TMPDIR", scratch.path, 1);
}

__attribute__((destructor)) static void remove_scratch(void)
{
    if (scratch.owner == getpid())
        tmp_remove(scratch.path);
}

/* A shell that runs tests in its background, or nohup, has these ignored, and what is ignored stays
 * so. */
__attribute__((constructor)) static void hear_of_interrupts(void)
{
    signal(SIGHUP, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
}

static bool is_setting(const char *arg)
{
    size_t n = strspn(arg, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return n > 0 && arg[n] == '=';
}

static void run_child(const char *const *args, const int out[2], const int err[2])
{
    const char *path = getenv("DT_RUN");
    char *argv[128] = {(char *)(uintptr_t)path};
    int n = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (; *args && is_setting(*args); args++)
        putenv((char *)(uintptr_t)*args);
    for (; *args && n < 127; args++)
        argv[n++] = (char *)(uintptr_t)*args;
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    execv(path, argv);
    _exit(127);
}

void job_start(struct job *j, const char *const *args)
{
    job_start_as(j, NULL, NULL, args);
}

void job_start_as(struct job *j, void (*prepare)(void *arg), void *arg, const char *const *args)
{
    int out[2], err[2];
    *j = (struct job){0};
    CHECK(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    j->fds[JOB_OUT] = out[0];
    j->fds[JOB_ERR] = err[0];
    j->pid = fork();
    CHECK(j->pid >= 0);
    if (j->pid == 0) {
        if (prepare)
            prepare(arg);
        run_child(args, out, err);
    }
    close(out[1]);
    close(err[1]);
}

static void read_stream(struct job *j, int stream)
{
    uint8_t *room = dt_buf_room(&j->text[stream], 65536);
    CHECK(room != NULL);
    ssize_t n = read(j->fds[stream], room, 65536);
    if (n > 0) {
        dt_buf_grew(&j->text[stream], (size_t)n);
    } else {
        close(j->fds[stream]);
        j->fds[stream] = -1;
    }
}

/* Reads what has come from either. False at the end of both. */
static bool read_some(struct job *j)
{
    struct pollfd p[2] = {{.fd = j->fds[0], .events = POLLIN}, {.fd = j->fds[1], .events = POLLIN}};
    if (j->fds[0] < 0 && j->fds[1] < 0)
        return false;
    if (poll(p, 2, CEILING_MS) == 0) {
        check_say(job_out(j));
        check_say(job_err(j));
        CHECK(!"dtrun says nothing any more");
    }
    for (int i = 0; i < 2; i++)
        if (p[i].revents)
            read_stream(j, i);
    return true;
}

bool job_says_times(struct job *j, int stream, const char *words, int count)
{
    while (count_words(dt_buf_cstr(&j->text[stream]), words) < count)
        if (!read_some(j))
            return false;
    return true;
}

bool job_says(struct job *j, int stream, const char *words)
{
    return job_says_times(j, stream, words, 1);
}

bool job_says_lines(struct job *j, int count)
{
    return job_says_times(j, JOB_OUT, "\n", count);
}

int job_wait(struct job *j)
{
    while (read_some(j))
        ;
    if (!j->over) {
        CHECK(waitpid(j->pid, &j->status, 0) == j->pid);
        j->over = true;
    }
    return WIFEXITED(j->status) ? WEXITSTATUS(j->status) : 128 + WTERMSIG(j->status);
}

int job_stop(struct job *j, int signum)
{
    kill(j->pid, signum);
    return job_wait(j);
}

const char *job_out(struct job *j)
{
    return dt_buf_cstr(&j->text[JOB_OUT]);
}

const char *job_err(struct job *j)
{
    return dt_buf_cstr(&j->text[JOB_ERR]);
}

int count_words(const char *text, const char *words)
{
    int n = 0;
    for (; (text = strstr(text, words)); text++)
        n++;
    return n;
}

void job_finish(struct job *j)
{
    for (int i = 0; i < 2; i++) {
        if (j->fds[i] >= 0)
            close(j->fds[i]);
        dt_buf_finish(&j->text[i]);
    }
}

const char *free_port(char out[8])
{
    snprintf(out, 8, "%d", port_take());
    return out;
}

const char *tmp_make(char out[64])
{
    snprintf(out, 64, "/tmp/dtrun-test-XXXXXX");
    CHECK(mkdtemp(out) != NULL);
    return out;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void tmp_remove(const char *dir)
{
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *only_entry(const char *dir, char *out, size_t size)
{
    int found = 0;
    DIR *d = opendir(dir);
    CHECK(d != NULL);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(out, size, "%s/%s", dir, e->d_name);
        found++;
    }
    closedir(d);
    CHECK_EQ(found, 1);
    return out;
}

void job_as_user(unsigned uid, void (*story)(const char *dir), const char *dir)
{
    int status = 0;
    if (geteuid() != 0) {
        story(dir);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)
            _exit(2);
        story(dir);
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

bool job_user_can_run(unsigned uid)
{
    int status = 0;
    if (geteuid() != 0)
        return true;
    pid_t pid = fork();
    if (pid == 0) {
        bool is = setgid(uid) == 0 && setuid(uid) == 0 && access(getenv("DT_RUN"), X_OK) == 0 &&
                  access(getenv("DT_MISBEHAVE"), X_OK) == 0;
        _exit(!is);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

void *keep(void *memory)
{
    static struct kept {
        void *memory;
        struct kept *next;
    } * all;
    struct kept *k = malloc(sizeof *k);
    CHECK(k != NULL && memory != NULL);
    *k = (struct kept){memory, all};
    all = k;
    return memory;
}

const char *read_text(const char *path)
{
    struct dt_buf text = {0};
    if (dt_fs_read(path, 64u << 20, &text, NULL) < 0) {
        dt_buf_finish(&text);
        return NULL;
    }
    char *copy = strdup(dt_buf_cstr(&text));
    dt_buf_finish(&text);
    return keep(copy);
}
