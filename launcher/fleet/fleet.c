/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/fleet.h"

#include "agent/agent.h"
#include "agent/process/self.h"
#include "agent/sigwatch.h"
#include "base/list.h"
#include "base/log.h"
#include "launcher/fleet/link.h"
#include "launcher/fleet/refusal.h"
#include "launcher/fleet/roll.h"
#include "launcher/words.h"
#include "preflight/sheet.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_WITHIN (60 * DT_SECOND) /* until all hosts have said hello */
#define BEAT_EVERY (5 * DT_SECOND)
#define END_WITHIN (10 * DT_SECOND)   /* beyond --shutdown-timeout, until all is killed */
#define SAVE_WITHIN (600 * DT_SECOND) /* the same, where a job has failed by itself */
#define SHOW_WITHIN (5 * DT_SECOND)   /* how long a console that nobody reads is waited for */
#define CUT_OFF 255                   /* the exit status of an ssh that has lost its connection */

#define BIT(signum) (UINT64_C(1) << (signum))
#define STOPS (BIT(SIGINT) | BIT(SIGTERM) | BIT(SIGHUP))

enum fleet_phase { CALLING, WORKING, ENDING, KILLING, FLEET_PHASES };
enum fleet_event { ALL_HERE, FALLS_APART, STOPPED, TIME_OVER, FLEET_EVENTS };

struct fleet {
    const struct dt_fleet_plan *plan;
    uv_loop_t loop;
    struct dt_sigwatch *signals;
    struct dt_console *console[2]; /* both in [0] if they are one */
    uv_async_t wake;               /* a console has got on */
    uv_timer_t timer, beat;
    struct dt_fleet_link **links; /* NULL: it has gone */
    struct dt_roll roll;
    enum fleet_phase phase;
    int port;   /* on the first host */
    int signum; /* that told us to end; 0: none */
    bool over;  /* nobody is left; what they printed may have to be shown still */
};

static const char *name_of(const struct fleet *f, size_t i)
{
    return f->plan->hosts.at[i].name;
}

/* -- what a phase does ------------------------------------------------------------------------ */

static void handle(struct fleet *f, enum fleet_event event);

static void on_time_over(uv_timer_t *t)
{
    handle(dt_container_of(t, struct fleet, timer), TIME_OVER);
}

static void arm(struct fleet *f, dt_ms wait)
{
    uv_timer_start(&f->timer, on_time_over, (uint64_t)wait, 0);
}

static void send_all(struct fleet *f, uint8_t byte)
{
    for (size_t i = 0; i < f->roll.count; i++)
        if (f->roll.hosts[i].state == DT_ROLL_AT_WORK)
            dt_fleet_link_send(f->links[i], &byte, 1);
}

/* A host that has only begun may not have listened when it was told that the job is lost. */
static void on_beat(uv_timer_t *t)
{
    struct fleet *f = dt_container_of(t, struct fleet, beat);
    send_all(f, f->roll.lost ? DT_AGENT_JOB_LOST : DT_FLEET_BEAT);
}

static int put_order(const struct fleet *f, size_t i, struct dt_buf *out, struct dt_err *err)
{
    struct dt_fleet_order order;
    int rc = dt_fleet_plan_order(f->plan, i, f->port, &order, err);
    if (rc == 0)
        rc = dt_fleet_order_put(out, &order, err);
    dt_fleet_order_finish(&order);
    return rc;
}

/* It may have a token in it. */
static void wipe(struct dt_buf *bytes)
{
    if (bytes->base)
        explicit_bzero(bytes->base, bytes->size);
    dt_buf_finish(bytes);
}

static int give_order(struct fleet *f, size_t i, struct dt_err *err)
{
    struct dt_buf bytes = {0};
    int rc = put_order(f, i, &bytes, err);
    if (rc == 0)
        dt_fleet_link_send(f->links[i], bytes.at, bytes.len);
    wipe(&bytes);
    return rc;
}

/* Whether it can be passed on at all: before a host is called. */
static int try_order(const struct fleet *f, struct dt_err *err)
{
    struct dt_buf bytes = {0};
    int rc = put_order(f, 0, &bytes, err);
    wipe(&bytes);
    return rc;
}

/* The order was tried before any host was called, so what fails here is memory. */
static void give_orders(struct fleet *f)
{
    struct dt_err err;
    uv_timer_stop(&f->timer);
    dt_info("all %zu hosts have answered; the job begins", f->roll.count);
    for (size_t i = 0; i < f->roll.count; i++) {
        if (give_order(f, i, &err) < 0) {
            dt_error("%s: %s", name_of(f, i), err.text);
            dt_fleet_link_signal(f->links[i], SIGKILL);
        }
        dt_roll_note_begins(&f->roll, i);
    }
    uv_timer_start(&f->beat, on_beat, (uint64_t)BEAT_EVERY, (uint64_t)BEAT_EVERY);
}

/* Those that have not begun have nothing to end in order. */
static void end_with(struct fleet *f, int signum)
{
    dt_roll_note_dismissed(&f->roll);
    send_all(f, (uint8_t)signum);
    for (size_t i = 0; i < f->roll.count; i++)
        if (f->roll.hosts[i].state < DT_ROLL_AT_WORK && f->links[i])
            dt_fleet_link_signal(f->links[i], SIGTERM);
    arm(f, dt_clock_after(f->plan->o->shutdown_timeout, END_WITHIN));
}

static void dismiss(struct fleet *f)
{
    end_with(f, SIGTERM);
}

static void pass_stop(struct fleet *f)
{
    end_with(f, f->signum);
}

static dt_ms upload_time(const struct fleet *f)
{
    const struct dt_launch_options *o = f->plan->o;
    return o->upload.len ? o->upload_timeout : 0;
}

static void blame_silent(struct fleet *f)
{
    for (size_t i = 0; i < f->roll.count; i++)
        if (f->roll.hosts[i].state == DT_ROLL_CALLED)
            dt_error("%s: did not answer within %d s", name_of(f, i),
                     dt_clock_seconds(ANSWER_WITHIN));
    dismiss(f);
}

/* Most know already, from the rendezvous, and are about to say why, or save what the workers had in
 * memory, and upload that: who does not want to wait presses Ctrl-C. */
static void tell_lost(struct fleet *f)
{
    size_t first = f->roll.first;
    if (first < f->roll.count)
        dt_info("%s has ended with status %d; ending the other hosts", name_of(f, first),
                f->roll.hosts[first].status);
    else
        dt_error("%zu of %zu hosts are left, and the job needs %zu; ending it",
                 dt_roll_left_over(&f->roll), f->roll.count, f->roll.least);
    dt_roll_note_lost(&f->roll);
    send_all(f, DT_AGENT_JOB_LOST);
    arm(f,
        dt_clock_after(f->plan->o->shutdown_timeout, dt_clock_after(SAVE_WITHIN, upload_time(f))));
}

static void kill_all(struct fleet *f)
{
    for (size_t i = 0; i < f->roll.count; i++) {
        if (!f->links[i])
            continue;
        dt_warn("%s: does not end; leaving it", name_of(f, i));
        dt_fleet_link_signal(f->links[i], SIGKILL);
    }
}

static void nothing(struct fleet *f)
{
    (void)f;
}

static void handle(struct fleet *f, enum fleet_event event)
{
    static const struct {
        enum fleet_phase to;
        void (*act)(struct fleet *f);
    } moves[FLEET_PHASES][FLEET_EVENTS] = {
        [CALLING] = {[ALL_HERE] = {WORKING, give_orders},
                     [FALLS_APART] = {ENDING, dismiss},
                     [STOPPED] = {ENDING, pass_stop},
                     [TIME_OVER] = {ENDING, blame_silent}},
        [WORKING] = {[FALLS_APART] = {ENDING, tell_lost}, [STOPPED] = {ENDING, pass_stop}},
        [ENDING] = {[FALLS_APART] = {ENDING, nothing},
                    [STOPPED] = {ENDING, pass_stop},
                    [TIME_OVER] = {KILLING, kill_all}},
        [KILLING] = {[FALLS_APART] = {KILLING, nothing}, [STOPPED] = {KILLING, nothing}},
    };
    if (!moves[f->phase][event].act) {
        dt_bug("a fleet in phase %d meets event %d", (int)f->phase, (int)event);
        return;
    }
    void (*act)(struct fleet * f) = moves[f->phase][event].act;
    f->phase = moves[f->phase][event].to;
    act(f);
}

/* -- the end ---------------------------------------------------------------------------------- */

/* Nothing but what closes here keeps the loop going then. The consoles first: their threads would
 * wake the loop. */
static void close_all(struct fleet *f)
{
    dt_console_close(f->console[0]);
    dt_console_close(f->console[1]);
    uv_close((uv_handle_t *)&f->timer, NULL);
    uv_close((uv_handle_t *)&f->beat, NULL);
    uv_close((uv_handle_t *)&f->wake, NULL);
}

static bool is_shown(const struct fleet *f)
{
    return dt_console_is_empty(f->console[0]) &&
           (!f->console[1] || dt_console_is_empty(f->console[1]));
}

static void on_show_over(uv_timer_t *t)
{
    struct fleet *f = dt_container_of(t, struct fleet, timer);
    dt_console_give_up(f->console[0]);
    if (f->console[1])
        dt_console_give_up(f->console[1]);
    close_all(f);
}

static void leave_when_shown(struct fleet *f)
{
    if (uv_is_closing((uv_handle_t *)&f->wake))
        return;
    if (is_shown(f))
        close_all(f);
    else if (!uv_is_active((uv_handle_t *)&f->timer))
        uv_timer_start(&f->timer, on_show_over, (uint64_t)SHOW_WITHIN, 0);
}

static void end(struct fleet *f)
{
    f->over = true;
    uv_timer_stop(&f->timer);
    uv_timer_stop(&f->beat);
    if (f->roll.first < f->roll.count && !f->signum && !f->plan->o->doctor)
        dt_error("the job failed on %s, with exit status %d", name_of(f, f->roll.first),
                 f->roll.hosts[f->roll.first].status);
    leave_when_shown(f);
}

static void on_wake(uv_async_t *wake)
{
    struct fleet *f = dt_container_of(wake, struct fleet, wake);
    for (size_t i = 0; i < f->roll.count; i++)
        if (f->links[i])
            dt_fleet_link_resume(f->links[i]);
    if (f->over)
        leave_when_shown(f);
}

static int exit_status(const struct fleet *f)
{
    int status = dt_roll_status(&f->roll);
    if (status && f->signum && f->plan->o->exit_code == DT_EXIT_ROOT_CAUSE)
        return 128 + f->signum;
    return status && f->signum ? 1 : status;
}

/* -- what hosts say --------------------------------------------------------------------------- */

static void on_hello(void *arg, size_t i, const struct dt_fleet_hello *hello)
{
    struct fleet *f = arg;
    if (strcmp(hello->version, DT_VERSION) != 0) {
        dt_error("%s: has dtrun %s, and this is " DT_VERSION "; install one version on all hosts, "
                 "or give the path of another one with --remote-dtrun",
                 name_of(f, i), hello->version);
        handle(f, FALLS_APART);
        return;
    }
    dt_roll_note_here(&f->roll, i);
    if (i == 0)
        f->port = hello->port;
    if (f->phase == CALLING && dt_roll_is_complete(&f->roll))
        handle(f, ALL_HERE);
}

static void say_refused(const struct fleet *f, size_t i, int status)
{
    struct dt_err err = {0};
    char **call = dt_fleet_plan_call(f->plan, i, &err);
    struct dt_fleet_refusal r = {.host = name_of(f, i),
                                 .remote = f->plan->remote,
                                 .own_path = f->plan->own_path,
                                 .agent = call ? call[0] : "",
                                 .last_line = dt_fleet_link_last_line(f->links[i]),
                                 .status = status};
    if (call)
        dt_fleet_refusal_tell(&r, &err);
    dt_error("%s", err.text);
    dt_words_free(call);
}

static void say_left(const struct fleet *f, size_t i, int status, bool cut_off)
{
    enum dt_roll_state was = f->roll.hosts[i].state;
    if (f->roll.dismissed || f->phase == KILLING)
        return;
    if (was == DT_ROLL_CALLED)
        say_refused(f, i, status);
    else if (was == DT_ROLL_HERE || cut_off)
        dt_warn("%s: the connection to dtrun there is lost%s", name_of(f, i),
                was == DT_ROLL_HERE ? "" : "; it ends its part of the job by itself");
    else if (status != 0)
        dt_info("%s: dtrun ended with status %d", name_of(f, i), status);
}

static void on_gone(void *arg, size_t i, int status, bool over)
{
    struct fleet *f = arg;
    bool cut_off = status < 0 || (status == CUT_OFF && !over);
    say_left(f, i, status, cut_off);
    dt_roll_note_left(&f->roll, i, status, cut_off);
    dt_fleet_link_close(f->links[i]);
    f->links[i] = NULL;
    if (f->phase == CALLING || dt_roll_is_short(&f->roll))
        handle(f, FALLS_APART);
    if (dt_roll_is_empty(&f->roll))
        end(f);
}

static const struct dt_fleet_link_events link_events = {on_hello, on_gone};

/* -- what people say -------------------------------------------------------------------------- */

static void on_signal(void *arg, int signum)
{
    struct fleet *f = arg;
    if (signum == SIGTSTP) {
        dt_warn("Ctrl-Z does not stop a job on several hosts; Ctrl-C ends it");
    } else if (STOPS & BIT(signum)) {
        f->signum = f->signum ? f->signum : signum;
        if (!f->over)
            handle(f, STOPPED);
    } else {
        send_all(f, (uint8_t)signum);
    }
}

/* -- the beginning ---------------------------------------------------------------------------- */

static int open_consoles(struct fleet *f, struct dt_err *err)
{
    struct dt_console_collapse plain = {0};
    bool one = dt_console_same(STDOUT_FILENO, STDERR_FILENO);
    f->console[0] = dt_console_open(STDOUT_FILENO, &plain, &f->wake, err);
    if (!f->console[0] || one)
        return f->console[0] ? 0 : -1;
    f->console[1] = dt_console_open(STDERR_FILENO, &plain, &f->wake, err);
    return f->console[1] ? 0 : -1;
}

static int call_host(struct fleet *f, size_t i, struct dt_err *err)
{
    struct dt_fleet_link_means means = {
        .loop = &f->loop,
        .console = {f->console[0], f->console[1] ? f->console[1] : f->console[0]},
        .events = &link_events,
        .arg = f,
    };
    const struct dt_fleet_host *host = &f->plan->hosts.at[i];
    char **call = dt_fleet_plan_call(f->plan, i, err);
    if (call)
        f->links[i] = dt_fleet_link_start(&means, i, dt_fleet_host_label(host), call, err);
    dt_words_free(call);
    return f->links[i] ? 0 : -1;
}

/* In a queue of Slurm's a step may wait for long. */
static void call_all(struct fleet *f)
{
    struct dt_err err;
    bool all = true;
    for (size_t i = 0; i < f->roll.count; i++) {
        if (all && call_host(f, i, &err) == 0)
            continue;
        if (all)
            dt_error("%s", err.text);
        all = false;
        dt_roll_note_left(&f->roll, i, 1, true);
    }
    if (!all)
        handle(f, FALLS_APART);
    else if (f->plan->way != DT_FLEET_SRUN)
        arm(f, ANSWER_WITHIN);
    if (dt_roll_is_empty(&f->roll))
        end(f);
}

/* A doctor that found something has done its work: the others are to print what they found, too.
 * All is well only where all hosts say so, and a failure weighs more than a warning. */
static int init_roll(struct fleet *f, struct dt_err *err)
{
    const struct dt_fleet_plan *plan = f->plan;
    size_t count = plan->hosts.len;
    if (!plan->o->doctor)
        return dt_roll_init(&f->roll, count, plan->least, plan->least, err);
    int rc = dt_roll_init(&f->roll, count, 0, count, err);
    f->roll.vague = DT_SHEET_WARNED;
    return rc;
}

static int open_fleet(struct fleet *f, struct dt_err *err)
{
    uint64_t heard = STOPS | BIT(SIGTSTP) | f->plan->o->forward_signals;
    if (f->plan->o->look_signal)
        heard |= BIT(f->plan->o->look_signal);
    f->links = calloc(f->plan->hosts.len, sizeof *f->links);
    if (!f->links)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu hosts", f->plan->hosts.len);
    if (try_order(f, err) < 0 || init_roll(f, err) < 0 || open_consoles(f, err) < 0)
        return -1;
    f->signals = dt_sigwatch_open(&f->loop, heard, on_signal, f, err);
    return f->signals ? 0 : -1;
}

static void finish(struct fleet *f)
{
    dt_self_block_signals();
    if (f->signals)
        dt_sigwatch_close(f->signals, NULL, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    uv_loop_close(&f->loop);
    dt_roll_finish(&f->roll);
    free(f->links);
}

int dt_fleet_run(const struct dt_fleet_plan *plan)
{
    struct fleet f = {.plan = plan};
    struct dt_spawn_inherited inherited;
    struct dt_err err;
    dt_self_prepare(&inherited);
    if (uv_loop_init(&f.loop) < 0 || uv_async_init(&f.loop, &f.wake, on_wake) < 0) {
        dt_error("no descriptors for the launch of other hosts");
        return 1;
    }
    uv_timer_init(&f.loop, &f.timer);
    uv_timer_init(&f.loop, &f.beat);
    int status = 1;
    if (open_fleet(&f, &err) == 0) {
        call_all(&f);
        uv_run(&f.loop, UV_RUN_DEFAULT);
        status = exit_status(&f);
    } else {
        dt_error("%s", err.text);
        close_all(&f);
    }
    finish(&f);
    return status;
}
