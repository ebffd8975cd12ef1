/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/lag/lag.h"

#include "base/log.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

#define SLOW_TENTHS 13           /* of the median: is slow from there on ... */
#define FAST_TENTHS 12           /* ... and no more below this */
#define HARM (DT_OWN_WHOLE / 10) /* of a window: less than that is not worth a word */

enum { STATES = DT_LAG_OVER + 1 };

/* clang-format off */
static const bool may_follow[STATES][STATES] = {
    [DT_LAG_NONE] = {[DT_LAG_THERE] = true},
    [DT_LAG_THERE] = {[DT_LAG_OVER] = true},
    [DT_LAG_OVER] = {[DT_LAG_THERE] = true},
};
/* clang-format on */

static void become(struct dt_lag *l, enum dt_lag_state state)
{
    if (!may_follow[l->state][state])
        dt_bug("a straggler is in state %d and cannot be in %d", l->state, state);
    l->state = state; /* the only assignment */
}

void dt_lag_begin(struct dt_lag *l, int size)
{
    *l = (struct dt_lag){.size = size};
}

/* -- the median ------------------------------------------------------------------------------- */

/* A node takes the place of what it told before, so that a beat costs the same in a job of ten
 * thousand nodes. */
static void count(struct dt_lag *l, struct dt_lag_node *node, const struct dt_own_time *t)
{
    l->at[node->median] -= node->ranks;
    l->told[node->by] -= node->ranks;
    node->window = t->window;
    node->by = t->by;
    node->ranks = t->ranks;
    node->median = t->median;
    l->at[node->median] += node->ranks;
    l->told[node->by] += node->ranks;
    if (t->steps > l->steps)
        l->steps = t->steps;
}

/* The lower of two, so that of two ranks one can be told from the other. */
static int median_of(const struct dt_lag *l)
{
    int so_far = 0, half = (l->size + 1) / 2;
    for (int own = 0; own < DT_OWN_WHOLE; own++)
        if ((so_far += l->at[own]) >= half)
            return own;
    return DT_OWN_WHOLE;
}

static bool exceeds(int own, int median, int tenths)
{
    return own * 10 > median * tenths && own - median >= HARM;
}

/* -- words ------------------------------------------------------------------------------------ */

static int put_figures(const struct dt_own_time *t, int median, char *out, size_t size)
{
    double times = (double)t->own / (median > 0 ? median : 1);
    double ms = (double)t->step_us * 1e-3, own = ms * t->own / DT_OWN_WHOLE;
    if (t->step_us > 0)
        return snprintf(out, size,
                        "of a step of %.3g ms it takes %.3g ms for its own part, the others %.3g "
                        "ms (%.1f times as long)",
                        ms, own, ms * median / DT_OWN_WHOLE, times);
    return snprintf(out, size,
                    "it works on its own part for %d %% of the time, the others %d %% (%.1f times "
                    "as long)",
                    t->own * 100 / DT_OWN_WHOLE, median * 100 / DT_OWN_WHOLE, times);
}

static void name_it(struct dt_lag *l, const struct dt_lag_node *node, const char *name,
                    const struct dt_own_time *t, int median)
{
    bool together = t->ranks > 1 && exceeds(t->median, median, SLOW_TENTHS);
    l->rank = t->rank;
    l->whose = node;
    l->since = node->since;
    snprintf(l->who, sizeof l->who, "rank %d%s%s", t->rank, *name ? " on " : "", name);
    size_t n =
        (size_t)snprintf(l->sentence, sizeof l->sentence, "%s%s holds the others up: ", l->who,
                         together ? ", like most ranks there," : "");
    n += (size_t)put_figures(t, median, l->sentence + n, sizeof l->sentence - n);
    if (n < sizeof l->sentence && t->reason && *t->reason)
        snprintf(l->sentence + n, sizeof l->sentence - n, "; likely because %s", t->reason);
}

static void say_over(struct dt_lag *l, dt_ms now)
{
    char time[32];
    dt_ms whole = (now - l->since) / DT_SECOND * DT_SECOND;
    snprintf(l->sentence, sizeof l->sentence, "%s keeps up with the others again, after %s", l->who,
             dt_str_from_duration(whole, time, sizeof time));
}

/* -- who is slow, and for how long ------------------------------------------------------------ */

static void count_slow(const struct dt_lag *l, struct dt_lag_node *node, int rank, bool slow,
                       dt_ms now)
{
    if (!slow || rank != node->rank)
        node->slow = 0;
    node->rank = rank;
    if (slow && node->slow++ == 0) {
        node->since = now;
        node->steps = l->steps;
    }
}

static bool is_long_slow(const struct dt_lag *l, const struct dt_lag_node *node, dt_ms now)
{
    return node->slow >= DT_LAG_WINDOWS && l->steps - node->steps >= DT_LAG_STEPS &&
           now - node->since >= DT_LAG_TIME;
}

static bool is_over(const struct dt_lag *l, struct dt_lag_node *node, const struct dt_own_time *t,
                    int median)
{
    bool fast = t->rank != l->rank || !exceeds(t->own, median, FAST_TENTHS);
    node->fast = fast ? node->fast + 1 : 0;
    return node->fast >= DT_LAG_WINDOWS;
}

bool dt_lag_take(struct dt_lag *l, struct dt_lag_node *node, const char *name,
                 const struct dt_own_time *t, dt_ms now)
{
    if (t->window <= node->window)
        return false; /* a beat that says it again */
    count(l, node, t);
    if (l->told[t->by] != l->size || l->size < 2)
        return false; /* some are not measured, or not in the same way */
    int median = median_of(l);
    count_slow(l, node, t->rank, exceeds(t->own, median, SLOW_TENTHS), now);
    if (l->state == DT_LAG_THERE && (node != l->whose || !is_over(l, node, t, median)))
        return false;
    if (l->state == DT_LAG_THERE) {
        become(l, DT_LAG_OVER);
        say_over(l, now);
        return true;
    }
    if (!is_long_slow(l, node, now))
        return false;
    become(l, DT_LAG_THERE);
    node->fast = 0;
    name_it(l, node, name, t, median);
    return true;
}
