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
#define DIGITS 10
#define MOST_RANKS 4096

/* "<0007 0000000042 xxx...>\n". Making and checking lines must cost next to nothing, or it would be
 * what is measured. */
#define RANK_AT 1
#define NUMBER_AT 6

static void put_digits(char *at, int digits, long value)
{
    for (at += digits; digits > 0; digits--, value /= 10)
        *--at = (char)('0' + value % 10);
}

static long get_digits(const char *at, int digits)
{
    long value = 0;
    for (; digits > 0; digits--, at++)
        value = 10 * value + (*at - '0');
    return value;
}

static void make_lines(char *block, size_t lines, long rank)
{
    for (size_t i = 0; i < lines; i++) {
        char *line = block + i * LINE;
        memset(line, 'x', LINE);
        line[0] = '<';
        line[RANK_AT + 4] = line[NUMBER_AT + DIGITS] = ' ';
        put_digits(line + RANK_AT, 4, rank);
        line[LINE - 2] = '>';
        line[LINE - 1] = '\n';
    }
}

static int flood(long mib, size_t step)
{
    static char block[1 << 20];
    const char *rank = getenv("RANK");
    long lines = (mib << 20) / LINE, made = 0;
    size_t each = step / LINE;
    if (each == 0 || step > sizeof block)
        return 2;
    make_lines(block, each, rank ? atol(rank) : 0);
    while (made < lines) {
        size_t now = (long)each < lines - made ? each : (size_t)(lines - made);
        for (size_t i = 0; i < now; i++)
            put_digits(block + i * LINE + NUMBER_AT, DIGITS, made++);
        for (size_t done = 0; done < now * LINE;) {
            ssize_t n = write(1, block + done, now * LINE - done);
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
    const char *at = len >= LINE - 1 ? line + len - (LINE - 1) : line;
    if (len < LINE - 1 || *at != '<' || line[len - 1] != '>') {
        ++*torn;
        return;
    }
    long rank = get_digits(at + RANK_AT, 4), number = get_digits(at + NUMBER_AT, DIGITS);
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
