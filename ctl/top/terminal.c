/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/terminal.h"

#include "ctl/top/screen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The other screen, without a cursor, on which a line that is too long is cut; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[m\033[?7h\033[?25h\033[?1049l"

#define ROWS_MOST 1000
#define COLUMNS_MOST 1000

bool dt_terminal_is_there(int in, int out)
{
    const char *term = getenv("TERM");
    return isatty(in) && isatty(out) && term && *term && strcmp(term, "dumb") != 0;
}

void dt_terminal_init(struct dt_terminal *t, int in, int out)
{
    const char *no_color = getenv("NO_COLOR");
    *t = (struct dt_terminal){.in = in, .out = out, .colours = !(no_color && *no_color)};
}

static int put(const struct dt_terminal *t, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = write(t->out, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int dt_terminal_enter(struct dt_terminal *t, struct dt_err *err)
{
    struct termios raw;
    if (t->entered)
        return 0;
    if (!t->saved && tcgetattr(t->in, &t->before) < 0)
        return dt_err_set(err, DT_E_RUNTIME, "the terminal does not say how it is set");
    t->saved = true;
    raw = t->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(t->in, TCSANOW, &raw) < 0)
        return dt_err_set(err, DT_E_RUNTIME, "the terminal cannot be set to give single keys");
    t->entered = true;
    put(t, ENTER, strlen(ENTER));
    dt_terminal_forget(t);
    return 0;
}

void dt_terminal_leave(struct dt_terminal *t)
{
    if (!t->entered)
        return;
    t->entered = t->saved = false;
    put(t, LEAVE, strlen(LEAVE));
    tcsetattr(t->in, TCSANOW, &t->before);
    dt_terminal_forget(t);
}

int dt_terminal_enter_again(struct dt_terminal *t, struct dt_err *err)
{
    t->entered = false;
    return dt_terminal_enter(t, err);
}

void dt_terminal_size(const struct dt_terminal *t, int *rows, int *columns)
{
    struct winsize w = {0};
    bool told = ioctl(t->out, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 && w.ws_col > 0;
    *rows = told ? w.ws_row : 24;
    *columns = told ? w.ws_col : 80;
    if (*rows > ROWS_MOST)
        *rows = ROWS_MOST;
    if (*columns > COLUMNS_MOST)
        *columns = COLUMNS_MOST;
}

int dt_terminal_show(struct dt_terminal *t, struct dt_picture *next)
{
    struct dt_buf out = {0};
    dt_screen_put(&t->shown, next, t->colours, &out);
    int rc = out.bad ? -1 : put(t, out.at, out.len);
    dt_buf_finish(&out);
    dt_picture_finish(&t->shown);
    t->shown = *next;
    *next = (struct dt_picture){0};
    if (rc < 0)
        dt_terminal_forget(t);
    return rc;
}

void dt_terminal_forget(struct dt_terminal *t)
{
    dt_picture_finish(&t->shown);
}
