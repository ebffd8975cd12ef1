/* SPDX-License-Identifier: Apache-2.0 */
/* The process writes a message for each remark, and closes its end of the socket when it is done.
 */
#include "agent/preflight.h"

#include "agent/checkup.h"
#include "agent/process/fork_limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/watch.h"
#include "preflight/examine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAST_TIME (2 * DT_SECOND) /* for all probes, which run side by side */

struct dt_preflight {
    pid_t pid;
    int sock;
    bool full;
    uv_poll_t remarks;
    char failed[sizeof((struct dt_remark *)0)->sentence]; /* the first that is; "": none */
    dt_preflight_remark_fn *on_remark;
    dt_preflight_over_fn *on_over;
    void *arg;
};

/* -- the process ------------------------------------------------------------------------------ */

static void look(const struct dt_plan *plan, int sock) __attribute__((noreturn));
static void look(const struct dt_plan *plan, int sock)
{
    struct dt_sheet *sheet = calloc(1, sizeof *sheet);
    struct dt_checkup c = dt_checkup_of(plan);
    bool full = plan->preflight == DT_PREFLIGHT_FULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sheet && dt_examine(&c, dt_probes, dt_probe_count, full ? DT_PROBE_FULL : DT_PROBE_FAST,
                            full ? DT_EXAMINE_TIME : FAST_TIME, sheet, NULL) == 0)
        for (size_t i = 0; i < sheet->remark_count; i++)
            send(sock, &sheet->remarks[i], sizeof sheet->remarks[i], MSG_NOSIGNAL);
    shutdown(sock, SHUT_RDWR); /* a probe that the kernel does not let die has it open, too */
    _exit(0);
}

struct dt_preflight *dt_preflight_start(const struct dt_plan *plan, struct dt_err *err)
{
    int pair[2];
    struct dt_preflight *p = calloc(1, sizeof *p);
    if (!p || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        dt_err_errno(err, DT_E_RUNTIME, p ? errno : ENOMEM, "--preflight");
        free(p);
        return NULL;
    }
    p->full = plan->preflight == DT_PREFLIGHT_FULL;
    p->pid = fork();
    if (p->pid == 0)
        look(plan, pair[1]);
    int errnum = errno;
    close(pair[1]);
    p->sock = pair[0];
    if (p->pid > 0)
        return p;
    dt_fork_limits_err(err, errnum, "--preflight: cannot fork the process that looks");
    close(p->sock);
    free(p);
    return NULL;
}

/* -- the agent -------------------------------------------------------------------------------- */

static void release(struct dt_preflight *p)
{
    close(p->sock);
    free(p);
}

static void on_closed(uv_handle_t *h)
{
    release(dt_container_of((uv_poll_t *)h, struct dt_preflight, remarks));
}

static void end_process(const struct dt_preflight *p)
{
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, WNOHANG); /* else the guard takes it */
}

void dt_preflight_close(struct dt_preflight *p)
{
    if (!p)
        return;
    end_process(p);
    uv_close((uv_handle_t *)&p->remarks, on_closed);
}

/* A healthy job is not to be talked into anything: what only may go wrong is for a person who asks.
 */
static void take(struct dt_preflight *p, struct dt_remark *r)
{
    char words[sizeof *r];
    bool failed = r->grade == DT_GRADE_FAIL;
    snprintf(words, sizeof words, "%s: %s%s%s%s", r->probe, r->sentence, *r->advice ? " (" : "",
             r->advice, *r->advice ? ")" : "");
    if (failed || (r->grade == DT_GRADE_WARN && p->full)) {
        dt_warn("%s", words);
        p->on_remark(p->arg, failed, words);
    } else if (r->grade == DT_GRADE_OK) {
        dt_debug("%s: %s", r->probe, r->sentence);
    } else {
        dt_info("%s", words);
    }
    if (failed && !*p->failed)
        snprintf(p->failed, sizeof p->failed, "%s", r->sentence);
}

static void end(struct dt_preflight *p)
{
    char failed[sizeof p->failed];
    dt_preflight_over_fn *on_over = p->on_over;
    void *arg = p->arg;
    snprintf(failed, sizeof failed, "%s", p->failed);
    dt_preflight_close(p);
    on_over(arg, *failed ? failed : NULL);
}

static void on_message(uv_poll_t *poll, int status, int events)
{
    struct dt_preflight *p = dt_container_of(poll, struct dt_preflight, remarks);
    struct dt_remark r;
    (void)events;
    ssize_t len = recv(p->sock, &r, sizeof r, MSG_DONTWAIT);
    if (status == 0 && len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len == (ssize_t)sizeof r)
        take(p, &r);
    else
        end(p);
}

int dt_preflight_listen(struct dt_preflight *p, uv_loop_t *loop, dt_preflight_remark_fn *on_remark,
                        dt_preflight_over_fn *on_over, void *arg, struct dt_err *err)
{
    if (dt_watch_init(loop, &p->remarks, p->sock, "the process that looks at this host", err) < 0) {
        end_process(p);
        release(p);
        return -1;
    }
    p->on_remark = on_remark;
    p->on_over = on_over;
    p->arg = arg;
    uv_poll_start(&p->remarks, UV_READABLE | UV_DISCONNECT, on_message);
    return 0;
}
