/* SPDX-License-Identifier: Apache-2.0 */
/* The file of events that the real daemon writes: rotated, full, and after a kill. */
#include "base/fs.h"
#include "tests/lib/daemon.h"
#include "tests/lib/folder.h"
#include "tests/lib/node.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

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

/* A FIFO that takes nothing more: what writes there hangs. To be closed. */
static int make_full_fifo(const char *path)
{
    static const char bytes[4096];
    CHECK_EQ(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    CHECK(fd >= 0);
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
    return fd;
}

TEST(a_disk_that_hangs_is_not_waited_for_at_the_end_and_what_it_lacks_is_said)
{
    struct daemon_process d;
    char file[300], said[400];
    snprintf(file, sizeof file, "%s", at("hangs"));
    snprintf(said, sizeof said, "--event-log %s: the disk hangs", file);
    int reader = make_full_fifo(file);
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--event-log", file);
    drain(&d, "x");
    kill(d.pid, SIGTERM);
    CHECK_EQ(daemon_wait(&d), 0);
    CHECK_EQ(daemon_log_count(&d, said), 1);
    CHECK_EQ(daemon_log_count(&d, ": events 1 to 3 may be missing"), 1);
    daemon_stop(&d);
    close(reader);
}

TEST(a_disk_that_hangs_does_not_hold_up_who_asks_a_second_time)
{
    struct daemon_process d;
    char file[300];
    snprintf(file, sizeof file, "%s", at("hangs too"));
    int reader = make_full_fifo(file);
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--event-log", file);
    kill(d.pid, SIGTERM);
    CHECK(daemon_log_has(&d, "no new clients"));
    kill(d.pid, SIGTERM);
    CHECK_EQ(daemon_wait(&d), 0);
    CHECK_EQ(daemon_log_count(&d, "events 1 to 2 may be missing"), 1);
    daemon_stop(&d);
    close(reader);
}

TEST(a_fifo_that_nobody_reads_is_said_before_anybody_is_served)
{
    struct daemon_process d;
    char file[300];
    snprintf(file, sizeof file, "%s", at("unread"));
    CHECK_EQ(mkfifo(file, 0600), 0);
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--event-log", file);
    CHECK_EQ(daemon_wait(&d), 1);
    CHECK_EQ(daemon_log_count(&d, "a FIFO that nobody reads: No such device or address"), 1);
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

/* -- under systemd ---------------------------------------------------------------------------- */

/* Starts the daemon as a unit is: standard error is connected with the journal, whose socket (if
 * any) is in FOLDER. */
static void start_as_unit(struct daemon_process *d, const char *ready, const char *folder)
{
    char script[1024];
    snprintf(script, sizeof script,
             "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && "
             "mount --bind '%s' /run/systemd/journal && "
             "JOURNAL_STREAM=$(stat -L -c %%d:%%i /proc/self/fd/2) exec \"$DT_RENDEZVOUS\" "
             "--listen 127.0.0.1:0",
             folder);
    daemon_start(d, ready, "/usr/bin/unshare",
                 (const char *const[]){"--mount", geteuid() ? "--map-root-user" : "--mount", "sh",
                                       "-c", script, NULL});
}

static void skip_without_namespaces(void)
{
    if (system(geteuid() ? "unshare --mount --map-root-user true" : "unshare --mount true") != 0)
        SKIP("this user may not have a mount namespace");
}

/* The socket of a journal in FOLDER, which waits half a minute for an entry. */
static int serve_journal(const char *folder)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = 30};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/socket", folder);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

/* The next entry with WORDS. */
static const char *entry_with(int journal, const char *words)
{
    static char entry[8192];
    do {
        ssize_t n = recv(journal, entry, sizeof entry - 1, 0);
        CHECK(n > 0);
        entry[n] = '\0';
    } while (!strstr(entry, words));
    return entry;
}

TEST(the_journal_gets_events_with_their_fields)
{
    struct daemon_process d;
    char folder[300];
    skip_without_namespaces();
    snprintf(folder, sizeof folder, "%s", at("journald"));
    CHECK_EQ(mkdir(folder, 0755), 0);
    int journal = serve_journal(folder);
    start_as_unit(&d, "", folder);
    CHECK_STR(entry_with(journal, "server_started"),
              "PRIORITY=6\nSYSLOG_IDENTIFIER=dtrun-rendezvous\nMESSAGE=the rendezvous started\n"
              "DTRUN_KIND=server_started\n");
    d.port = (uint16_t)atoi(strstr(entry_with(journal, "listening on "), "127.0.0.1:") + 10);
    drain(&d, "x");
    CHECK_STR(entry_with(journal, "node_drained"),
              "PRIORITY=4\nSYSLOG_IDENTIFIER=dtrun-rendezvous\nMESSAGE=x is drained\n"
              "DTRUN_KIND=node_drained\nDTRUN_NODE=x\n");
    kill(d.pid, SIGTERM);
    CHECK_EQ(daemon_wait(&d), 0);
    CHECK_STR(dt_buf_cstr(&d.log), "");
    daemon_stop(&d);
    close(journal);
}

TEST(a_journal_that_cannot_be_spoken_to_gets_lines_with_their_priority)
{
    struct daemon_process d;
    char folder[300];
    skip_without_namespaces();
    snprintf(folder, sizeof folder, "%s", at("no-journald"));
    CHECK_EQ(mkdir(folder, 0755), 0);
    start_as_unit(&d, "<6>listening on ", folder);
    drain(&d, "x");
    CHECK(daemon_log_has(&d, "\n<4>x is drained\n"));
    CHECK_EQ(daemon_stop(&d), 0);
}
