/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/sink.h"

#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct dt_sink {
    int fd;
    uv_async_t *tell;
    pthread_t thread;
    bool shares_log;
    bool started;         /* with the first bytes: most jobs of a test suite say nothing */
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work;
    struct dt_buf queue;   /* what is put in */
    struct dt_buf writing; /* the thread's while `busy` */
    bool busy, closing;
    bool asked; /* somebody waits for room, or for the end */
    int broken;
};

/* Of write() and poll() only: nothing is held there. */
static ssize_t write_cancelable(int fd, const void *bytes, size_t len)
{
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    ssize_t n = write(fd, bytes, len);
    /* Somebody we share it with made it non-blocking. */
    if (n < 0 && errno == EAGAIN)
        n = poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1) < 0 ? -1 : 0;
    int saved = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    errno = saved;
    return n;
}

/* 0, or what went wrong. */
static int write_all(const struct dt_sink *s, struct dt_buf *b)
{
    bool open_line = b->at[b->len - 1] != '\n';
    while (b->len) {
        ssize_t n = write_cancelable(s->fd, b->at, b->len);
        if (n < 0 && errno != EINTR)
            return errno;
        dt_buf_consume(b, n > 0 ? (size_t)n : 0);
    }
    if (s->shares_log)
        dt_log_note_open_line(open_line);
    return 0;
}

static void swap_buffers(struct dt_sink *s)
{
    struct dt_buf queue = s->queue;
    s->queue = s->writing;
    s->writing = queue;
    dt_buf_clear(&s->queue);
}

static void tell(struct dt_sink *s)
{
    if (s->asked)
        uv_async_send(s->tell);
    s->asked = false;
}

static void *write_along(void *arg)
{
    struct dt_sink *s = arg;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->queue.len && !s->closing)
            pthread_cond_wait(&s->work, &s->lock);
        if (s->closing)
            break;
        swap_buffers(s);
        s->busy = true;
        tell(s);
        pthread_mutex_unlock(&s->lock);
        int broken = write_all(s, &s->writing);
        pthread_mutex_lock(&s->lock);
        s->busy = false;
        s->broken = broken;
        if (broken)
            break;
        if (!s->queue.len)
            tell(s);
    }
    s->asked = true;
    tell(s);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Signals are the main thread's. SIGPIPE too stays blocked: the write says EPIPE then. */
static int start_thread(struct dt_sink *s)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&s->thread, NULL, write_along, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

struct dt_sink *dt_sink_open(int fd, uv_async_t *to_tell, struct dt_err *err)
{
    struct dt_sink *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a writer of output");
        return NULL;
    }
    s->fd = fd;
    s->tell = to_tell;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    return s;
}

void dt_sink_shares_log(struct dt_sink *s)
{
    s->shares_log = true;
}

struct dt_buf *dt_sink_begin(struct dt_sink *s)
{
    pthread_mutex_lock(&s->lock);
    return &s->queue;
}

void dt_sink_end(struct dt_sink *s)
{
    s->queue.bad = false; /* what found no memory is left out, later output is not */
    if (s->queue.len && !s->started && !s->broken) {
        s->broken = start_thread(s);
        s->started = s->broken == 0;
    }
    if (s->broken)
        dt_buf_finish(&s->queue);
    else if (s->queue.len)
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

bool dt_sink_has_room(struct dt_sink *s)
{
    pthread_mutex_lock(&s->lock);
    bool room = s->broken || s->queue.len < DT_SINK_ROOM;
    s->asked |= !room;
    pthread_mutex_unlock(&s->lock);
    return room;
}

bool dt_sink_is_empty(struct dt_sink *s)
{
    pthread_mutex_lock(&s->lock);
    bool empty = s->broken || (!s->queue.len && !s->busy);
    s->asked |= !empty;
    pthread_mutex_unlock(&s->lock);
    return empty;
}

int dt_sink_broken(struct dt_sink *s)
{
    pthread_mutex_lock(&s->lock);
    int broken = s->broken;
    pthread_mutex_unlock(&s->lock);
    return broken;
}

/* Canceling loads a library, which an idle thread is not worth. */
static void end_thread(struct dt_sink *s)
{
    pthread_mutex_lock(&s->lock);
    bool writing = s->busy;
    s->closing = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (writing)
        pthread_cancel(s->thread);
    pthread_join(s->thread, NULL);
}

void dt_sink_close(struct dt_sink *s)
{
    if (!s)
        return;
    if (s->started)
        end_thread(s);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    dt_buf_finish(&s->queue);
    dt_buf_finish(&s->writing);
    free(s);
}
