/* SPDX-License-Identifier: Apache-2.0 */
/* job_mark FILE: a worker that writes down when it began, as "NANOSECONDS RANK WORLD", and then
 * waits to be stopped. Of the wall clock, so that a shell's and a log's times can be compared. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *rank = getenv("RANK"), *world = getenv("WORLD_SIZE");
    struct timespec t;
    char line[80];
    if (argc != 2 || !rank || !world)
        return 2;
    clock_gettime(CLOCK_REALTIME, &t);
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0666);
    int n = snprintf(line, sizeof line, "%lld%09ld %s %s\n", (long long)t.tv_sec, t.tv_nsec, rank,
                     world);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        return 3;
    close(fd);
    for (;;)
        pause();
}
