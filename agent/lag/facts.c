/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/lag/facts.h"

#include "agent/bind/cpuset.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/str.h"

#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_MAX ((size_t)1 << 20) /* /proc/stat of a host of some thousand processors */
#define THREADS_MAX 256            /* of a worker, in which one is looked for that waits */
#define PROCESSORS_MAX 64          /* of a worker, whose clocks are read */
#define PROCESSES_MAX 65536        /* of a host, among which one is looked for that runs */
#define STAT_COLUMNS 64            /* of /proc/PID/stat behind the name */

/* A file below ROOT, its path as printf() has it. False: it cannot be read. TEXT is to be finished
 * either way. */
static bool read_file(struct dt_buf *text, const char *root, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool read_file(struct dt_buf *text, const char *root, const char *fmt, ...)
{
    char path[DT_CGROUP_PATH + 256];
    int n = snprintf(path, sizeof path, "%s", root);
    va_list args;
    va_start(args, fmt);
    if (n >= 0 && (size_t)n < sizeof path)
        vsnprintf(path + n, sizeof path - (size_t)n, fmt, args);
    va_end(args);
    dt_buf_clear(text);
    return dt_fs_read(path, FILE_MAX, text, NULL) == 0;
}

/* The number behind NAME at the start of a line; 0: there is none. */
static int64_t number_behind(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == ' ')
            return strtoll(line + n, NULL, 10);
    }
    return 0;
}

static int64_t ms_of_ticks(int64_t ticks)
{
    long hertz = sysconf(_SC_CLK_TCK);
    return hertz > 0 ? ticks * 1000 / hertz : 0;
}

/* -- a process -------------------------------------------------------------------------------- */

/* Of /proc/PID/stat; see proc(5) for the numbers. */
struct stat_line {
    char name[16], state;
    int64_t faults, cpu_ms, disk_ms;
    int processor;
};

/* The name may hold blanks and brackets: what counts is the last one. */
static bool parse_stat(char *text, struct stat_line *s)
{
    int64_t column[STAT_COLUMNS] = {0};
    char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (!name || !end || end < name || strlen(end) < 3)
        return false;
    snprintf(s->name, sizeof s->name, "%.*s", (int)(end - name - 1), name + 1);
    s->state = end[2];
    char *rest = end + 3;
    for (int i = 4; i < STAT_COLUMNS && *rest; i++)
        column[i] = strtoll(rest, &rest, 10);
    s->faults = column[12];
    s->cpu_ms = ms_of_ticks(column[14] + column[15]);
    s->processor = (int)column[39];
    s->disk_ms = ms_of_ticks(column[42]);
    return true;
}

static bool read_stat(pid_t pid, const char *root, struct stat_line *s)
{
    struct dt_buf text = {0};
    bool well = read_file(&text, root, "/proc/%d/stat", (int)pid);
    char *copy = well ? strdup(dt_buf_cstr(&text)) : NULL;
    well = copy && parse_stat(copy, s);
    free(copy);
    dt_buf_finish(&text);
    return well;
}

/* "RAN WAITED SLICES", both in ns. */
static bool read_schedstat(pid_t pid, pid_t tid, const char *root, int64_t *ran, int64_t *waited)
{
    struct dt_buf text = {0};
    bool well = read_file(&text, root, "/proc/%d/task/%d/schedstat", (int)pid, (int)tid) &&
                sscanf(dt_buf_cstr(&text), "%" SCNd64 " %" SCNd64, ran, waited) == 2;
    dt_buf_finish(&text);
    return well;
}

int64_t dt_lag_ran_ns(pid_t pid, const char *root)
{
    int64_t ran, waited;
    return read_schedstat(pid, pid, root, &ran, &waited) ? ran + waited : 0;
}

/* Of the files of a folder those that are numbers, to be called again; 0: no more. */
static pid_t next_number(DIR *folder)
{
    struct dirent *e;
    while (folder && (e = readdir(folder))) {
        int64_t n;
        if (dt_str_to_int(e->d_name, 1, INT32_MAX, &n, NULL) == 0)
            return (pid_t)n;
    }
    return 0;
}

static DIR *open_folder(const char *root, const char *path)
{
    char full[DT_CGROUP_PATH];
    snprintf(full, sizeof full, "%s%s", root, path);
    return opendir(full);
}

static int64_t read_waited(pid_t pid, const char *root)
{
    char path[64];
    int64_t most = 0, ran, waited;
    int seen = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = open_folder(root, path);
    for (pid_t tid; seen < THREADS_MAX && (tid = next_number(tasks)); seen++)
        if (read_schedstat(pid, tid, root, &ran, &waited) && waited > most)
            most = waited;
    if (tasks)
        closedir(tasks);
    return most;
}

static int64_t read_throttled_us(pid_t pid, const char *root)
{
    struct dt_cgroup group;
    struct dt_buf text = {0};
    int64_t us = 0;
    dt_cgroup_find_of(&group, pid, "cpu", root);
    if (*group.folder && read_file(&text, root, "%s/cpu.stat", group.folder))
        us = group.v2 ? number_behind(dt_buf_cstr(&text), "throttled_usec")
                      : number_behind(dt_buf_cstr(&text), "throttled_time") / 1000;
    dt_buf_finish(&text);
    return us;
}

/* -- its processors --------------------------------------------------------------------------- */

static struct dt_cpuset processors_of(pid_t pid)
{
    struct dt_cpuset set = {0};
    syscall(SYS_sched_getaffinity, pid, sizeof set.words, set.words);
    return set;
}

/* A line "cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ..." of /proc/stat. */
static void add_processor(struct dt_lag_facts *f, const struct dt_cpuset *mine, const char *line)
{
    enum { STEAL = 7, COUNTED };
    char *rest;
    unsigned long number = strtoul(line, &rest, 10);
    if (rest == line || !dt_cpuset_has(mine, (unsigned)number))
        return;
    for (int i = 0; i < COUNTED; i++) {
        int64_t ms = ms_of_ticks(strtoll(rest, &rest, 10));
        f->processor_ms += ms;
        f->stolen_ms += i == STEAL ? ms : 0;
    }
}

static void read_stolen(struct dt_lag_facts *f, const struct dt_cpuset *mine, const char *root)
{
    struct dt_buf text = {0};
    if (read_file(&text, root, "/proc/stat"))
        for (const char *line = dt_buf_cstr(&text); line; line = strchr(line, '\n')) {
            line += *line == '\n';
            if (strncmp(line, "cpu", 3) == 0 && line[3] != ' ')
                add_processor(f, mine, line + 3);
        }
    dt_buf_finish(&text);
}

static int64_t read_of_processor(int n, const char *root, const char *file)
{
    struct dt_buf text = {0};
    bool well = read_file(&text, root, "/sys/devices/system/cpu/cpu%d/%s", n, file);
    int64_t value = well ? strtoll(dt_buf_cstr(&text), NULL, 10) : 0;
    dt_buf_finish(&text);
    return value;
}

static void read_clocks(struct dt_lag_facts *f, const struct dt_cpuset *mine, const char *root)
{
    int64_t khz = 0;
    int seen = 0;
    for (int n = dt_cpuset_next(mine, 0); n >= 0 && seen < PROCESSORS_MAX;
         n = dt_cpuset_next(mine, n + 1), seen++) {
        f->heat += read_of_processor(n, root, "thermal_throttle/core_throttle_count");
        khz += read_of_processor(n, root, "cpufreq/scaling_cur_freq");
    }
    f->mhz = seen > 0 ? (int)(khz / seen / 1000) : 0;
}

void dt_lag_facts_read(struct dt_lag_facts *f, pid_t pid, const char *root)
{
    struct stat_line s;
    *f = (struct dt_lag_facts){.at_ns = dt_clock_monotonic_ns()};
    f->there = read_stat(pid, root, &s);
    if (!f->there)
        return;
    struct dt_cpuset mine = processors_of(pid);
    f->faults = s.faults;
    f->disk_ms = s.disk_ms;
    f->waited_ns = read_waited(pid, root);
    f->throttled_us = read_throttled_us(pid, root);
    read_stolen(f, &mine, root);
    read_clocks(f, &mine, root);
}

/* -- who else runs there ---------------------------------------------------------------------- */

static bool runs_there(pid_t pid, const char *root, const struct dt_cpuset *mine,
                       struct stat_line *s)
{
    return read_stat(pid, root, s) && s->state == 'R' && s->processor >= 0 &&
           dt_cpuset_has(mine, (unsigned)s->processor);
}

bool dt_lag_rival(pid_t pid, const char *root, pid_t *rival, char name[DT_LAG_NAME_MAX])
{
    struct dt_cpuset mine = processors_of(pid);
    DIR *processes = open_folder(root, "/proc");
    int64_t longest = -1;
    int seen = 0;
    for (pid_t other; seen < PROCESSES_MAX && (other = next_number(processes)); seen++) {
        struct stat_line s;
        if (other == pid || other == getpid() || !runs_there(other, root, &mine, &s) ||
            s.cpu_ms <= longest)
            continue;
        longest = s.cpu_ms;
        *rival = other;
        dt_str_printable(dt_bytes_of(s.name), name, DT_LAG_NAME_MAX);
    }
    if (processes)
        closedir(processes);
    return longest >= 0;
}
