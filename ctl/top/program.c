/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/program.h"

#include "ctl/top/signals.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define OURSELVES "/proc/self/exe"

static void add(struct dt_top_program *p, size_t *count, const char *arg)
{
    p->argv[(*count)++] = arg;
}

static void add_option(struct dt_top_program *p, size_t *count, const char *name, const char *value)
{
    if (!value)
        return;
    add(p, count, name);
    add(p, count, value);
}

/* At most 17, and a NULL. */
void dt_top_program_logs(struct dt_top_program *p, const struct dt_ctl_options *o, const char *run,
                         const struct dt_rank_range *ranks)
{
    size_t count = 0;
    *p = (struct dt_top_program){{NULL}, "", ""};
    snprintf(p->timeout, sizeof p->timeout, "%" PRId64 "ms", o->timeout);
    add(p, &count, "dtrun-ctl");
    add(p, &count, "logs");
    add(p, &count, "--follow");
    add_option(p, &count, "--timeout", p->timeout);
    add_option(p, &count, "--endpoint", o->endpoint);
    add_option(p, &count, "--token-file", o->token_file);
    add_option(p, &count, "--run-token-file", o->run_token_file);
    add_option(p, &count, "--operator-token-file", o->operator_token_file);
    add(p, &count, "--"); /* a name may begin with a dash */
    add(p, &count, run);
    if (ranks) {
        snprintf(p->ranks, sizeof p->ranks, "%d-%d", ranks->first, ranks->last);
        add(p, &count, p->ranks);
    }
}

/* Between fork and exec: what Ctrl-C does is the program's again. */
static void become(const struct dt_top_program *p)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigemptyset(&plain.sa_mask);
    sigaction(SIGINT, &plain, NULL);
    sigaction(SIGQUIT, &plain, NULL);
    execv(OURSELVES, (char *const *)p->argv);
    _exit(127);
}

static bool is_ending(int signal)
{
    return signal == SIGTERM || signal == SIGHUP;
}

/* The signal that was passed on; 0: none. */
static int await(pid_t pid, int *status)
{
    int passed = 0;
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        for (int signal; (signal = dt_top_signals_take());)
            if (is_ending(signal))
                kill(pid, passed = signal);
    return passed;
}

int dt_top_program_run(const struct dt_top_program *p, int *status, struct dt_err *err)
{
    dt_top_signals_yield();
    pid_t pid = fork();
    if (pid == 0)
        become(p);
    int errnum = errno, passed = pid > 0 ? await(pid, status) : 0;
    dt_top_signals_note_again();
    if (pid < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errnum, "cannot start dtrun-ctl logs");
    return passed;
}
