/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that can outlive its round. It does what its arguments say, one after the other; then it
 * exits with 0. One that is started in a later round than 0 begins behind "again".
 *
 *   can cannot     says on its page that it can stay, or not any more
 *   place          prints "rank 1 of 4 round 0 restart 0 port 29500 pid 812"
 *   left           says that it has left its world
 *   next           the same, and takes its place in the next one when that has come
 *   line:TEXT      prints it                      error:TEXT     fills TORCHELASTIC_ERROR_FILE
 *   flood:N        prints N lines
 *   await:FILE     waits until there is one       over           until its round is over
 *   step:N         tells so on its page
 *   meet:N:DIR     waits there until N workers of this round have come
 *   exit:N kill:SIG    ends so                    hang ignore:SIG
 *   last:TEXT          prints it when it is told to end, and ends
 *   rank:R:ACTION  does ACTION only where RANK was R when it was started */
#include "rendezvous/protocol/page.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct place {
    int rank, size, round, restarts, port;
};

static int number(const char *name)
{
    const char *value = getenv(name);
    return value ? atoi(value) : -1;
}

static struct dt_page *map_page(void)
{
    void *at = mmap(NULL, DT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, number(DT_PAGE_ENV), 0);
    return at == MAP_FAILED ? NULL : at;
}

static void show(const struct place *p)
{
    printf("rank %d of %d round %d restart %d port %d pid %d\n", p->rank, p->size, p->round,
           p->restarts, p->port, (int)getpid());
    fflush(stdout);
}

static void take_next(struct dt_page *page, struct place *p)
{
    struct dt_page_world w;
    dt_page_say_left(page);
    while (!dt_page_wait_world(page, 1000, &w))
        ;
    *p = (struct place){w.rank, w.size, w.round, w.restarts, w.master_port};
}

static void make(const char *path, const char *text)
{
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        exit(92);
    fputs(text, f);
    fclose(f);
}

static int count_met(const char *dir, int round)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        n += e->d_name[0] != '.' && atoi(e->d_name) == round;
    if (d)
        closedir(d);
    return n;
}

static void meet(const char *text, const struct place *p)
{
    char *dir, name[256];
    int n = (int)strtol(text, &dir, 10);
    snprintf(name, sizeof name, "%s/%d.%d", dir + 1, p->round, p->rank);
    make(name, "");
    while (count_met(dir + 1, p->round) < n)
        poll(NULL, 0, 1);
}

static void flood(long lines)
{
    for (long i = 0; i < lines; i++)
        printf("line %ld of many that nobody reads, which is why it is a long one\n", i);
    fflush(stdout);
}

static void tell_step(struct dt_page *page, int step)
{
    page->step = step;
    page->updates++;
}

static const char *last_words;

static void on_term(int signum)
{
    (void)signum;
    _exit(write(STDOUT_FILENO, last_words, strlen(last_words)) < 0);
}

static const char *after(const char *action, const char *verb)
{
    size_t n = strlen(verb);
    return strncmp(action, verb, n) == 0 && action[n] == ':' ? action + n + 1 : NULL;
}

static void act(const char *a, struct dt_page *page, struct place *p)
{
    const char *v;
    if (strcmp(a, "can") == 0 || strcmp(a, "cannot") == 0)
        dt_page_say_can_stay(page, strcmp(a, "can") == 0);
    else if (strcmp(a, "place") == 0)
        show(p);
    else if (strcmp(a, "left") == 0)
        dt_page_say_left(page);
    else if (strcmp(a, "next") == 0)
        take_next(page, p);
    else if (strcmp(a, "over") == 0)
        while (!__atomic_load_n(&page->round_over, __ATOMIC_ACQUIRE))
            poll(NULL, 0, 1);
    else if ((v = after(a, "step")))
        tell_step(page, atoi(v));
    else if ((v = after(a, "meet")))
        meet(v, p);
    else if (strcmp(a, "hang") == 0)
        for (;;)
            pause();
    else if ((v = after(a, "line")))
        puts(v), fflush(stdout);
    else if ((v = after(a, "flood")))
        flood(atol(v));
    else if ((v = after(a, "error")))
        make(getenv("TORCHELASTIC_ERROR_FILE"), v);
    else if ((v = after(a, "touch")))
        make(v, "");
    else if ((v = after(a, "await")))
        while (access(v, F_OK) != 0)
            poll(NULL, 0, 1);
    else if ((v = after(a, "exit")))
        _exit(atoi(v));
    else if ((v = after(a, "kill")))
        kill(getpid(), atoi(v));
    else if ((v = after(a, "last")))
        last_words = v, signal(SIGTERM, on_term);
    else if ((v = after(a, "ignore")))
        signal(atoi(v), SIG_IGN);
    else if ((v = after(a, "rank"))) {
        char *rest;
        if (strtol(v, &rest, 10) == number("RANK") && *rest == ':')
            act(rest + 1, page, p);
    } else if (strcmp(a, "again") == 0)
        exit(0); /* the rest is for those that are started later */
    else
        exit(93);
}

int main(int argc, char **argv)
{
    struct place p = {number("RANK"), number("WORLD_SIZE"), number("DTRUN_ROUND"),
                      number("TORCHELASTIC_RESTART_COUNT"), number("MASTER_PORT")};
    struct dt_page *page = map_page();
    int i = 1;
    if (!page)
        return 91;
    if (p.round > 0)
        while (i < argc && strcmp(argv[i++], "again") != 0)
            ;
    for (; i < argc; i++)
        act(argv[i], page, &p);
    return 0;
}
