/* SPDX-License-Identifier: Apache-2.0 */
/* job_time RUNS COMMAND [ARG...]: runs a command, once for warming up and then RUNS times, and
 * prints the median of wall time in milliseconds, of processor time (with all that it waited for)
 * in milliseconds, and of its resident memory in KiB. The command's own output goes to /dev/null.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_RUNS 1000

static double milliseconds(struct timeval t)
{
    return (double)t.tv_sec * 1e3 + (double)t.tv_usec / 1e3;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

static int run(char **argv, double *wall, double *cpu, double *rss)
{
    struct rusage used;
    int status;
    double begun = now();
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &used) != pid || status != 0)
        return -1;
    *wall = now() - begun;
    *cpu = milliseconds(used.ru_utime) + milliseconds(used.ru_stime);
    *rss = (double)used.ru_maxrss;
    return 0;
}

int main(int argc, char **argv)
{
    double wall[MOST_RUNS], cpu[MOST_RUNS], rss[MOST_RUNS];
    int runs = argc > 2 ? atoi(argv[1]) : 0;
    if (runs < 1 || runs > MOST_RUNS) {
        fputs("Usage: job_time RUNS COMMAND [ARG...]\n", stderr);
        return 2;
    }
    for (int i = -1; i < runs; i++) {
        int at = i < 0 ? 0 : i;
        if (run(argv + 2, &wall[at], &cpu[at], &rss[at]) < 0) {
            fprintf(stderr, "job_time: %s failed\n", argv[2]);
            return 1;
        }
    }
    printf("%.3f %.3f %.0f\n", median(wall, runs), median(cpu, runs), median(rss, runs));
    return 0;
}
