/* SPDX-License-Identifier: Apache-2.0 */
/* Glances at a worker, one after the other. */
#include "agent/look/glance.h"
#include "tests/agent/look_script.h"

#include <poll.h>
#include <sys/syscall.h>

TEST(a_glance_sees_the_main_thread_of_the_first_python_below)
{
    static const char shell[] = "%s -c 'import os, threading\n"
                                "threading.Thread(target=os.read, args=(0, 1)).start()\n"
                                "os.write(1, b\"x\"), os.read(0, 1)'; true";
    struct script s;
    struct dt_glance_seen seen;
    char command[256], byte;
    snprintf(command, sizeof command, shell, python());
    char *argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, command, NULL};
    start_program(&s, argv);
    CHECK_EQ(read(s.out, &byte, 1), 1);
    struct dt_glance g = {.root = s.pid};
    for (int i = 0; i < 3; i++) {
        CHECK_ROW("glance %d", i);
        dt_glance_take(&g, &seen);
        CHECK(seen.lives && seen.main != NULL);
        CHECK_EQ(seen.main->frames[seen.main->depth - 1].line, 3);
        dt_glance_finish(&seen);
    }
    CHECK(g.pid != s.pid);
    struct pollfd dead = {.fd = (int)syscall(SYS_pidfd_open, g.pid, 0), .events = POLLIN};
    CHECK(dead.fd >= 0);
    kill(g.pid, SIGKILL);
    CHECK_EQ(poll(&dead, 1, -1), 1);
    close(dead.fd);
    end(&s);
    dt_glance_take(&g, &seen);
    CHECK(!seen.lives && seen.main == NULL);
    dt_glance_finish(&seen);
}

TEST(a_glance_at_no_python_tells_what_the_kernel_does)
{
    struct script s;
    struct dt_glance_seen seen;
    char *argv[] = {(char[]){"/bin/cat"}, NULL}, byte;
    start_program(&s, argv);
    CHECK(write(s.in, "x", 1) == 1 && read(s.out, &byte, 1) == 1);
    struct dt_glance g = {.root = s.pid};
    for (int i = 0; i < 3; i++) {
        dt_glance_take(&g, &seen);
        CHECK(seen.lives && seen.main == NULL && g.pid == 0);
        dt_glance_finish(&seen);
    }
    end(&s);
}
