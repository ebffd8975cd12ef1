/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal that is slow, and signals that come meanwhile. */
#include "ctl/top/terminal.h"
#include "tests/lib/check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>

static int terminal[2];
static char seen[4096];

/* The terminal takes something only while a signal is handled. */
static void on_alarm(int signal)
{
    char blanks[65536];
    (void)signal;
    for (ssize_t n; (n = read(terminal[0], blanks, sizeof blanks)) > 0;) {
        int last = n < (ssize_t)sizeof seen ? (int)n : (int)sizeof seen - 1;
        memcpy(seen, blanks + n - last, (size_t)last);
        seen[last] = '\0';
    }
}

static void fill_terminal(void)
{
    char blanks[4096];
    memset(blanks, ' ', sizeof blanks);
    fcntl(terminal[1], F_SETFL, O_NONBLOCK);
    while (write(terminal[1], blanks, sizeof blanks) > 0)
        ;
    while (write(terminal[1], blanks, 1) > 0)
        ;
    fcntl(terminal[1], F_SETFL, 0);
}

TEST(a_picture_is_shown_whole_though_signals_come)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {.it_value.tv_usec = 20000, .it_interval.tv_usec = 20000}, never = {0};
    struct dt_terminal t;
    struct dt_picture p;
    CHECK_EQ(pipe2(terminal, O_CLOEXEC), 0);
    fcntl(terminal[0], F_SETFL, O_NONBLOCK);
    dt_terminal_init(&t, STDIN_FILENO, terminal[1]);
    CHECK_EQ(dt_picture_init(&p, 1, 9), 0);
    dt_picture_put(&p, 0, 0, DT_LOOK_PLAIN, "the end");
    fill_terminal();
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    CHECK_EQ(dt_terminal_show(&t, &p), 0);
    setitimer(ITIMER_REAL, &never, NULL);
    on_alarm(0);
    CHECK(strstr(seen, "the end") != NULL);
    dt_terminal_forget(&t);
    close(terminal[0]);
    close(terminal[1]);
}
