/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/timers.h"

#include <stdlib.h>
#include <string.h>

void dt_timers_finish(struct dt_timers *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->at[i].scope);
    free(t->at);
    *t = (struct dt_timers){0};
}

static struct dt_timer *find(const struct dt_timers *t, pid_t pid, const char *scope)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->at[i].pid == pid && strcmp(t->at[i].scope, scope) == 0)
            return &t->at[i];
    return NULL;
}

/* The last one moves into the gap: the table has no order. */
static void drop(struct dt_timers *t, size_t i)
{
    free(t->at[i].scope);
    t->at[i] = t->at[--t->count];
}

static struct dt_timer *append(struct dt_timers *t)
{
    if (t->count == t->size) {
        size_t size = t->size ? 2 * t->size : 16;
        struct dt_timer *more = realloc(t->at, size * sizeof *more);
        if (!more)
            return NULL;
        t->at = more;
        t->size = size;
    }
    return &t->at[t->count++];
}

int dt_timers_add(struct dt_timers *t, pid_t pid, const char *scope, int64_t expires, int signum,
                  struct dt_err *err)
{
    struct dt_timer *timer = find(t, pid, scope);
    if (timer) {
        timer->expires = expires;
        timer->signum = signum;
        return 0;
    }
    if (t->count == DT_TIMERS_MAX)
        return dt_err_set(err, DT_E_LIMIT, "%d timers are running already, that of pid %d is lost",
                          DT_TIMERS_MAX, (int)pid);
    char *copy = strdup(scope);
    timer = copy ? append(t) : NULL;
    if (!timer) {
        free(copy);
        return dt_err_set(err, DT_E_MEMORY, "no memory for a timer of pid %d", (int)pid);
    }
    *timer = (struct dt_timer){.pid = pid, .signum = signum, .expires = expires, .scope = copy};
    return 0;
}

void dt_timers_release(struct dt_timers *t, pid_t pid, const char *scope)
{
    struct dt_timer *timer = find(t, pid, scope);
    if (timer)
        drop(t, (size_t)(timer - t->at));
}

void dt_timers_delay(struct dt_timers *t, int64_t delay)
{
    for (size_t i = 0; i < t->count; i++)
        t->at[i].expires =
            t->at[i].expires < INT64_MAX - 1 - delay ? t->at[i].expires + delay : INT64_MAX - 1;
}

int64_t dt_timers_next(const struct dt_timers *t)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < t->count; i++)
        if (t->at[i].expires < next)
            next = t->at[i].expires;
    return next;
}

/* Index of the earliest due timer, of PID and with a signal if PID is not 0; -1: none. */
static ssize_t earliest_due(const struct dt_timers *t, int64_t now, pid_t pid)
{
    ssize_t found = -1;
    for (size_t i = 0; i < t->count; i++) {
        const struct dt_timer *timer = &t->at[i];
        if (timer->expires > now || (pid && (timer->pid != pid || timer->signum <= 0)))
            continue;
        if (found < 0 || timer->expires < t->at[found].expires)
            found = (ssize_t)i;
    }
    return found;
}

bool dt_timers_take_expired(struct dt_timers *t, int64_t now, struct dt_timer *out)
{
    ssize_t first = earliest_due(t, now, 0);
    if (first < 0)
        return false;
    ssize_t deadly = earliest_due(t, now, t->at[first].pid);
    ssize_t taken = deadly >= 0 ? deadly : first;
    *out = t->at[taken];
    t->at[taken].scope = NULL;
    drop(t, (size_t)taken);
    for (size_t i = t->count; deadly >= 0 && i-- > 0;)
        if (t->at[i].pid == out->pid)
            drop(t, i);
    return true;
}

void dt_timers_sweep(struct dt_timers *t, bool (*is_alive)(void *arg, pid_t pid), void *arg)
{
    for (size_t i = t->count; i-- > 0;)
        if (!is_alive(arg, t->at[i].pid))
            drop(t, i);
}
