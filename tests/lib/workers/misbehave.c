/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that does what its arguments say, one after the other; then it exits with 0.
 *
 *   exit:N kill:SIG        ends so                  hang                 sleeps until killed
 *   ignore:SIG             ...from now on           trap:SIG             exits with 3 on it
 *   out:TEXT err:TEXT      prints, no newline       line:TEXT            prints with newline
 *   flood:N                N numbered lines         blocks:N             N blocks of 4 KiB of lines
 *   env fds tty mask       what it was given        pid                  its pid
 *   place                  "rank 2/5 role 0/3 b node 1/2 local 0/3"
 *   timer:SECONDS          asks TORCHELASTIC_TIMER_FILE to be killed (9) after that long
 *   child orphan daemon    starts a sleeping child; one whose parent is gone; and in a session of
 *                          its own: its pid is printed
 *   touch:FILE             makes a file             await:FILE           waits until there is one
 *   error:TEXT             fills TORCHELASTIC_ERROR_FILE
 *   progress:STEP,SAVED,SECTION   tells so on its progress page
 *   steps:PERCENT          does steps for ever, of which so much is time of its own, by that page
 *   scribble:SEED          writes random bytes all over that page, again and again for a while
 *   pages                  "pages N own M": how many progress pages it has, and the environment's
 *   over                   "over N": whether the page says that the round is
 *   trap-over:SIG          "over N" when the signal comes, and exits with 3
 *   eat:MIB                fills that much memory
 *   stop                   SIGSTOPs itself          fail-below:N         exits 1 if the restart
 *                                                                        count is below N
 *   rank:R:ACTION          does ACTION only where RANK is R
 *
 * \n in TEXT is a newline. Numbers of signals are written as numbers. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/protocol/page.h"

extern char **environ;

static void on_trap(int signum)
{
    (void)signum;
    _exit(3);
}

static void put(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            exit(99);
        text += n;
        len -= (size_t)n;
    }
}

static void put_text(int fd, const char *text)
{
    char out[4096];
    size_t n = 0;
    for (; *text && n < sizeof out; text++) {
        bool newline = text[0] == '\\' && text[1] == 'n';
        out[n++] = newline ? '\n' : *text;
        text += newline;
    }
    put(fd, out, n);
}

static void put_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void put_line(const char *fmt, ...)
{
    char line[8192];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof line - 1)
        n = (int)sizeof line - 2;
    line[n] = '\n';
    put(1, line, (size_t)n + 1);
}

/* Its name is to be seen from outside. */
__attribute__((noinline)) static void hang(void)
{
    for (;;)
        pause();
}

/* DEPTH 1: a child. 2: its parent is gone. OWN_SESSION: as a daemon does. Its pid is printed when
 * it has settled, and by us: what reads it may end the child at once. */
static void start(int depth, bool own_session)
{
    int ready[2];
    pid_t left = 0;
    if (pipe(ready) < 0)
        exit(98);
    pid_t child = fork();
    if (child == 0) {
        close(ready[0]);
        if (own_session)
            setsid();
        if (depth == 2 && fork() != 0)
            _exit(0);
        left = getpid();
        put(ready[1], (const char *)&left, sizeof left);
        close(ready[1]);
        hang();
    }
    close(ready[1]);
    if (read(ready[0], &left, sizeof left) != sizeof left)
        exit(97);
    close(ready[0]);
    if (depth == 2)
        waitpid(child, NULL, 0);
    put_line("%d", (int)left);
}

static void show_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(d))
            put_line("fd %s", e->d_name);
    if (d)
        closedir(d);
}

static void show_mask(void)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "Sig", 3) == 0 || strncmp(line, "Cpus_allowed_list", 17) == 0)
            put(1, line, strlen(line));
    if (f)
        fclose(f);
}

static void touch(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        exit(96);
    put_text(fd, text);
    close(fd);
}

/* By inotify on the folder: nothing is polled for. */
static void await(const char *path)
{
    char folder[4096], events[4096];
    int watch = inotify_init1(IN_CLOEXEC);
    snprintf(folder, sizeof folder, "%s", path);
    if (watch < 0 || inotify_add_watch(watch, dirname(folder), IN_CREATE | IN_MOVED_TO) < 0)
        exit(95);
    while (access(path, F_OK) < 0)
        if (read(watch, events, sizeof events) < 0 && errno != EINTR)
            exit(94);
    close(watch);
}

/* Lines name their number, so that a lost, torn or misplaced one shows. */
static void flood(long lines)
{
    static char block[64 << 10];
    const char *rank = getenv("RANK");
    size_t n = 0;
    for (long i = 0; i < lines; i++) {
        n += (size_t)snprintf(block + n, sizeof block - n, "rank %s line %ld of %ld\n",
                              rank ? rank : "?", i, lines);
        if (n > sizeof block - 128 || i == lines - 1) {
            put(1, block, n);
            n = 0;
        }
    }
}

static void blocks(long count)
{
    static char block[4096];
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = i % 100 == 99 || i == sizeof block - 1 ? '\n' : (char)('a' + i % 26);
    for (long i = 0; i < count; i++)
        put(1, block, sizeof block);
}

/* Not a page less than MIB, and not all equal ones, which a kernel could merge. */
static void eat(size_t mib)
{
    for (size_t i = 0; i < mib << 8; i++) {
        size_t *page = malloc(4096);
        if (!page)
            exit(90);
        page[0] = page[511] = i;
    }
}

static const char *var(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "?";
}

static void show_place(void)
{
    put_line("rank %s/%s role %s/%s %s node %s/%s local %s/%s", var("RANK"), var("WORLD_SIZE"),
             var("ROLE_RANK"), var("ROLE_WORLD_SIZE"), var("ROLE_NAME"), var("GROUP_RANK"),
             var("GROUP_WORLD_SIZE"), var("LOCAL_RANK"), var("LOCAL_WORLD_SIZE"));
}

/* As torch.distributed.elastic.timer does. */
static void ask_for_time(double seconds)
{
    char line[256];
    struct timespec now;
    int fd = open(var("TORCHELASTIC_TIMER_FILE"), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    clock_gettime(CLOCK_REALTIME, &now);
    int n = snprintf(line, sizeof line,
                     "{\"version\": 1, \"pid\": %d, \"scope_id\": \"step\", "
                     "\"expiration_time\": %.3f, \"signal\": 9}\n",
                     (int)getpid(), (double)now.tv_sec + (double)now.tv_nsec / 1e9 + seconds);
    if (fd < 0)
        exit(92);
    put(fd, line, (size_t)n);
    close(fd);
}

/* -- the progress page ------------------------------------------------------------------------ */

static struct dt_page *page(void)
{
    static struct dt_page *at;
    const char *fd = getenv(DT_PAGE_ENV);
    if (at)
        return at;
    void *map =
        fd ? mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd), 0) : MAP_FAILED;
    if (map == MAP_FAILED)
        exit(91);
    return at = map;
}

static void tell_progress(const char *text)
{
    struct dt_page *p = page();
    char *rest;
    p->step = strtoll(text, &rest, 10);
    p->saved = strtoll(rest + 1, &rest, 10);
    strncpy(p->section, *rest ? rest + 1 : "", sizeof p->section - 1);
    p->updates++;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void do_steps(int64_t percent)
{
    struct dt_page *p = page();
    for (int64_t before = now_ns(), now;; before = now) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        now = now_ns();
        p->own_ns += (now - before) * percent / 100;
        p->updated_ns = now;
        p->step++;
        p->updates++;
    }
}

static void scribble(uint64_t seed)
{
    uint64_t *at = (uint64_t *)(void *)page();
    for (int round = 0; round < 2000; round++)
        for (size_t i = 0; i < sizeof(struct dt_page) / sizeof *at; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            at[i] = seed;
        }
}

static void show_pages(void)
{
    int count = 0;
    const char *fd = getenv(DT_PAGE_ENV);
    for (int i = 0; i < 1024; i++) {
        char name[32], link[64] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%d", i);
        count += readlink(name, link, sizeof link - 1) > 0 && strstr(link, "dtrun-progress");
    }
    put_line("pages %d own %d", count, fd && page()->step == -1);
}

static void on_trap_over(int signum)
{
    (void)signum;
    put(1, page()->round_over ? "over 1\n" : "over 0\n", 7);
    _exit(3);
}

static const char *after(const char *action, const char *verb)
{
    size_t n = strlen(verb);
    return strncmp(action, verb, n) == 0 && action[n] == ':' ? action + n + 1 : NULL;
}

static void act(const char *a);

static void act_at_rank(const char *text)
{
    char *rest;
    const char *rank = getenv("RANK");
    long r = strtol(text, &rest, 10);
    if (*rest == ':' && rank && atol(rank) == r)
        act(rest + 1);
}

static bool act_plain(const char *a)
{
    if (strcmp(a, "hang") == 0)
        hang();
    else if (strcmp(a, "env") == 0)
        for (char **e = environ; *e; e++)
            put_line("%s", *e);
    else if (strcmp(a, "fds") == 0)
        show_fds();
    else if (strcmp(a, "mask") == 0)
        show_mask();
    else if (strcmp(a, "tty") == 0)
        put_line("tty %d %d %d", isatty(0), isatty(1), isatty(2));
    else if (strcmp(a, "place") == 0)
        show_place();
    else if (strcmp(a, "pid") == 0)
        put_line("%d", (int)getpid());
    else if (strcmp(a, "child") == 0)
        start(1, false);
    else if (strcmp(a, "orphan") == 0)
        start(2, false);
    else if (strcmp(a, "daemon") == 0)
        start(2, true);
    else if (strcmp(a, "pages") == 0)
        show_pages();
    else if (strcmp(a, "over") == 0)
        put_line("over %u", (unsigned)page()->round_over);
    else if (strcmp(a, "stop") == 0)
        raise(SIGSTOP);
    else
        return false;
    return true;
}

static void act(const char *a)
{
    const char *v;
    const char *count = getenv("TORCHELASTIC_RESTART_COUNT");
    if (act_plain(a))
        return;
    if ((v = after(a, "exit")))
        _exit(atoi(v));
    else if ((v = after(a, "kill")))
        kill(getpid(), atoi(v));
    else if ((v = after(a, "ignore")))
        signal(atoi(v), SIG_IGN);
    else if ((v = after(a, "trap")))
        signal(atoi(v), on_trap);
    else if ((v = after(a, "out")))
        put_text(1, v);
    else if ((v = after(a, "err")))
        put_text(2, v);
    else if ((v = after(a, "line")))
        put_line("%s", v);
    else if ((v = after(a, "flood")))
        flood(atol(v));
    else if ((v = after(a, "blocks")))
        blocks(atol(v));
    else if ((v = after(a, "eat")))
        eat((size_t)atol(v));
    else if ((v = after(a, "touch")))
        touch(v, "");
    else if ((v = after(a, "await")))
        await(v);
    else if ((v = after(a, "timer")))
        ask_for_time(atof(v));
    else if ((v = after(a, "progress")))
        tell_progress(v);
    else if ((v = after(a, "steps")))
        do_steps(atoll(v));
    else if ((v = after(a, "scribble")))
        scribble((uint64_t)atoll(v));
    else if ((v = after(a, "trap-over")) && page())
        signal(atoi(v), on_trap_over);
    else if ((v = after(a, "rank")))
        act_at_rank(v);
    else if ((v = after(a, "fail-below"))) {
        if (count && atoi(count) < atoi(v))
            _exit(1);
    } else if ((v = after(a, "error"))) { /* the text of TORCHELASTIC_ERROR_FILE */
        const char *path = getenv("TORCHELASTIC_ERROR_FILE");
        if (path && *path)
            touch(path, v);
    } else {
        fprintf(stderr, "misbehave: what is \"%s\"?\n", a);
        _exit(93);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        act(argv[i]);
    return 0;
}
