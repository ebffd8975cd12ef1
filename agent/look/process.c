/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/process.h"

#include "base/auto.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAPS_LINES_MAX 262144

/* The text of a small file, "" where it cannot be read. */
static bool read_text(const char *path, char *out, size_t size)
{
    DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* -- one thread -- */

struct stat_line {
    char name[16];
    char state;
    uint64_t faults;
    uint64_t user, system, started; /* clock ticks */
};

/* The name stands between parentheses and may hold any character, parentheses too. */
static bool read_stat(const char *path, struct stat_line *s)
{
    char text[1024];
    if (!read_text(path, text, sizeof text))
        return false;
    const char *open_at = strchr(text, '('), *close_at = strrchr(text, ')');
    if (!open_at || !close_at || close_at < open_at)
        return false;
    snprintf(s->name, sizeof s->name, "%.*s", (int)(close_at - open_at - 1), open_at + 1);
    return sscanf(close_at + 1,
                  " %c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %*u %*u %" SCNu64 " %" SCNu64
                  " %*d %*d %*d %*d %*d %*d %" SCNu64,
                  &s->state, &s->faults, &s->user, &s->system, &s->started) == 5;
}

/* Its number in its own namespace. */
static pid_t read_inner(const char *text, pid_t tid)
{
    const char *line = strstr(text, "\nNSpid:");
    if (!line)
        return tid;
    line += strlen("\nNSpid:");
    size_t len = strcspn(line, "\n");
    while (len > 0 && line[len - 1] >= '0' && line[len - 1] <= '9')
        len--;
    return (pid_t)atoi(line + len);
}

static uint64_t read_sleeps(const char *text)
{
    static const char name[] = "\nvoluntary_ctxt_switches:";
    const char *line = strstr(text, name);
    return line ? strtoull(line + strlen(name), NULL, 10) : 0;
}

/* "0" stands for nowhere; what the compiler has put behind a name (".constprop.0") is left out. */
static void read_wchan(const char *path, char *out, size_t size)
{
    if (!read_text(path, out, size) || strcmp(out, "0") == 0)
        out[0] = '\0';
    out[strcspn(out, ".")] = '\0';
}

/* "NUMBER ARGUMENT ...", or "running". */
static void read_call(const char *path, struct dt_waiting_call *call)
{
    char text[256];
    uint64_t *a = call->arguments;
    if (!read_text(path, text, sizeof text) ||
        sscanf(text, "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &call->number, &a[0],
               &a[1], &a[2], &a[3]) < 1)
        call->number = DT_LOOK_NO_SYSCALL;
}

static void take_stat(struct dt_look_task *t, pid_t tid, const struct stat_line *s)
{
    long ticks = sysconf(_SC_CLK_TCK);
    *t = (struct dt_look_task){.tid = tid, .state = s->state, .call.number = DT_LOOK_NO_SYSCALL};
    memcpy(t->name, s->name, sizeof t->name);
    t->cpu_ms = (s->user + s->system) * 1000 / (uint64_t)(ticks > 0 ? ticks : 100);
    t->faults = s->faults;
}

static bool read_task(struct dt_look_task *t, pid_t pid, pid_t tid)
{
    char path[96], text[4096];
    struct stat_line s;
    int n = snprintf(path, sizeof path, "/proc/%d/task/%d/", (int)pid, (int)tid);
    char *file = path + n;
    size_t size = sizeof path - (size_t)n;
    snprintf(file, size, "stat");
    if (!read_stat(path, &s))
        return false;
    take_stat(t, tid, &s);
    snprintf(file, size, "status");
    read_text(path, text, sizeof text);
    t->inner = read_inner(text, tid);
    t->sleeps = read_sleeps(text);
    snprintf(file, size, "wchan");
    read_wchan(path, t->wchan, sizeof t->wchan);
    snprintf(file, size, "syscall");
    read_call(path, &t->call);
    return true;
}

/* -- a process -- */

/* The next entry of DIR that is a number; 0: there is none. */
static pid_t next_number(DIR *dir)
{
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        if (d->d_name[0] >= '1' && d->d_name[0] <= '9')
            return (pid_t)atoi(d->d_name);
    return 0;
}

static DIR *open_tasks(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    return opendir(path);
}

static bool read_process_stat(pid_t pid, struct stat_line *s)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return read_stat(path, s);
}

/* What the threads wait for. A running one waits for nothing. */
static void read_waiting(struct dt_look_process *p)
{
    struct dt_memory m = dt_memory_of(&p->pid);
    for (size_t i = 0; i < p->len; i++) {
        struct dt_look_task *t = &p->tasks[i];
        if (t->state == 'R')
            t->call.number = DT_LOOK_NO_SYSCALL;
        dt_waiting_read(&t->waiting, &t->call, p->pid, &m);
    }
}

static unsigned long read_network(pid_t pid)
{
    char path[64], target[64];
    unsigned long number = 0;
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    sscanf(target, "net:[%lu]", &number);
    return number;
}

int dt_look_process_read(struct dt_look_process *p, pid_t pid, struct dt_err *err)
{
    struct stat_line s;
    *p = (struct dt_look_process){.pid = pid};
    if (!read_process_stat(pid, &s))
        return dt_err_set(err, DT_E_RUNTIME, "it has ended");
    memcpy(p->name, s.name, sizeof p->name);
    p->started = s.started;
    p->network = read_network(pid);
    p->tasks = calloc(DT_LOOK_TASKS_MAX, sizeof *p->tasks);
    DIR *dir = open_tasks(pid);
    if (!p->tasks || !dir) {
        if (dir)
            closedir(dir);
        return dt_err_set(err, p->tasks ? DT_E_RUNTIME : DT_E_MEMORY,
                          p->tasks ? "it has ended" : "no memory for its threads");
    }
    for (pid_t tid; (tid = next_number(dir)) != 0;) {
        if (p->len == DT_LOOK_TASKS_MAX) {
            p->more = true;
            break;
        }
        p->len += read_task(&p->tasks[p->len], pid, tid);
    }
    closedir(dir);
    read_waiting(p);
    return 0;
}

void dt_look_process_finish(struct dt_look_process *p)
{
    for (size_t i = 0; i < p->len; i++)
        free(p->tasks[i].native);
    free(p->tasks);
    *p = (struct dt_look_process){0};
}

bool dt_look_process_glance(pid_t pid, struct dt_look_task *main, uint64_t *started)
{
    struct stat_line s;
    char path[96], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)pid);
    if (!read_stat(path, &s))
        return false;
    take_stat(main, pid, &s);
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)pid);
    read_text(path, text, sizeof text);
    main->sleeps = read_sleeps(text);
    *started = s.started;
    return s.state != 'Z';
}

bool dt_look_process_lives(const struct dt_look_process *p)
{
    struct stat_line s;
    return read_process_stat(p->pid, &s) && s.started == p->started && s.state != 'Z';
}

/* -- those below it -- */

struct pids {
    pid_t *at;
    size_t len;
    bool more;
};

static void add_children_of_task(struct pids *all, pid_t pid, pid_t tid)
{
    char path[96];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)tid);
    DT_AUTO_FILE f = fopen(path, "re");
    while (f && fscanf(f, "%d", &child) == 1) {
        if (all->len == DT_LOOK_PROCESSES_MAX) {
            all->more = true;
            return;
        }
        if (child != getpid()) /* dtrun itself was not asked for */
            all->at[all->len++] = child;
    }
}

/* Each thread has children of its own. */
static void add_children(struct pids *all, pid_t pid)
{
    DIR *dir = open_tasks(pid);
    for (pid_t tid; dir && (tid = next_number(dir)) != 0;)
        add_children_of_task(all, pid, tid);
    if (dir)
        closedir(dir);
}

pid_t *dt_look_descendants(pid_t root, size_t *count, bool *more, struct dt_err *err)
{
    struct stat_line s;
    struct pids all = {.at = calloc(DT_LOOK_PROCESSES_MAX, sizeof *all.at)};
    if (!all.at) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a list of processes");
        return NULL;
    }
    if (!read_process_stat(root, &s)) {
        dt_err_set(err, DT_E_RUNTIME,
                   "there is no process %d; of one in a container, give the number that `ps` shows "
                   "out here",
                   (int)root);
        free(all.at);
        return NULL;
    }
    all.at[all.len++] = root;
    for (size_t i = 0; i < all.len; i++)
        add_children(&all, all.at[i]);
    *count = all.len;
    *more = all.more;
    return all.at;
}

/* -- its images -- */

static const char *base_name(const char *path)
{
    const char *name = path;
    for (; *path; path++)
        name = *path == '/' ? path + 1 : name;
    return name;
}

/* "libpython3.9.so.1.0" and "python3.9", but not Python's modules, of which a process has hundreds:
 * "_bz2.cpython-39-x86_64-linux-gnu.so". */
static bool is_called_python(const char *name)
{
    if (strncmp(name, "lib", 3) == 0)
        name += 3;
    return strncmp(name, "python", 6) == 0;
}

/* Where an image begins that LINE of a process's maps tells of, whose program is EXE: one that is
 * called after Python, or the program itself, which may have any name. */
static bool read_mapping(char *line, const char *exe, struct dt_look_image *image)
{
    uint64_t offset;
    int path = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%" SCNx64 "-%*x %*s %" SCNx64 " %*s %*s %n", &image->base, &offset, &path) <
            2 ||
        path == 0 || offset != 0 || line[path] != '/')
        return false;
    const char *name = base_name(line + path);
    snprintf(image->name, sizeof image->name, "%s", name);
    return is_called_python(name) || strcmp(line + path, exe) == 0;
}

int dt_look_images(pid_t pid, struct dt_look_image images[DT_LOOK_IMAGES_MAX])
{
    char path[64], exe[PATH_MAX] = "", line[PATH_MAX + 128];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    DT_AUTO_FILE f = fopen(path, "re");
    if (!f)
        return -errno;
    errno = 0;
    for (int lines = 0; lines < MAPS_LINES_MAX && fgets(line, sizeof line, f); lines++)
        if (count < DT_LOOK_IMAGES_MAX && read_mapping(line, exe, &images[count]))
            count++;
    if (ferror(f))
        return errno ? -errno : -EIO;
    return count;
}
