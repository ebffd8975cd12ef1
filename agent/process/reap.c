/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/reap.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct process {
    pid_t pid, parent, group, session;
    bool ours, zombie;
    char name[16];
};

struct processes {
    struct process *at;
    size_t len, size;
};

void dt_reap_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

enum dt_reaped dt_reap_next(pid_t *pid, int *status)
{
    do
        *pid = waitpid(-1, status, WNOHANG);
    while (*pid < 0 && errno == EINTR);
    if (*pid > 0)
        return DT_REAP_ONE;
    return *pid == 0 ? DT_REAP_NONE_YET : DT_REAP_NO_CHILDREN;
}

/* The name stands between parentheses and may hold any character, parentheses too. */
static bool read_process(const char *pid, struct process *p)
{
    char path[64], text[512], state;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *open_at = strchr(text, '('), *close_at = strrchr(text, ')');
    if (!open_at || !close_at || close_at < open_at ||
        sscanf(close_at + 1, " %c %d %d %d", &state, &p->parent, &p->group, &p->session) != 4)
        return false;
    p->pid = atoi(text);
    p->zombie = state == 'Z';
    snprintf(p->name, sizeof p->name, "%.*s", (int)(close_at - open_at - 1), open_at + 1);
    return true;
}

static void add_process(struct processes *all, const struct process *p)
{
    if (all->len == all->size) {
        size_t size = all->size ? 2 * all->size : 256;
        struct process *at = realloc(all->at, size * sizeof *at);
        if (!at)
            return; /* those we have are better than none; callers come again */
        all->at = at;
        all->size = size;
    }
    all->at[all->len++] = *p;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct process *find(const struct processes *all, pid_t pid)
{
    struct process key = {.pid = pid};
    return all->len ? bsearch(&key, all->at, all->len, sizeof key, by_pid) : NULL;
}

/* Where a walk down the tree begins, and where it does not go. */
struct tree {
    pid_t root;
    const pid_t *strangers;
    size_t stranger_count;
};

/* Which processes of a tree; 0: those of any. */
struct kin {
    pid_t group, session;
};

static bool is_stranger(const struct tree *t, pid_t pid)
{
    for (size_t i = 0; i < t->stranger_count; i++)
        if (t->strangers[i] == pid)
            return true;
    return false;
}

/* A process is ours when its line of parents leads to the root. Follows it at most as far as there
 * are processes: the table was not read in one moment and could hold a circle. */
static bool descends(const struct processes *all, const struct process *p, const struct tree *t)
{
    for (size_t steps = 0; p && steps < all->len && !is_stranger(t, p->pid); steps++) {
        if (p->parent == t->root)
            return true;
        p = find(all, p->parent);
    }
    return false;
}

/* All processes; those of the tree that are alive are ours. */
static struct processes read_tree(struct tree t)
{
    struct processes all = {0};
    struct process p;
    DIR *proc = opendir("/proc");
    for (struct dirent *e = proc ? readdir(proc) : NULL; e; e = readdir(proc))
        if (isdigit((unsigned char)e->d_name[0]) && read_process(e->d_name, &p))
            add_process(&all, &p);
    if (proc)
        closedir(proc);
    if (all.len)
        qsort(all.at, all.len, sizeof *all.at, by_pid);
    for (size_t i = 0; i < all.len; i++)
        all.at[i].ours = !all.at[i].zombie && descends(&all, &all.at[i], &t);
    return all;
}

static bool is_of(const struct process *p, struct kin kin)
{
    return (kin.group == 0 || p->group == kin.group) &&
           (kin.session == 0 || p->session == kin.session);
}

static size_t signal_tree(struct tree t, struct kin kin, int signum)
{
    struct processes all = read_tree(t);
    size_t count = 0;
    for (size_t i = 0; i < all.len; i++) {
        const struct process *p = &all.at[i];
        if (!p->ours || !is_of(p, kin))
            continue;
        count += kill(p->pid, signum) == 0 || errno == EPERM; /* set-uid, and there */
        kill(p->pid, SIGCONT);
    }
    free(all.at);
    return count;
}

size_t dt_reap_signal(pid_t group, int signum)
{
    return signal_tree((struct tree){.root = getpid()}, (struct kin){.group = group}, signum);
}

size_t dt_reap_signal_session(pid_t session, int signum)
{
    return signal_tree((struct tree){.root = getpid()}, (struct kin){.session = session}, signum);
}

size_t dt_reap_kill_but(const pid_t *strangers, size_t count)
{
    return signal_tree((struct tree){getpid(), strangers, count}, (struct kin){0}, SIGKILL);
}

/* The kernel is asked first: hardly anybody has any, and the table is long. */
pid_t *dt_reap_children(size_t *count)
{
    siginfo_t any;
    *count = 0;
    if (waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) < 0)
        return NULL;
    struct processes all = read_tree((struct tree){.root = getpid()});
    pid_t *children = calloc(all.len + 1, sizeof *children);
    for (size_t i = 0; children && i < all.len; i++)
        if (all.at[i].ours && all.at[i].parent == getpid())
            children[(*count)++] = all.at[i].pid;
    free(all.at);
    return children;
}

bool dt_reap_has_session(pid_t root, pid_t session)
{
    struct processes all = read_tree((struct tree){.root = root ? root : getpid()});
    bool has = false;
    for (size_t i = 0; i < all.len; i++)
        has = has || (all.at[i].ours && all.at[i].session == session);
    free(all.at);
    return has;
}

const char *dt_reap_describe(pid_t root, char *out, size_t size)
{
    struct processes all = read_tree((struct tree){.root = root ? root : getpid()});
    size_t n = 0;
    for (size_t i = 0; i < all.len && n + 32 < size; i++)
        if (all.at[i].ours)
            n += (size_t)snprintf(out + n, size - n, "%s%d (%s)", n ? ", " : "", all.at[i].pid,
                                  all.at[i].name);
    free(all.at);
    return n ? out : NULL;
}
