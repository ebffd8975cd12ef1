/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/program/inside.h"

#include <stdio.h>

volatile sig_atomic_t program_told_to_end;

static void on_signal(int sig)
{
    program_told_to_end = sig;
}

void program_catch_signals(void)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
}

/* Between two worlds there is nothing to save. */
void program_let_signals_end(void)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
}

int program_die_by(int sig)
{
    fflush(NULL);
    signal(sig, SIG_DFL);
    raise(sig);
    return 128 + sig; /* a signal that is blocked */
}
