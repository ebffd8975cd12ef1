/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal that the test sits at, for jobs that run on one. */
#ifndef DT_TESTS_TERMINAL_H
#define DT_TESTS_TERMINAL_H

#include "tests/lib/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

/* The test's end; ptsname() of it is the terminal. Skips the test where there is none. */
static inline int terminal_open(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 || access(ptsname(master), R_OK))
        SKIP("no pseudo-terminal can be had (is /dev/pts mounted?): %s", strerror(errno));
    return master;
}

#endif
