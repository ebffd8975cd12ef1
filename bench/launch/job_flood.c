/* SPDX-License-Identifier: Apache-2.0 */
/* job_flood MIB BYTES: a worker that writes so much to standard output, BYTES at a time, in lines
 * of 100 bytes that name the rank and count themselves. job_flood check RANKS MIB: reads a console
 * that shows these lines with prefixes, and prints how many were lost, torn or out of order, and
 * how many bytes there were. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 100
#define MOST_RANKS 4096

static int flood(long mib, size_t step)
{
    static char block[1 << 20];
    const char *rank = getenv("RANK");
    long lines = (mib << 20) / LINE, made = 0;
    size_t filled = 0, room = step / LINE * LINE;
    if (room == 0 || room > sizeof block)
        return 2;
    while (made < lines) {
        for (filled = 0; filled < room && made < lines; filled += LINE, made++) {
            char *line = block + filled;
            int n = snprintf(line, LINE, "<%s %ld ", rank ? rank : "0", made);
            memset(line + n, 'x', (size_t)(LINE - n));
            line[LINE - 2] = '>';
            line[LINE - 1] = '\n';
        }
        for (size_t done = 0; done < filled;) {
            ssize_t n = write(1, block + done, filled - done);
            if (n <= 0)
                return 1;
            done += (size_t)n;
        }
    }
    return 0;
}

/* One line of the console; the prefix is whatever stands before the '<'. */
static void look(const char *line, size_t len, long *next, long *torn, long *misplaced)
{
    const char *at = memchr(line, '<', len);
    char *rest;
    if (!at || len - (size_t)(at - line) != LINE - 1 || line[len - 1] != '>') {
        ++*torn;
        return;
    }
    long rank = strtol(at + 1, &rest, 10), number = strtol(rest, NULL, 10);
    if (rank < 0 || rank >= MOST_RANKS || next[rank] != number)
        ++*misplaced;
    else
        next[rank]++;
}

static int check(int ranks, long mib)
{
    static char block[1 << 20];
    static long next[MOST_RANKS];
    long torn = 0, misplaced = 0, lost = 0, bytes = 0, each = (mib << 20) / LINE;
    size_t held = 0;
    ssize_t n;
    while ((n = read(0, block + held, sizeof block - held)) > 0) {
        char *at = block, *end = block + held + n, *newline;
        bytes += n;
        while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
            look(at, (size_t)(newline - at), next, &torn, &misplaced);
            at = newline + 1;
        }
        held = (size_t)(end - at);
        memmove(block, at, held);
    }
    for (int r = 0; r < ranks; r++)
        lost += each - next[r];
    printf("%ld %ld %ld %ld\n", lost, torn + (held > 0), misplaced, bytes);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "check") == 0)
        return check(atoi(argv[2]), atol(argv[3]));
    if (argc == 3)
        return flood(atol(argv[1]), (size_t)atol(argv[2]));
    fputs("Usage: job_flood MIB BYTES | job_flood check RANKS MIB\n", stderr);
    return 2;
}
