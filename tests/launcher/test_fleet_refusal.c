/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/refusal.h"
#include "tests/lib/check.h"

/* clang-format off */
TEST(what_is_said_of_a_host_where_dtrun_did_not_begin)
{
    static const struct { int status; const char *last_line, *own_path, *words; } rows[] = {
        {127, "bash: line 1: dtrun: command not found", "/opt/bin/dtrun",
         "b: `dtrun` was not found there; install dtrun on that host, or give its path with --remote-dtrun "
         "(here it is /opt/bin/dtrun)"},
        {127, "", "dtrun", "b: `dtrun` was not found there; install dtrun on that host, or give its path with --remote-dtrun"},
        {126, "sh: 1: dtrun: Permission denied", NULL, "b: `dtrun` cannot be executed there: sh: 1: dtrun: Permission denied"},
        {2, "dtrun: --fleet-agent: no such option", NULL, "b: `dtrun` there is too old to be started from here; install dtrun "
         DT_VERSION " on that host, or give its path with --remote-dtrun"},
        {2, "`dtrun --help` lists the options.", NULL, "b: `dtrun` there is too old to be started from here; install dtrun "
         DT_VERSION " on that host, or give its path with --remote-dtrun"},
        {255, "Host key verification failed.", NULL,
         "b: ssh does not know, or does not believe, the host's key; connect once by hand: ssh b"},
        {255, "ada@b: Permission denied (publickey).", NULL,
         "b: no login without a password: ada@b: Permission denied (publickey).; set up a key: ssh-copy-id b"},
        {255, "ssh: connect to host b port 22: No route to host", NULL,
         "b: cannot be reached: ssh: connect to host b port 22: No route to host"},
        {255, "ssh: Could not resolve hostname b: Name or service not known", NULL,
         "b: cannot be reached: ssh: Could not resolve hostname b: Name or service not known"},
        {255, "", NULL, "b: cannot be reached: it said nothing"},
        {1, "srun: error: Unable to create step", NULL,
         "b: ssh ended with status 1 before dtrun began there: srun: error: Unable to create step"},
        {-9, "", NULL, "b: ssh was ended by signal 9 before dtrun began there: it said nothing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%d, %s", rows[i].status, rows[i].last_line);
        struct dt_err err = {0};
        struct dt_fleet_refusal r = {.host = "b", .remote = "dtrun", .agent = "ssh", .own_path = rows[i].own_path,
                                     .last_line = rows[i].last_line, .status = rows[i].status};
        dt_fleet_refusal_tell(&r, &err);
        CHECK_STR(err.text, rows[i].words);
    }
}
/* clang-format on */
