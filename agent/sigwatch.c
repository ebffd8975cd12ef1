/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sigwatch.h"

#include "base/loop/ending.h"
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct dt_sigwatch {
    void (*on_signal)(void *arg, int signum);
    void *arg;
    struct dt_ending ending;
    int count;
    uv_signal_t watchers[64];
};

static bool is_ignored(int signum)
{
    struct sigaction a;
    return sigaction(signum, NULL, &a) == 0 && a.sa_handler == SIG_IGN;
}

static void on_signal(uv_signal_t *w, int signum)
{
    struct dt_sigwatch *s = w->data;
    s->on_signal(s->arg, signum);
}

struct dt_sigwatch *dt_sigwatch_open(uv_loop_t *loop, uint64_t set,
                                     void (*handler)(void *arg, int signum), void *arg,
                                     struct dt_err *err)
{
    struct dt_sigwatch *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for signals");
        return NULL;
    }
    s->on_signal = handler;
    s->arg = arg;
    for (int n = 1; n < 64; n++) {
        if (!(set >> n & 1) || is_ignored(n))
            continue;
        uv_signal_t *w = &s->watchers[s->count];
        int rc = uv_signal_init(loop, w);
        if (rc < 0) { /* the loop's first one needs a pipe */
            dt_err_set(err, DT_E_RUNTIME, "no signals can be heard: %s", uv_strerror(rc));
            dt_sigwatch_close(s, NULL, NULL);
            return NULL;
        }
        s->count++;
        w->data = s;
        uv_signal_start(w, on_signal, n); /* fails for SIGKILL and SIGSTOP, which no one can hear */
        uv_unref((uv_handle_t *)w);
    }
    return s;
}

void dt_sigwatch_stop_process(void)
{
    struct sigaction ours, plain = {.sa_handler = SIG_DFL};
    sigaction(SIGTSTP, &plain, &ours);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &ours, NULL);
}

void dt_sigwatch_close(struct dt_sigwatch *s, void (*on_closed)(void *arg), void *arg)
{
    dt_ending_begin(&s->ending, free, s, on_closed, arg);
    dt_ending_add(&s->ending); /* for there may be no watcher */
    for (int i = 0; i < s->count; i++) {
        int signum = s->watchers[i].signum;
        dt_ending_close(&s->ending, &s->watchers[i]); /* which lets it kill again */
        if (signum)
            signal(signum, SIG_IGN);
    }
    dt_ending_step(&s->ending);
}
