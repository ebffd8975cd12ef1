/* SPDX-License-Identifier: Apache-2.0 */
/* See fail.h. The alarm handler uses write() and _exit() only. */
#include "bench/fail.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

int fail_set(struct fail *f, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof(f->text), fmt, ap);
    va_end(ap);
    f->code = code;
    return -1;
}

int fail_print(const struct fail *f, const char *program)
{
    fprintf(stderr, "%s: %s\n", program, f->text);
    return f->code;
}

static void on_alarm(int sig)
{
    static const char text[] = "the run did not end in its time limit; given up\n";
    (void)sig;
    ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)n;
    _exit(FAIL_RUN);
}

void fail_after(unsigned seconds)
{
    signal(SIGALRM, on_alarm);
    alarm(seconds);
}
