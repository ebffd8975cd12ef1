/* SPDX-License-Identifier: Apache-2.0 */
/* job_restart FILE: a worker. In the first attempt all write down that they are there, and when all
 * are, rank 0 writes down the time and fails; in the next each writes down the time it began and
 * succeeds. job_restart FILE report: prints the milliseconds from the failure to the last of the
 * beginnings. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void note(const char *file, const char *what)
{
    char line[64];
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int n = snprintf(line, sizeof line, "%s %.6f\n", what, now());
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        exit(3);
    close(fd);
}

/* The number of lines that begin with WHAT, and the greatest time in them. */
static int count(const char *file, const char *what, double *last)
{
    char line[64];
    int n = 0;
    FILE *err = fopen(file, "r");
    *last = 0;
    while (err && fgets(line, sizeof line, err)) {
        if (strncmp(line, what, strlen(what)) != 0)
            continue;
        double at = atof(line + strlen(what));
        *last = at > *last ? at : *last;
        n++;
    }
    if (err)
        fclose(err);
    return n;
}

static int report(const char *file)
{
    double failed, begun;
    if (count(file, "failed", &failed) != 1 || count(file, "again", &begun) == 0)
        return 1;
    printf("%.3f\n", begun - failed);
    return 0;
}

int main(int argc, char **argv)
{
    double last;
    const char *attempt = getenv("TORCHELASTIC_RESTART_COUNT"), *rank = getenv("RANK"),
               *world = getenv("WORLD_SIZE");
    if (argc == 3)
        return report(argv[1]);
    if (argc != 2 || !attempt || !rank || !world)
        return 2;
    if (strcmp(attempt, "0") != 0) {
        note(argv[1], "again");
        return 0;
    }
    note(argv[1], "there");
    if (strcmp(rank, "0") != 0)
        for (;;)
            pause();
    while (count(argv[1], "there", &last) < atoi(world))
        usleep(1000);
    usleep(50000); /* all of them sleep in pause() by now */
    note(argv[1], "failed");
    return 1;
}
