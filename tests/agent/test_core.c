/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/core.h"
#include "tests/lib/check.h"

#include <signal.h>

#define SHARED ", which the next one overwrites: set kernel.core_uses_pid to 1"

TEST(the_pattern_of_the_kernel_says_where_a_core_dump_is)
{
    static const struct {
        const char *pattern;
        bool uses_pid;
        const char *where;
    } rows[] = {
        {"core", false, "/runs/core" SHARED},
        {"core", true, "/runs/core.812"},
        {"core.%p", false, "/runs/core.812"},
        {"core.%p", true, "/runs/core.812"},
        {"/var/crash/%e.%s.%t", false, "/var/crash/*.11.*" SHARED},
        {"/var/crash/%e-%P", false, "/var/crash/*-*"},
        {"100%%_core%", false, "/runs/100%_core" SHARED},
        {"|/usr/lib/systemd/systemd-coredump %P %u %g", false, "see it by: coredumpctl info 812"},
        {"|/usr/share/apport/apport -p%p", true,
         "/usr/share/apport/apport has it, as kernel.core_pattern says"},
        {"|", false, " has it, as kernel.core_pattern says"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char where[512];
        struct dt_core core = {rows[i].pattern, rows[i].uses_pid, 812, SIGSEGV, "/runs"};
        CHECK_ROW("%s", rows[i].pattern);
        CHECK_STR(dt_core_where(&core, where, sizeof where), rows[i].where);
        dt_core_where(&core, where, 6);
        CHECK_EQ(strlen(where), 5);
    }
}
