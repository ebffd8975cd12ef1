/* SPDX-License-Identifier: Apache-2.0 */
/* The error value of the benchmark programs: an exit status and one sentence, on the caller's
 * stack. Whoever knows the cause fills it; main() prints it and leaves. */
#ifndef BENCH_FAIL_H
#define BENCH_FAIL_H

enum {
    FAIL_RUN = 1,   /* met while running: no connection, wrong answer, count that does not add up */
    FAIL_USAGE = 2, /* a bad command line */
};

struct fail {
    int code;
    char text[256];
};

/* Fills *f and returns -1, so that failing is one line. */
int fail_set(struct fail *f, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Prints "PROGRAM: sentence" on stderr and returns the exit status. */
int fail_print(const struct fail *f, const char *program);

/* Arms an alarm that ends the process with a sentence and status 1: the last guard against a run
 * without end. */
void fail_after(unsigned seconds);

#endif
