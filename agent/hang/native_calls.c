/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/native_calls.h"

#include "agent/hang/native_place.h"
#include "agent/look/process.h"
#include "base/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE 4
#define READ_SIZE 16384
#define NOT_STARTED "no further process can be started\n"

extern char **environ;

/* A `dtrun --look` of one worker. */
struct helper {
    struct dt_child child; /* its pid 0: it could not be started */
    const struct dt_survey_worker *of;
    uint64_t started; /* the worker, and ... */
    char state;       /* ... what it did then */
    struct dt_buf text;
};

/* -- its process ------------------------------------------------------------------------------ */

/* Nothing of the job's, which may hold options and secrets. */
static void choose_env(char *env[3])
{
    static const char *const names[] = {"DTRUN_PLUGIN_DIR=", "LD_LIBRARY_PATH="};
    size_t len = 0;
    for (char **e = environ; *e && len < 2; e++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strncmp(*e, names[i], strlen(names[i])) == 0)
                env[len++] = *e;
    env[len] = NULL;
}

static int spawn(pid_t worker, struct dt_child *c)
{
    char number[16], *env[3];
    char *const argv[] = {(char[]){"dtrun"},    (char[]){"--look"}, number,
                          (char[]){"--native"}, (char[]){"--json"}, NULL};
    const struct dt_child_order o = {.path = "/proc/self/exe", .argv = argv, .env = env};
    snprintf(number, sizeof number, "%d", (int)worker);
    choose_env(env);
    return dt_child_start(c, &o);
}

/* One that has no time is not started. */
static void start(struct helper *h, const struct dt_survey_worker *of, dt_ms until)
{
    struct dt_look_task main = {0};
    *h = (struct helper){.of = of};
    if (!of->pid || dt_clock_monotonic() >= until)
        return;
    h->state = dt_look_process_glance(of->pid, &main, &h->started) ? main.state : 'Z';
    if (spawn(of->pid, &h->child) != 0)
        dt_buf_put_str(&h->text, NOT_STARTED);
}

/* -- its answer ------------------------------------------------------------------------------- */

/* False: there is more, for which there is no time or no room. */
static bool read_text(struct helper *h, dt_ms until)
{
    struct pollfd polled = {.fd = h->child.output, .events = POLLIN};
    while (h->text.len < DT_NATIVE_PLACE_TEXT_MAX) {
        dt_ms left = until - dt_clock_monotonic();
        uint8_t *room = dt_buf_room(&h->text, READ_SIZE);
        if (left <= 0 || !room)
            return false;
        if (poll(&polled, 1, (int)left) != 1)
            continue;
        ssize_t n = read(h->child.output, room, READ_SIZE);
        if (n <= 0)
            return n == 0;
        dt_buf_grew(&h->text, (size_t)n);
    }
    return false;
}

/* One that is killed may leave a signal to stop behind in the worker; SIGCONT takes it away. */
static void end(struct helper *h, bool done)
{
    struct dt_look_task main;
    uint64_t started;
    close(h->child.output);
    if (!done)
        kill(-h->child.pid, SIGKILL);
    while (waitpid(h->child.pid, NULL, 0) < 0 && errno == EINTR) /* unless the guard has taken it */
        ;
    if (!done && !strchr("Tt", h->state) && dt_look_process_glance(h->of->pid, &main, &started) &&
        started == h->started)
        kill(h->of->pid, SIGCONT);
}

static void finish(struct helper *h, struct dt_stance *stance, dt_ms until)
{
    if (h->child.pid > 0)
        end(h, read_text(h, until));
    if (h->of->pid)
        dt_native_place_tell((struct dt_bytes){h->text.at, h->text.len}, h->of->pid, stance);
    dt_buf_finish(&h->text);
}

void dt_native_calls_tell(const struct dt_survey_worker *workers, int count,
                          struct dt_stance *stances)
{
    struct helper helpers[AT_ONCE];
    dt_ms until = dt_clock_monotonic() + DT_NATIVE_CALLS_TIME_MAX;
    for (int first = 0; first < count; first += AT_ONCE) {
        int len = count - first < AT_ONCE ? count - first : AT_ONCE;
        for (int i = 0; i < len; i++)
            start(&helpers[i], &workers[first + i], until);
        for (int i = 0; i < len; i++)
            finish(&helpers[i], &stances[first + i], until);
    }
}
