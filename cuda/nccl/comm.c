/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a communicator is the table below; move() alone assigns the state. The handle is
 * NCCL's until abort or destroy, and whoever takes it out under the lock is the one that gives it
 * back. */
#include "cuda/nccl/comm.h"

#include "cuda/nccl/hints.h"

#include <assert.h>
#include <string.h>
#include <time.h>

enum event { CONNECT, CALL, TAKEN, CLOSE, TROUBLE, ABORT, EVENTS };

#define NO (-1) /* a fault of ours */

/* clang-format off */
static const int moves[DT_COMM_STATES][EVENTS] = {
    /*                       CONNECT             CALL           TAKEN            CLOSE            TROUBLE          ABORT */
    [DT_COMM_NEW]        = {DT_COMM_CONNECTING, NO,            NO,              DT_COMM_CLOSING, DT_COMM_FAILED,  DT_COMM_ABORTED},
    [DT_COMM_CONNECTING] = {NO,                 NO,            DT_COMM_READY,   NO,              DT_COMM_FAILED,  DT_COMM_ABORTED},
    [DT_COMM_READY]      = {NO,                 DT_COMM_BUSY,  NO,              DT_COMM_CLOSING, DT_COMM_FAILED,  DT_COMM_ABORTED},
    [DT_COMM_BUSY]       = {NO,                 NO,            DT_COMM_READY,   NO,              DT_COMM_FAILED,  DT_COMM_ABORTED},
    [DT_COMM_CLOSING]    = {NO,                 NO,            DT_COMM_CLOSED,  NO,              DT_COMM_FAILED,  DT_COMM_ABORTED},
    [DT_COMM_CLOSED]     = {NO,                 NO,            NO,              DT_COMM_CLOSED,  DT_COMM_CLOSED,  DT_COMM_CLOSED},
    [DT_COMM_FAILED]     = {DT_COMM_FAILED,     NO,            DT_COMM_FAILED,  DT_COMM_FAILED,  DT_COMM_FAILED,  DT_COMM_ABORTED},
    [DT_COMM_ABORTED]    = {DT_COMM_ABORTED,    NO,            DT_COMM_ABORTED, DT_COMM_ABORTED, DT_COMM_ABORTED, DT_COMM_ABORTED},
};
/* clang-format on */

static const char *const state_names[DT_COMM_STATES] = {
    [DT_COMM_NEW] = "new",       [DT_COMM_CONNECTING] = "connecting", [DT_COMM_READY] = "ready",
    [DT_COMM_BUSY] = "busy",     [DT_COMM_CLOSING] = "closing",       [DT_COMM_CLOSED] = "closed",
    [DT_COMM_FAILED] = "failed", [DT_COMM_ABORTED] = "aborted",
};

/* How long an abort waits for who is inside to see it and come out. Longer than that it is stuck in
 * NCCL, and the abort is what it needs. */
#define COME_OUT ((dt_ms)1000)

static void move(struct dt_comm *c, enum event e)
{
    int to = moves[c->state][e];
    assert(to != NO);
    c->state = (enum dt_comm_state)to;
}

static bool is_lost(const struct dt_comm *c)
{
    return c->state == DT_COMM_FAILED || c->state == DT_COMM_ABORTED || c->state == DT_COMM_CLOSED;
}

static void note(struct dt_comm *c, const struct dt_err *why)
{
    if (c->why.code == DT_E_NONE && why)
        c->why = *why;
}

static int tell_why(const struct dt_comm *c, struct dt_err *err)
{
    if (c->why.code == DT_E_NONE)
        return dt_err_set(err, DT_E_CANCELED, "the communicator is %s", state_names[c->state]);
    if (err)
        *err = c->why;
    return -1;
}

int dt_comm_init(struct dt_comm *c, const struct dt_nccl_calls *calls,
                 const struct dt_comm_last *last, struct dt_err *err)
{
    pthread_condattr_t monotonic;
    memset(c, 0, sizeof *c);
    c->calls = calls;
    if (last)
        c->last = *last;
    if (pthread_mutex_init(&c->lock, NULL) != 0 || pthread_condattr_init(&monotonic) != 0)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a communicator");
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&c->left, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return rc == 0 ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for a communicator");
}

void dt_comm_finish(struct dt_comm *c)
{
    pthread_mutex_lock(&c->lock);
    while (c->aborting)
        pthread_cond_wait(&c->left, &c->lock);
    pthread_mutex_unlock(&c->lock);
    pthread_cond_destroy(&c->left);
    pthread_mutex_destroy(&c->lock);
}

enum dt_comm_state dt_comm_state(struct dt_comm *c)
{
    pthread_mutex_lock(&c->lock);
    enum dt_comm_state s = c->state;
    pthread_mutex_unlock(&c->lock);
    return s;
}

int dt_comm_check(struct dt_comm *c, struct dt_err *err)
{
    pthread_mutex_lock(&c->lock);
    int rc = is_lost(c) ? tell_why(c, err) : 0;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* -- in and out ------------------------------------------------------------------------------- */

/* As EVENT, once nobody else is inside. */
static int go_in(struct dt_comm *c, enum event e, struct dt_err *err)
{
    pthread_mutex_lock(&c->lock);
    while (c->inside)
        pthread_cond_wait(&c->left, &c->lock);
    bool lost = is_lost(c);
    if (lost) {
        tell_why(c, err);
    } else {
        move(c, e);
        c->inside = true;
        c->entered = dt_clock_monotonic();
    }
    pthread_mutex_unlock(&c->lock);
    return lost ? -1 : 0;
}

/* An abort that did not wait any longer left a handle that came up later to us. */
static ncclComm_t left_over(struct dt_comm *c)
{
    ncclComm_t handle = NULL;
    if (c->state == DT_COMM_ABORTED && !c->aborting) {
        handle = c->handle;
        c->handle = NULL;
    }
    return handle;
}

static int come_out(struct dt_comm *c, const struct dt_err *failed, struct dt_err *err)
{
    pthread_mutex_lock(&c->lock);
    c->inside = false;
    note(c, failed);
    move(c, failed ? TROUBLE : TAKEN);
    int rc = c->state == DT_COMM_FAILED || c->state == DT_COMM_ABORTED ? tell_why(c, err) : 0;
    ncclComm_t handle = left_over(c);
    pthread_cond_broadcast(&c->left);
    pthread_mutex_unlock(&c->lock);
    if (handle)
        c->calls->abort(handle);
    return rc;
}

/* NCCL says only when asked whether it has got any further. */
static void nap(int tries)
{
    long us = tries < 20 ? 20 : 500;
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* Until C's state at NCCL is no longer "in progress". */
static int settle(struct dt_comm *c, ncclResult_t r, const char *what, dt_ms deadline,
                  struct dt_err *err)
{
    for (int tries = 0; r == ncclInProgress; tries++) {
        if (dt_comm_check(c, err) < 0)
            return -1;
        if (dt_clock_monotonic() >= deadline)
            return dt_err_set(err, DT_E_TIMEOUT, "%s is not over: NCCL is still at it", what);
        nap(tries);
        ncclResult_t asked = c->calls->async_error(c->handle, &r);
        if (asked != ncclSuccess)
            r = asked;
    }
    return r == ncclSuccess ? 0 : dt_nccl_fail(c->calls, r, what, err);
}

ncclComm_t dt_comm_enter(struct dt_comm *c, struct dt_err *err)
{
    return go_in(c, CALL, err) == 0 ? c->handle : NULL;
}

int dt_comm_leave(struct dt_comm *c, ncclResult_t r, const char *what, dt_ms deadline,
                  struct dt_err *err)
{
    struct dt_err why = {0};
    bool ok = settle(c, r, what, deadline, &why) == 0;
    return come_out(c, ok ? NULL : &why, err);
}

dt_ms dt_comm_busy(struct dt_comm *c, dt_ms now)
{
    pthread_mutex_lock(&c->lock);
    bool any = c->state == DT_COMM_BUSY || c->state == DT_COMM_CONNECTING;
    dt_ms busy = any && now > c->entered ? now - c->entered : 0;
    pthread_mutex_unlock(&c->lock);
    return busy;
}

ncclResult_t dt_comm_ask(struct dt_comm *c)
{
    ncclResult_t r = ncclSuccess;
    pthread_mutex_lock(&c->lock);
    bool can = !c->inside && c->state == DT_COMM_READY && c->handle;
    c->inside |= can;
    pthread_mutex_unlock(&c->lock);
    if (!can)
        return ncclSuccess;
    ncclResult_t asked = c->calls->async_error(c->handle, &r);
    pthread_mutex_lock(&c->lock);
    c->inside = false;
    pthread_cond_broadcast(&c->left);
    pthread_mutex_unlock(&c->lock);
    if (asked != ncclSuccess)
        r = asked;
    return r == ncclInProgress ? ncclSuccess : r;
}

/* -- beginning -------------------------------------------------------------------------------- */

int dt_comm_connect(struct dt_comm *c, ncclUniqueId id, int size, int rank, dt_ms deadline,
                    struct dt_err *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = c->last.give_up != NULL;
    if (go_in(c, CONNECT, err) < 0)
        return -1;
    ncclResult_t r = c->calls->init(&c->handle, size, id, rank, &config);
    return dt_comm_leave(c, r, "making a communicator", deadline, err);
}

/* Until it is done NCCL keeps the state of a split with the parent, and shows no part of it. */
static int split_inside(struct dt_comm *c, struct dt_comm *parent, int colour, int key,
                        dt_ms deadline, struct dt_err *err)
{
    const char *what = "splitting a communicator";
    ncclComm_t whole = dt_comm_enter(parent, err);
    if (!whole)
        return -1;
    ncclResult_t r = c->calls->split(whole, colour, key, &c->handle, NULL);
    if (dt_comm_leave(parent, r, what, deadline, err) < 0)
        return -1;
    if (!c->handle)
        return dt_err_set(err, DT_E_RUNTIME, "%s: NCCL gave no part of it", what);
    return settle(c, ncclInProgress, what, deadline, err);
}

int dt_comm_split(struct dt_comm *c, struct dt_comm *parent, int colour, int key, dt_ms deadline,
                  struct dt_err *err)
{
    struct dt_err why = {0};
    if (go_in(c, CONNECT, err) < 0)
        return -1;
    bool ok = split_inside(c, parent, colour, key, deadline, &why) == 0;
    if (!ok)
        dt_comm_abort(parent, &why);
    return come_out(c, ok ? NULL : &why, err);
}

/* -- ending ----------------------------------------------------------------------------------- */

void dt_comm_fail(struct dt_comm *c, const struct dt_err *why)
{
    pthread_mutex_lock(&c->lock);
    note(c, why);
    move(c, TROUBLE);
    pthread_mutex_unlock(&c->lock);
}

static void wait_for_who_is_inside(struct dt_comm *c)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += COME_OUT / DT_SECOND;
    while (c->inside && pthread_cond_timedwait(&c->left, &c->lock, &until) == 0) {
    }
}

/* Under the lock, as the process has no use for it any more but for a test's, which may let who is
 * inside come out instead. */
static void end_process(struct dt_comm *c)
{
    struct dt_err why = c->why;
    pthread_mutex_unlock(&c->lock);
    c->last.give_up(c->last.arg, &why);
    pthread_mutex_lock(&c->lock);
    while (c->inside)
        pthread_cond_wait(&c->left, &c->lock);
}

void dt_comm_abort(struct dt_comm *c, const struct dt_err *why)
{
    pthread_mutex_lock(&c->lock);
    bool first = c->state != DT_COMM_ABORTED && c->state != DT_COMM_CLOSED;
    note(c, why);
    move(c, ABORT);
    if (!first) {
        pthread_mutex_unlock(&c->lock);
        return;
    }
    c->aborting = true;
    wait_for_who_is_inside(c);
    if (c->inside && c->last.give_up)
        end_process(c);
    ncclComm_t handle = c->handle;
    c->handle = NULL;
    pthread_mutex_unlock(&c->lock);
    if (handle)
        c->calls->abort(handle);
    pthread_mutex_lock(&c->lock);
    c->aborting = false;
    pthread_cond_broadcast(&c->left);
    pthread_mutex_unlock(&c->lock);
}

/* Whether all ranks ended it together. */
static bool end_together(struct dt_comm *c, dt_ms patience)
{
    if (go_in(c, CLOSE, NULL) < 0)
        return false;
    if (!c->handle) /* never connected */
        return dt_comm_leave(c, ncclSuccess, "closing", 0, NULL) == 0;
    ncclResult_t r = c->calls->finalize(c->handle);
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), patience);
    return dt_comm_leave(c, r, "closing a communicator", deadline, NULL) == 0;
}

void dt_comm_close(struct dt_comm *c, dt_ms patience)
{
    if (!end_together(c, patience)) {
        dt_comm_abort(c, NULL);
        return;
    }
    if (c->handle)
        c->calls->destroy(c->handle);
    c->handle = NULL;
}
