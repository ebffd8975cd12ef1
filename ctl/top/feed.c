/* SPDX-License-Identifier: Apache-2.0 */
/* The thread has the connection to itself. Question and answer change hands under the lock; a byte
 * in the pipe says that an answer did. */
#include "ctl/top/feed.h"

#include "ctl/commands.h"
#include "ctl/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dt_feed {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t asked;
    int pipe[2];
    bool busy; /* the caller's: between question and answer */

    /* Under the lock. */
    bool has_question, has_answer, at_work;
    bool ends, left_behind; /* LEFT_BEHIND: all of it is the thread's */
    struct dt_feed_question question;
    struct dt_feed_answer answer;

    /* The thread's. */
    struct dt_ctl_options options; /* with strings of its own */
    struct dt_token token;
    bool has_token;
    struct dt_sync_control *connection;
    int64_t last_event; /* of this connection */
};

void dt_feed_answer_finish(struct dt_feed_answer *a)
{
    dt_ctl_pages_finish(&a->pages);
    dt_top_events_finish(&a->events);
    dt_buf_finish(&a->text);
    *a = (struct dt_feed_answer){0};
}

static void destroy(struct dt_feed *f)
{
    dt_sync_control_close(f->connection);
    dt_feed_answer_finish(&f->answer);
    dt_token_finish(&f->token);
    free(f->options.endpoint);
    close(f->pipe[0]);
    close(f->pipe[1]);
    pthread_cond_destroy(&f->asked);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* -- on the thread ---------------------------------------------------------------------------- */

static int connect_if_needed(struct dt_feed *f, struct dt_err *err)
{
    if (f->connection)
        return 0;
    f->last_event = 0;
    f->connection =
        dt_ctl_connect(&f->options, f->has_token ? &f->token : NULL, f->options.timeout, err);
    return f->connection ? 0 : -1;
}

static int fetch_events(struct dt_feed *f, struct dt_feed_answer *a, struct dt_err *err)
{
    bool more = true;
    a->anew = f->last_event == 0;
    while (more) {
        struct dt_message answer,
            request = {.type = DT_MSG_EVENTS, .run = "", .events.after = f->last_event};
        struct dt_top_events page = {0};
        if (dt_sync_control_ask(f->connection, &request, &answer, err) < 0)
            return -1;
        int rc = dt_top_events_read(&page, &answer.doc, &f->last_event, &more, err);
        dt_message_finish(&answer);
        dt_top_events_append(&a->events, &page);
        if (rc < 0)
            return dt_err_wrap(err, "the rendezvous' events make no sense");
    }
    return 0;
}

static int look(struct dt_feed *f, const struct dt_feed_question *q, struct dt_feed_answer *a,
                struct dt_err *err)
{
    struct dt_ctl_options o = f->options; /* whose strings stay the feed's */
    o.name = q->run;
    o.ranks[0] = q->ranks;
    o.ranks_len = q->ranks_len;
    return dt_ctl_look(&o, f->connection, &a->text, err);
}

/* Whether the connection may be used again after *ERR. */
static bool survives(const struct dt_err *err)
{
    return err->code == DT_E_RUNTIME;
}

static void answer(struct dt_feed *f, const struct dt_feed_question *q, struct dt_feed_answer *a)
{
    struct dt_err *err = &a->err;
    int rc = connect_if_needed(f, err);
    a->asked = q->asked;
    if (rc == 0 && q->asked == DT_FEED_LOOK)
        rc = look(f, q, a, err);
    else if (rc == 0 && (rc = dt_ctl_pages_fetch(f->connection, q->run, &a->pages, err)) == 0)
        rc = fetch_events(f, a, err);
    a->failed = rc < 0;
    if (a->failed && !(q->asked == DT_FEED_LOOK && survives(err))) {
        dt_sync_control_close(f->connection);
        f->connection = NULL;
    }
}

static void *run(void *arg)
{
    struct dt_feed *f = arg;
    pthread_mutex_lock(&f->lock);
    while (!f->ends) {
        if (!f->has_question) {
            pthread_cond_wait(&f->asked, &f->lock);
            continue;
        }
        struct dt_feed_question question = f->question;
        struct dt_feed_answer a = {0};
        f->has_question = false;
        f->at_work = true;
        pthread_mutex_unlock(&f->lock);
        answer(f, &question, &a);
        pthread_mutex_lock(&f->lock);
        f->at_work = false;
        f->answer = a;
        f->has_answer = true;
        if (write(f->pipe[1], "", 1) < 0)
            f->ends = true; /* nobody would hear; the pipe is never full */
    }
    bool left_behind = f->left_behind;
    pthread_mutex_unlock(&f->lock);
    if (left_behind)
        destroy(f);
    return NULL;
}

/* -- its caller ------------------------------------------------------------------------------- */

static int copy_options(struct dt_feed *f, const struct dt_ctl_options *o,
                        const struct dt_token *token)
{
    f->options = (struct dt_ctl_options){.endpoint = strdup(o->endpoint),
                                         .timeout = o->timeout,
                                         .endpoint_from_env = o->endpoint_from_env};
    f->has_token = token != NULL;
    if (token)
        f->token = *token;
    return f->options.endpoint ? 0 : -1;
}

/* Signals are for the thread that has the terminal. */
static int start(struct dt_feed *f)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int errnum = pthread_create(&f->thread, NULL, run, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return errnum;
}

struct dt_feed *dt_feed_open(const struct dt_ctl_options *o, const struct dt_token *token,
                             struct dt_err *err)
{
    struct dt_feed *f = calloc(1, sizeof *f);
    if (!f || pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        free(f);
        dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make a pipe");
        return NULL;
    }
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->asked, NULL);
    int errnum = copy_options(f, o, token) < 0 ? ENOMEM : start(f);
    if (errnum == 0)
        return f;
    destroy(f);
    dt_err_errno(err, DT_E_RUNTIME, errnum, "cannot start a thread");
    return NULL;
}

void dt_feed_close(struct dt_feed *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    bool left_behind = f->at_work || f->has_question;
    pthread_t thread = f->thread;
    f->ends = true;
    f->left_behind = left_behind;
    pthread_cond_signal(&f->asked);
    pthread_mutex_unlock(&f->lock); /* F may be gone from here on, if it is left behind */
    if (left_behind) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    destroy(f);
}

bool dt_feed_is_busy(const struct dt_feed *f)
{
    return f->busy;
}

bool dt_feed_ask(struct dt_feed *f, const struct dt_feed_question *q)
{
    if (f->busy)
        return false;
    f->busy = true;
    pthread_mutex_lock(&f->lock);
    f->question = *q;
    f->has_question = true;
    pthread_cond_signal(&f->asked);
    pthread_mutex_unlock(&f->lock);
    return true;
}

int dt_feed_fd(const struct dt_feed *f)
{
    return f->pipe[0];
}

bool dt_feed_take(struct dt_feed *f, struct dt_feed_answer *a)
{
    char byte;
    pthread_mutex_lock(&f->lock);
    bool there = f->has_answer;
    if (there) {
        *a = f->answer;
        f->answer = (struct dt_feed_answer){0};
        f->has_answer = f->busy = false;
        there = read(f->pipe[0], &byte, 1) == 1;
    }
    pthread_mutex_unlock(&f->lock);
    return there;
}
