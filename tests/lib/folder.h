/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of one test program's own, gone when it ends. folder_make() belongs into BEFORE_ALL. */
#ifndef DT_TESTS_FOLDER_H
#define DT_TESTS_FOLDER_H

#include "tests/lib/check.h"

static char dir[64];
static pid_t dir_owner; /* a forked child's exit does not remove it */

/* Names in it; good for four calls. */
static inline const char *at(const char *name)
{
    static char path[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static inline void folder_remove(void)
{
    char command[128];
    if (getpid() != dir_owner)
        return;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0)
        puts("# the folder of this test stays in /tmp");
}

static inline void folder_make(void)
{
    strcpy(dir, "/tmp/dtrun-test.XXXXXX");
    if (!mkdtemp(dir))
        SKIP("no folder can be made in /tmp");
    dir_owner = getpid();
    atexit(folder_remove);
}

#endif
