/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/upload/uploads.h"

#include "agent/process/fork_limits.h"
#include "agent/upload/helper.h"
#include "agent/upload/wire.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"
#include "base/loop/watch.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAY_AFTER DT_SECOND /* most often it is over by then */

struct dt_uploads {
    pid_t pid;
    int sock;
    uv_poll_t news;
    uv_timer_t patience; /* until it is said that somebody waits */
    dt_ms most;
    bool gone;         /* the helper */
    dt_ms waits_since; /* as it told last */
    struct dt_ending ending;
};

/* -- the beginning ---------------------------------------------------------------------------- */

struct dt_uploads *dt_uploads_start(const struct dt_plan *plan, struct dt_err *err)
{
    int pair[2];
    struct dt_uploads *u = calloc(1, sizeof *u);
    if (!u || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        dt_err_errno(err, DT_E_RUNTIME, u ? errno : ENOMEM, "--upload");
        free(u);
        return NULL;
    }
    u->pid = fork();
    if (u->pid == 0) {
        close(pair[0]); /* else the end of dtrun would not be its end */
        dt_upload_helper(plan, pair[1]);
    }
    int errnum = errno;
    close(pair[1]);
    u->sock = pair[0];
    if (u->pid > 0)
        return u;
    dt_fork_limits_err(err, errnum, "--upload: cannot fork the process that uploads");
    close(u->sock);
    free(u);
    return NULL;
}

/* -- the end ---------------------------------------------------------------------------------- */

static void release(void *uploads)
{
    struct dt_uploads *u = uploads;
    close(u->sock);
    free(u); /* the only free of one that was to be listened to */
}

static void close_handles(struct dt_uploads *u)
{
    waitpid(u->pid, NULL, WNOHANG); /* unless the guard has taken it already */
    dt_ending_close(&u->ending, &u->news);
    dt_ending_close(&u->ending, &u->patience);
    dt_ending_step(&u->ending);
}

static void on_gone(struct dt_uploads *u)
{
    u->gone = true;
    uv_poll_stop(&u->news);
    if (u->ending.begun)
        close_handles(u);
    else
        dt_warn("the process that uploads (pid %d) is gone; nothing is uploaded any more", u->pid);
}

static void order(struct dt_uploads *u, const struct dt_upload_order *o)
{
    if (!u->gone)
        send(u->sock, o, sizeof *o, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void on_patience(uv_timer_t *t)
{
    const struct dt_uploads *u = dt_container_of(t, struct dt_uploads, patience);
    char most[32];
    dt_str_from_duration(u->most, most, sizeof most);
    dt_warn("waiting up to %s for uploads to end; Ctrl-C ends the wait", most);
}

void dt_uploads_close(struct dt_uploads *u, bool cut_off, dt_ms patience,
                      void (*on_closed)(void *arg), void *arg)
{
    struct dt_upload_order o = {.kind = DT_UPLOAD_END, .cut_off = cut_off, .value = patience};
    u->most = patience;
    dt_ending_begin(&u->ending, release, u, on_closed, arg);
    dt_ending_add(&u->ending); /* the helper itself */
    order(u, &o);
    if (u->gone)
        close_handles(u);
    else
        uv_timer_start(&u->patience, on_patience, SAY_AFTER, 0);
}

void dt_uploads_limit(struct dt_uploads *u, dt_ms patience)
{
    order(u, &(struct dt_upload_order){.kind = DT_UPLOAD_END, .value = patience});
}

/* -- meanwhile -------------------------------------------------------------------------------- */

static void log_news(const struct dt_upload_news *n)
{
    if (n->level == DT_LOG_ERROR)
        dt_error("%s", n->text);
    else if (n->level == DT_LOG_WARN)
        dt_warn("%s", n->text);
    else
        dt_info("%s", n->text);
}

static void on_news(uv_poll_t *p, int status, int events)
{
    struct dt_uploads *u = dt_container_of(p, struct dt_uploads, news);
    struct dt_upload_news n;
    (void)events;
    ssize_t len = recv(u->sock, &n, sizeof n, MSG_DONTWAIT);
    if (status == 0 && len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len != (ssize_t)sizeof n) {
        on_gone(u);
        return;
    }
    u->waits_since = n.waits_since;
    if (*n.text)
        log_news(&n);
}

int dt_uploads_listen(struct dt_uploads *u, uv_loop_t *loop, struct dt_err *err)
{
    if (dt_watch_init(loop, &u->news, u->sock, "the process that uploads", err) < 0) {
        release(u);
        return -1;
    }
    uv_timer_init(loop, &u->patience);
    uv_poll_start(&u->news, UV_READABLE | UV_DISCONNECT, on_news);
    uv_unref((uv_handle_t *)&u->patience);
    return 0;
}

dt_ms dt_uploads_wait(const struct dt_uploads *u, dt_ms now)
{
    return u && u->waits_since && now > u->waits_since ? now - u->waits_since : 0;
}

void dt_uploads_set_first(struct dt_uploads *u, bool first)
{
    order(u, &(struct dt_upload_order){.kind = DT_UPLOAD_FIRST, .value = first});
}
