/* SPDX-License-Identifier: Apache-2.0 */
/* The file of events that the real daemon writes: rotated, full, and after a kill. */
#include "base/fs.h"
#include "tests/lib/daemon.h"
#include "tests/lib/folder.h"
#include "tests/lib/node.h"

#include <signal.h>

#define PROGRAM getenv("DT_RENDEZVOUS")

BEFORE_ALL
{
    folder_make();
}

static void drain(const struct daemon_process *d, const char *name)
{
    struct node person = node_of("", "a person", 0, 1);
    node_greet(&person, d->port);
    node_send(&person,
              &(struct dt_message){.type = DT_MSG_DRAIN, .run = "", .drain.node = name, .why = ""});
    CHECK(node_hear(&person, DT_MSG_DRAIN)->drain.done);
    node_finish(&person);
}

/* Good until the next call. The daemon that writes there has ended, so all of it is there. */
static const char *read_file(const char *path)
{
    static char text[16384];
    struct dt_buf b = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_read(path, sizeof text - 1, &b, &err), err);
    snprintf(text, sizeof text, "%s", dt_buf_cstr(&b));
    dt_buf_finish(&b);
    return text;
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; (text = strchr(text, '\n')); text++)
        lines++;
    return lines;
}

TEST(each_event_is_a_line_of_json_in_the_file_that_is_asked_for)
{
    struct daemon_process d;
    char file[300];
    snprintf(file, sizeof file, "%s", at("events.log"));
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--event-log", file);
    drain(&d, "x");
    CHECK_EQ(daemon_stop(&d), 0);
    const char *text = read_file(file);
    CHECK_EQ(count_lines(text), 3);
    CHECK_EQ(strncmp(text, "{\"number\":1,\"time\":\"", 20), 0);
    CHECK(strstr(text, "\"kind\":\"node_drained\",\"weight\":\"warning\",\"node\":\"x\","
                       "\"words\":\"x is drained\"}\n") != NULL);
    CHECK(strstr(text, "{\"number\":3,") != NULL);
    CHECK(strstr(text, "\"kind\":\"server_stopped\"") != NULL);
}

TEST(a_file_that_was_moved_away_is_opened_anew)
{
    struct daemon_process d;
    char file[300], moved[300];
    snprintf(file, sizeof file, "%s", at("rotated.log"));
    snprintf(moved, sizeof moved, "%s", at("rotated.log.1"));
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--event-log", file);
    CHECK_EQ(rename(file, moved), 0);
    kill(d.pid, SIGHUP);
    CHECK(daemon_log_has(&d, "reloaded"));
    drain(&d, "x");
    CHECK_EQ(daemon_stop(&d), 0);
    CHECK(strstr(read_file(file), "\"node\":\"x\"") != NULL);
    CHECK(strstr(read_file(moved), "\"node\":\"x\"") == NULL);
    CHECK_EQ(count_lines(read_file(moved)) + count_lines(read_file(file)), 3);
}

TEST(a_full_disk_is_said_once_and_costs_nobody_anything)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--event-log", "/dev/full");
    CHECK(daemon_log_has(&d, "--event-log /dev/full: No space left on device"));
    for (int i = 0; i < 3; i++)
        drain(&d, i == 0 ? "x" : i == 1 ? "y" : "z");
    kill(d.pid, SIGTERM);
    CHECK_EQ(daemon_wait(&d), 0);
    CHECK_EQ(daemon_log_count(&d, "/dev/full"), 1);
    daemon_stop(&d);
}

TEST(a_file_that_cannot_be_opened_is_said_before_anybody_is_served)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--event-log", "/nonexistent/events");
    CHECK_EQ(daemon_wait(&d), 1);
    CHECK_EQ(daemon_log_count(&d, "--event-log: cannot open /nonexistent/events"), 1);
    daemon_stop(&d);
}

TEST(numbers_go_on_after_a_kill)
{
    struct daemon_process d;
    char file[300], dir_of_state[300];
    snprintf(file, sizeof file, "%s", at("killed.log"));
    snprintf(dir_of_state, sizeof dir_of_state, "%s", at("state"));
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--state-dir", dir_of_state);
    drain(&d, "x");
    kill(d.pid, SIGKILL);
    CHECK_EQ(daemon_wait(&d), 128 + SIGKILL);
    daemon_stop(&d);
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--state-dir", dir_of_state, "--event-log",
                 file);
    CHECK_EQ(daemon_stop(&d), 0);
    const char *text = read_file(file);
    CHECK_EQ(count_lines(text), 2); /* what an earlier one did is not told again */
    CHECK_EQ(strncmp(text, "{\"number\":3,", 12), 0);
    CHECK(strstr(text, "{\"number\":4,") != NULL);
}
