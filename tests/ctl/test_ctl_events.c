/* SPDX-License-Identifier: Apache-2.0 */
/* The real dtrun-ctl ($DT_CTL) at a real rendezvous ($DT_RENDEZVOUS): what happened, and what
 * happens next, also over the end of the rendezvous. */
#include "base/fs.h"
#include "tests/lib/daemon.h"
#include "tests/lib/folder.h"
#include "tests/lib/port.h"

#include <signal.h>
#include <sys/wait.h>

#define PROGRAM getenv("DT_RENDEZVOUS")

BEFORE_ALL
{
    folder_make();
    if (!getenv("DT_CTL"))
        SKIP("DT_CTL does not name the program");
}

static char out[16384];

/* Its exit status; `out` has all that it said. */
static int ctl(uint16_t port, const char *args)
{
    char line[1024];
    struct dt_buf b = {0};
    struct dt_err err = {0};
    snprintf(line, sizeof line, "\"$DT_CTL\" --endpoint 127.0.0.1:%d %s >'%s' 2>&1", port, args,
             at("out"));
    int status = system(line);
    CHECK_OK(dt_fs_read(at("out"), sizeof out - 1, &b, &err), err);
    snprintf(out, sizeof out, "%s", dt_buf_cstr(&b));
    dt_buf_finish(&b);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int count(const char *text, const char *words)
{
    int n = 0;
    for (; (text = strstr(text, words)); text++)
        n++;
    return n;
}

TEST(events_are_lines_for_people_or_json_for_programs)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0");
    CHECK_EQ(ctl(d.port, "node drain node7 --why 'a new disk'"), 0);
    CHECK_EQ(ctl(d.port, "events"), 0);
    CHECK_EQ(count(out, "\n"), 2);
    CHECK(strstr(out, "Z info     server_started: the rendezvous started\n") != NULL);
    CHECK(strstr(out, "Z warning  node_drained: node7 is drained (a new disk)\n") != NULL);
    CHECK_EQ(ctl(d.port, "events --json --since 2"), 0);
    CHECK_EQ(count(out, "\n"), 1);
    CHECK_EQ(strncmp(out, "{\"number\":2,\"time\":\"20", 22), 0);
    CHECK(strstr(out, "\"node\":\"node7\",\"words\":\"node7 is drained (a new disk)\"}\n") != NULL);
    CHECK_EQ(ctl(d.port, "events llama"), 0);
    CHECK_STR(out, "no such event is kept; without the name of a run, those of all are shown\n");
    CHECK_EQ(ctl(d.port, "events llama --json"), 0);
    CHECK_STR(out, "");
    CHECK_EQ(ctl(d.port, "events --since 1h"), 0);
    CHECK_EQ(count(out, "\n"), 2);
    CHECK_EQ(ctl(d.port, "events --since 2999-01-01"), 0);
    CHECK_STR(out, "no such event is kept\n");
    CHECK_EQ(ctl(d.port, "events --since yesterday"), 2);
    CHECK(strstr(out, "--since: \"yesterday\" is no number of an event, and no time") != NULL);
    CHECK_EQ(ctl(d.port, "status --follow"), 2);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* What it prints is read as the log of a daemon is. */
static void start_following(struct daemon_process *f, int port, const char *options)
{
    char line[512];
    snprintf(line, sizeof line, "exec \"$DT_CTL\" --endpoint 127.0.0.1:%d events --follow %s 1>&2",
             port, options);
    daemon_start(f, "server_started", "/bin/sh", (const char *const[]){"-c", line, NULL});
}

static void check_ends_by(struct daemon_process *f, int signal)
{
    kill(f->pid, signal);
    CHECK_EQ(daemon_wait(f), 128 + signal);
    daemon_stop(f);
}

TEST(who_follows_sees_each_event_once_also_over_a_kill_of_the_rendezvous)
{
    struct daemon_process d, f;
    char addr[32], dir_of_state[300];
    int port = port_take();
    snprintf(addr, sizeof addr, "127.0.0.1:%d", port);
    snprintf(dir_of_state, sizeof dir_of_state, "%s", at("state"));
    DAEMON_START(&d, PROGRAM, "--listen", addr, "--state-dir", dir_of_state);
    start_following(&f, port, "");
    CHECK_EQ(ctl(d.port, "node drain x"), 0);
    CHECK(daemon_log_has(&f, "x is drained"));
    kill(d.pid, SIGKILL);
    CHECK_EQ(daemon_wait(&d), 128 + SIGKILL);
    daemon_stop(&d);
    CHECK(daemon_log_has(&f, "dtrun-ctl: rendezvous "));
    DAEMON_START(&d, PROGRAM, "--listen", addr, "--state-dir", dir_of_state);
    CHECK_EQ(ctl(d.port, "node undrain x"), 0);
    CHECK(daemon_log_has(&f, "x may be given a seat again"));
    check_ends_by(&f, SIGINT);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(who_follows_says_that_a_rendezvous_forgot_its_events)
{
    struct daemon_process d, f;
    char addr[32];
    int port = port_take();
    snprintf(addr, sizeof addr, "127.0.0.1:%d", port);
    DAEMON_START(&d, PROGRAM, "--listen", addr);
    CHECK_EQ(ctl((uint16_t)port, "node drain x"), 0);
    start_following(&f, port, "--json");
    CHECK(daemon_log_has(&f, "x is drained"));
    CHECK_EQ(daemon_stop(&d), 0);
    DAEMON_START(&d, PROGRAM, "--listen", addr);
    CHECK(daemon_log_has(&f, "the rendezvous was started without its events"));
    CHECK_EQ(ctl(d.port, "node drain y"), 0);
    CHECK(daemon_log_has(&f, "y is drained"));
    CHECK_EQ(daemon_log_count(&f, "server_started"), 2);
    CHECK_EQ(daemon_log_count(&f, "\"number\":1,"), 2);
    check_ends_by(&f, SIGTERM);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(nobody_to_ask_is_said_at_once)
{
    int port = port_take();
    CHECK_EQ(ctl((uint16_t)port, "events --follow"), 1);
    CHECK(strstr(out, "cannot connect") != NULL);
}
