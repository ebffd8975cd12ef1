/* SPDX-License-Identifier: Apache-2.0 */
/* A mistake of its own that the code under test reports ends the test: linked in with
 * -Wl,--wrap=dt_bug, see no_bug_dep. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void __wrap_dt_bug(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

void __wrap_dt_bug(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("a bug that the code found itself: ", stderr);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}
