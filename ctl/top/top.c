/* SPDX-License-Identifier: Apache-2.0 */
/* One thread has the terminal and the model, another (feed.h) the connection. */
#include "ctl/top/top.h"

#include "base/backoff.h"
#include "base/str.h"
#include "ctl/commands.h"
#include "ctl/top/feed.h"
#include "ctl/top/model.h"
#include "ctl/top/program.h"
#include "ctl/top/signals.h"
#include "ctl/top/terminal.h"
#include "ctl/top/view.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define INTERVAL (2 * DT_SECOND)
#define RETRY_MOST (5 * DT_SECOND)
#define TICK DT_SECOND    /* for the clock of the header */
#define QUIET ((dt_ms)50) /* behind the byte of the Escape key, which begins sequences, too */
#define TEXT_COLUMNS 132

struct top {
    const struct dt_ctl_options *o;
    struct dt_top_model model;
    struct dt_terminal terminal;
    struct dt_feed *feed;
    struct dt_backoff backoff;
    dt_ms ask_at;   /* for news */
    dt_ms heard_at; /* the last answer that was one */
    bool looks;     /* LOOK is to be asked next */
    struct dt_feed_question look;
    struct dt_buf keys; /* bytes that are no key yet */
    dt_ms keys_at;      /* when the last of them came */
    bool over;
    int signal; /* that ended it; 0: none */
};

/* -- news ------------------------------------------------------------------------------------- */

static void ask(struct top *t, dt_ms now)
{
    struct dt_feed_question news = {.asked = DT_FEED_NEWS};
    if (dt_feed_is_busy(t->feed))
        return;
    if (t->looks) {
        t->looks = false;
        dt_feed_ask(t->feed, &t->look);
    } else if (!t->model.frozen && now >= t->ask_at) {
        snprintf(news.run, sizeof news.run, "%s", t->o->name);
        dt_feed_ask(t->feed, &news);
    }
}

/* What makes the first answer the last one. */
static int check_first(struct top *t, struct dt_feed_answer *a, struct dt_err *err)
{
    if (t->model.known)
        return 0;
    if (a->failed) {
        *err = a->err;
        return -1;
    }
    return *t->o->name && a->pages.runs.len == 0 ? dt_ctl_no_run(t->o, err) : 0;
}

static void hear_news(struct top *t, struct dt_feed_answer *a, dt_ms now)
{
    if (a->failed) {
        dt_top_model_miss(&t->model, a->err.text);
        t->ask_at = now + dt_backoff_next(&t->backoff);
        return;
    }
    dt_top_model_hear(&t->model, &a->pages, &a->events, a->anew);
    dt_backoff_reset(&t->backoff);
    t->heard_at = now;
    t->ask_at = now + (t->o->interval ? t->o->interval : INTERVAL);
}

/* Unless the person has turned away from it meanwhile. */
static void hear_look(struct top *t, struct dt_feed_answer *a)
{
    if (a->failed)
        dt_buf_printf(&a->text, "%s\n", a->err.text);
    if (t->model.view == DT_TOP_TEXT)
        dt_top_model_show_text(&t->model, NULL, dt_buf_cstr(&a->text));
}

static int hear(struct top *t, dt_ms now, struct dt_err *err)
{
    struct dt_feed_answer a;
    if (!dt_feed_take(t->feed, &a))
        return 0;
    int rc = check_first(t, &a, err);
    if (rc == 0 && a.asked == DT_FEED_NEWS)
        hear_news(t, &a, now);
    else if (rc == 0)
        hear_look(t, &a);
    dt_feed_answer_finish(&a);
    return rc;
}

/* -- keys ------------------------------------------------------------------------------------- */

static void want_look(struct top *t)
{
    const struct dt_top_run *run = dt_top_chosen_run(&t->model);
    char id[DT_RUN_ID_MAX], ranks[48] = "all ranks", title[sizeof t->model.title];
    t->look = (struct dt_feed_question){.asked = DT_FEED_LOOK};
    snprintf(t->look.run, sizeof t->look.run, "%s", run->row->id);
    t->look.ranks_len = dt_top_ranks(&t->model, &t->look.ranks);
    if (t->look.ranks_len && t->look.ranks.first == t->look.ranks.last)
        snprintf(ranks, sizeof ranks, "rank %d", t->look.ranks.first);
    else if (t->look.ranks_len)
        snprintf(ranks, sizeof ranks, "ranks %d to %d", t->look.ranks.first, t->look.ranks.last);
    dt_str_printable(dt_bytes_of(t->look.run), id, sizeof id);
    snprintf(title, sizeof title, "run %.*s, %s", DT_RUN_ID_MAX, id, ranks);
    dt_top_model_show_text(&t->model, title, "looking ...\n");
    t->looks = true;
}

/* What it said at its end would be gone with the next picture. */
static void await_enter(const struct top *t)
{
    char c = 0;
    fputs("-- Enter leads back to dtrun-ctl top --", stdout);
    fflush(stdout);
    while (c != '\n' && read(t->terminal.in, &c, 1) == 1)
        ;
}

/* The workers' output goes to the screen of before, where it can be scrolled and stays. */
static int show_log(struct top *t, struct dt_err *err)
{
    struct dt_top_program p;
    struct dt_rank_range ranks;
    int status = 0;
    bool some = dt_top_ranks(&t->model, &ranks) > 0;
    dt_top_program_logs(&p, t->o, dt_top_chosen_run(&t->model)->row->id, some ? &ranks : NULL);
    dt_terminal_leave(&t->terminal);
    int passed = dt_top_program_run(&p, &status, err);
    if (passed < 0)
        return -1;
    t->signal = passed;
    t->over = passed != 0;
    if (!t->over && !WIFSIGNALED(status))
        await_enter(t);
    return dt_terminal_enter(&t->terminal, err);
}

static int press(struct top *t, struct dt_key key, dt_ms now, struct dt_err *err)
{
    int rows, columns;
    dt_terminal_size(&t->terminal, &rows, &columns);
    switch (dt_top_model_press(&t->model, key, rows, columns)) {
    case DT_TOP_NOTHING:
        break;
    case DT_TOP_QUIT:
        t->over = true;
        break;
    case DT_TOP_REFRESH:
        t->ask_at = now;
        break;
    case DT_TOP_LOOK:
        want_look(t);
        break;
    case DT_TOP_LOG:
        return show_log(t, err);
    case DT_TOP_REDRAW:
        dt_terminal_forget(&t->terminal);
        break;
    }
    return 0;
}

static int read_keys(struct top *t, dt_ms now, struct dt_err *err)
{
    bool quiet = now - t->keys_at >= QUIET;
    struct dt_key key;
    size_t used;
    while (!t->over &&
           dt_key_read((struct dt_bytes){t->keys.at, t->keys.len}, quiet, &key, &used) == DT_DONE) {
        dt_buf_consume(&t->keys, used);
        if (press(t, key, now, err) < 0)
            return -1;
    }
    return 0;
}

/* A terminal that is gone is the end. */
static void take_bytes(struct top *t, dt_ms now)
{
    char bytes[256];
    ssize_t n = read(t->terminal.in, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    t->over = t->over || n <= 0;
    if (n > 0)
        dt_buf_put(&t->keys, bytes, (size_t)n);
    t->keys_at = now;
}

/* -- signals ---------------------------------------------------------------------------------- */

static int take_signals(struct top *t, struct dt_err *err)
{
    for (int signal; (signal = dt_top_signals_take());) {
        switch (signal) {
        case SIGWINCH: /* the size is looked at for each picture */
            break;
        case SIGCONT:
            if (dt_terminal_enter_again(&t->terminal, err) < 0)
                return -1;
            break;
        case SIGTSTP:
            dt_terminal_leave(&t->terminal);
            dt_top_signals_obey(signal);
            if (dt_terminal_enter(&t->terminal, err) < 0)
                return -1;
            break;
        default:
            t->signal = signal;
            t->over = true;
        }
    }
    return 0;
}

/* -- pictures --------------------------------------------------------------------------------- */

static void draw(struct top *t, dt_ms now)
{
    struct dt_picture p;
    int rows, columns;
    dt_terminal_size(&t->terminal, &rows, &columns);
    t->model.now_s = dt_clock_wall_us() / 1000000;
    t->model.silent_s = (now - t->heard_at) / DT_SECOND;
    if (dt_picture_init(&p, rows, columns) < 0)
        return;
    dt_top_draw(&t->model, &p);
    dt_terminal_show(&t->terminal, &p);
}

/* -- the loop --------------------------------------------------------------------------------- */

static int until_next(const struct top *t, dt_ms now)
{
    dt_ms next = now + TICK;
    if (!t->model.frozen && !dt_feed_is_busy(t->feed) && t->ask_at < next)
        next = t->ask_at;
    if (t->keys.len && t->keys_at + QUIET < next)
        next = t->keys_at + QUIET;
    return next > now ? (int)(next - now) : 0;
}

static int go(struct top *t, int signals, struct dt_err *err)
{
    while (!t->over) {
        dt_ms now = dt_clock_monotonic();
        struct pollfd fds[] = {{.fd = t->terminal.in, .events = POLLIN},
                               {.fd = signals, .events = POLLIN},
                               {.fd = dt_feed_fd(t->feed), .events = POLLIN}};
        ask(t, now);
        draw(t, now);
        if (poll(fds, sizeof fds / sizeof *fds, until_next(t, now)) < 0 && errno != EINTR)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "poll");
        now = dt_clock_monotonic();
        if (take_signals(t, err) < 0 || hear(t, now, err) < 0)
            return -1;
        if (fds[0].revents)
            take_bytes(t, now);
        if (read_keys(t, now, err) < 0)
            return -1;
    }
    return 0;
}

static int show_pictures(struct top *t, struct dt_err *err)
{
    int signals = dt_top_signals_open(err);
    if (signals < 0 || dt_terminal_enter(&t->terminal, err) < 0)
        return -1;
    int rc = go(t, signals, err);
    dt_terminal_leave(&t->terminal);
    if (t->signal)
        dt_top_signals_obey(t->signal);
    return rc;
}

/* -- one picture ------------------------------------------------------------------------------ */

static int columns_of_text(void)
{
    int rows, columns;
    struct dt_terminal t;
    if (!isatty(STDOUT_FILENO))
        return TEXT_COLUMNS;
    dt_terminal_init(&t, STDIN_FILENO, STDOUT_FILENO);
    dt_terminal_size(&t, &rows, &columns);
    return columns;
}

static int put_picture(struct top *t, struct dt_buf *out, struct dt_err *err)
{
    struct dt_picture p;
    t->model.now_s = dt_clock_wall_us() / 1000000;
    if (dt_picture_init(&p, dt_top_rows(&t->model), columns_of_text()) < 0)
        return dt_err_set(err, DT_E_MEMORY, "no memory for so many rows");
    dt_top_draw(&t->model, &p);
    p.rows--; /* keys are of no use */
    dt_picture_put_text(&p, out);
    dt_picture_finish(&p);
    return 0;
}

static int show_once(struct top *t, struct dt_buf *out, struct dt_err *err)
{
    struct pollfd answer = {.fd = dt_feed_fd(t->feed), .events = POLLIN};
    ask(t, 0);
    while (poll(&answer, 1, -1) < 0)
        if (errno != EINTR)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "poll");
    return hear(t, dt_clock_monotonic(), err) < 0 ? -1 : put_picture(t, out, err);
}

/* -- the command ------------------------------------------------------------------------------ */

int dt_ctl_top(const struct dt_ctl_options *o, const struct dt_token *token, struct dt_buf *out,
               struct dt_err *err)
{
    struct top t = {.o = o, .backoff = {.first = DT_SECOND / 2, .most = RETRY_MOST}};
    bool once = o->once || !dt_terminal_is_there(STDIN_FILENO, STDOUT_FILENO);
    int rc = -1;
    dt_top_model_init(&t.model, o->endpoint, o->name);
    dt_terminal_init(&t.terminal, STDIN_FILENO, STDOUT_FILENO);
    t.feed = dt_feed_open(o, token, err);
    if (t.feed)
        rc = once ? show_once(&t, out, err) : show_pictures(&t, err);
    dt_feed_close(t.feed);
    dt_terminal_leave(&t.terminal);
    dt_top_model_finish(&t.model);
    dt_buf_finish(&t.keys);
    return rc;
}
