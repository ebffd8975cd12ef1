/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/daemon.h"

#include "tests/lib/check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define CEILING_MS 60000

/* Tests look at resident memory, where AddressSanitizer would still count what was freed. */
static void keep_no_quarantine(void)
{
    char options[512];
    const char *given = getenv("ASAN_OPTIONS");
    snprintf(options, sizeof options, "%s:quarantine_size_mb=1", given ? given : "");
    setenv("ASAN_OPTIONS", options, 1);
}

static void run_child(const char *path, const char *const *args, int log_fd)
{
    char *argv[32] = {(char *)path};
    for (int i = 0; args[i] && i < 30; i++)
        argv[i + 1] = (char *)args[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    keep_no_quarantine();
    dup2(log_fd, STDERR_FILENO);
    execv(path, argv);
    _exit(127);
}

/* Reads some more of the log. False at its end, which is the daemon's. */
static bool read_log(struct daemon_process *d)
{
    struct pollfd p = {.fd = d->log_fd, .events = POLLIN};
    CHECK(poll(&p, 1, CEILING_MS) == 1);
    uint8_t *room = dt_buf_room(&d->log, 4096);
    CHECK(room != NULL);
    ssize_t n = read(d->log_fd, room, 4096);
    if (n <= 0)
        return false;
    dt_buf_grew(&d->log, (size_t)n);
    return true;
}

/* The number behind the last colon of the first line that says where the daemon listens; 0 for a
 * unix socket. */
static uint16_t find_port(struct daemon_process *d)
{
    const char *line;
    while ((line = strstr(dt_buf_cstr(&d->log), "listening on ")) && !strchr(line, '\n'))
        CHECK(read_log(d));
    if (!line)
        return 0;
    const char *at = strchr(line, '\n');
    while (*at != ':' && *at != ' ')
        at--;
    return (uint16_t)atoi(at + 1);
}

void daemon_start(struct daemon_process *d, const char *ready, const char *path,
                  const char *const *args)
{
    int ends[2];
    *d = (struct daemon_process){0};
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    d->pid = fork();
    CHECK(d->pid >= 0);
    if (d->pid == 0)
        run_child(path, args, ends[1]);
    close(ends[1]);
    d->log_fd = ends[0];
    if (daemon_log_has(d, ready))
        d->port = find_port(d);
    else
        check_say(dt_buf_cstr(&d->log)); /* whoever wanted it to start reads here why it did not */
}

int daemon_log_count(struct daemon_process *d, const char *words)
{
    int n = 0;
    for (const char *at = dt_buf_cstr(&d->log); (at = strstr(at, words)); at++)
        n++;
    return n;
}

bool daemon_log_has(struct daemon_process *d, const char *words)
{
    while (!strstr(dt_buf_cstr(&d->log), words))
        if (!read_log(d))
            return false;
    return true;
}

int daemon_wait(struct daemon_process *d)
{
    while (read_log(d))
        ;
    if (!d->over) {
        CHECK(waitpid(d->pid, &d->status, 0) == d->pid);
        d->over = true;
    }
    return WIFEXITED(d->status) ? WEXITSTATUS(d->status) : 128 + WTERMSIG(d->status);
}

int daemon_stop(struct daemon_process *d)
{
    kill(d->pid, SIGTERM);
    int rc = daemon_wait(d);
    close(d->log_fd);
    dt_buf_finish(&d->log);
    return rc;
}

/* The number of KiB behind NAME in /proc. */
static long read_kib(const struct daemon_process *d, const char *name)
{
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", d->pid);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0) {
            kib = atol(line + strlen(name));
            break;
        }
    fclose(f);
    return kib;
}

long daemon_rss(const struct daemon_process *d)
{
    return read_kib(d, "VmRSS:");
}

long daemon_rss_peak(const struct daemon_process *d)
{
    return read_kib(d, "VmHWM:");
}
