/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static int noted[2]; /* a pipe */

static void on_signal(int signal)
{
    int before = errno;
    unsigned char number = (unsigned char)signal;
    if (write(noted[1], &number, 1) < 0) {
        /* The pipe is full of others: they will be seen. */
    }
    errno = before;
}

/* A call that waits is interrupted. */
static void note(int signal, int flags)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = flags};
    sigemptyset(&a.sa_mask);
    sigaction(signal, &a, NULL);
}

void dt_top_signals_note_again(void)
{
    static const int ending[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    static const int others[] = {SIGTSTP, SIGCONT, SIGWINCH};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        note(ending[i], (int)SA_RESETHAND);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        note(others[i], 0);
}

int dt_top_signals_open(struct dt_err *err)
{
    if (pipe2(noted, O_CLOEXEC | O_NONBLOCK) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make a pipe for signals");
    dt_top_signals_note_again();
    return noted[0];
}

void dt_top_signals_yield(void)
{
    struct sigaction unheard = {.sa_handler = SIG_IGN}, plain = {.sa_handler = SIG_DFL};
    sigemptyset(&unheard.sa_mask);
    sigemptyset(&plain.sa_mask);
    sigaction(SIGINT, &unheard, NULL);
    sigaction(SIGQUIT, &unheard, NULL);
    sigaction(SIGTSTP, &plain, NULL);
}

int dt_top_signals_take(void)
{
    unsigned char number;
    return read(noted[0], &number, 1) == 1 ? number : 0;
}

void dt_top_signals_obey(int signal)
{
    struct sigaction plain = {.sa_handler = SIG_DFL}, before;
    sigemptyset(&plain.sa_mask);
    sigaction(signal, &plain, &before);
    raise(signal);
    sigaction(signal, &before, NULL);
}
