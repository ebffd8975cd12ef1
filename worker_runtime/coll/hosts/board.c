/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/coll/hosts/board.h"

#include "worker_runtime/coll/host/patience.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

size_t dt_board_bytes(const struct dt_roster *roster)
{
    return sizeof(struct dt_board_page) +
           (size_t)dt_roster_own(roster)->n * sizeof(struct dt_board_line);
}

/* The process is alive when this is opened, as it waits for us in the same place. */
static int watch(struct dt_board *b, int place, struct dt_err *err)
{
    int pid = atomic_load(&b->page->line[place].pid);
    if (dt_life_open(&b->life[place], pid) == 0)
        return 0;
    return dt_err_errno(err, DT_E_RUNTIME, errno, "rank %d (pid %d) cannot be watched",
                        b->roster->members[dt_roster_own(b->roster)->ranks[place]].world_rank, pid);
}

static int await_all(struct dt_board *b, dt_ms deadline, struct dt_err *err)
{
    int behind;
    while ((behind = dt_board_behind(b)) >= 0) {
        if (dt_clock_monotonic() >= deadline)
            return dt_err_set(err, DT_E_TIMEOUT, "rank %d of this host did not come to the group",
                              b->roster->members[behind].world_rank);
        if (dt_life_was(b->roster->members[behind].pid))
            return dt_err_set(err, DT_E_DISCONNECTED,
                              "rank %d of this host ended before it came to the group",
                              b->roster->members[behind].world_rank);
        dt_board_doze(b);
    }
    return 0;
}

int dt_board_open(struct dt_board *b, const struct dt_roster *roster, void *page, dt_ms timeout,
                  struct dt_err *err)
{
    int n = dt_roster_own(roster)->n;
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), timeout);
    *b = (struct dt_board){.page = page, .roster = roster};
    b->life = calloc((size_t)n, sizeof *b->life);
    if (!b->life)
        return dt_err_set(err, DT_E_MEMORY, "no memory to watch %d ranks", n);
    atomic_store(&b->page->line[roster->local].pid, getpid());
    dt_board_step(b);
    if (await_all(b, deadline, err) < 0)
        return -1;
    for (int place = 0; place < n; place++)
        if (place != roster->local && watch(b, place, err) < 0)
            return -1;
    return 0;
}

void dt_board_close(struct dt_board *b)
{
    if (b->page && b->life) {
        atomic_store(&b->page->line[b->roster->local].left, 1);
        for (int place = 0; place < dt_roster_own(b->roster)->n; place++)
            dt_life_close(&b->life[place]);
    }
    free(b->life);
    *b = (struct dt_board){0};
}

static void ring(struct dt_board *b)
{
    atomic_fetch_add(&b->page->bell, 1);
    if (atomic_load(&b->page->sleepers) > 0)
        dt_futex_wake(&b->page->bell);
}

void dt_board_step(struct dt_board *b)
{
    atomic_store(&b->page->line[b->roster->local].step, ++b->step);
    ring(b);
}

int dt_board_behind(const struct dt_board *b)
{
    const struct dt_roster_host *own = dt_roster_own(b->roster);
    for (int place = 0; place < own->n; place++)
        if ((int32_t)(atomic_load(&b->page->line[place].step) - b->step) < 0)
            return own->ranks[place];
    return -1;
}

bool dt_board_has_left(const struct dt_board *b, int place)
{
    return atomic_load(&b->page->line[place].left) != 0;
}

void dt_board_doze(struct dt_board *b)
{
    uint32_t seen = atomic_load(&b->page->bell);
    atomic_fetch_add(&b->page->sleepers, 1);
    if (dt_board_behind(b) >= 0)
        dt_futex_sleep(&b->page->bell, seen);
    atomic_fetch_sub(&b->page->sleepers, 1);
}

void dt_board_blame(struct dt_board *b, const struct dt_hosts_blame *blame)
{
    uint32_t nobody = 0;
    if (!b->page || !atomic_compare_exchange_strong(&b->page->blamed, &nobody, 1))
        return;
    b->page->blame = *blame;
    atomic_store(&b->page->blamed, 2);
    ring(b);
}

static bool is_blamed(const struct dt_board *b, struct dt_hosts_blame *blame)
{
    if (atomic_load(&b->page->blamed) != 2)
        return false;
    *blame = b->page->blame;
    return true;
}

/* Who died of another's death has said so before. */
bool dt_board_look(struct dt_board *b, struct dt_hosts_blame *blame)
{
    const struct dt_roster_host *own = dt_roster_own(b->roster);
    if (is_blamed(b, blame))
        return true;
    dt_ms now = dt_clock_monotonic();
    if (now == b->looked)
        return false;
    b->looked = now;
    for (int place = 0; place < own->n; place++) {
        if (!dt_life_is_over(&b->life[place]) || dt_board_has_left(b, place))
            continue;
        if (is_blamed(b, blame))
            return true;
        *blame = (struct dt_hosts_blame){.rank = own->ranks[place], .code = DT_E_DISCONNECTED};
        snprintf(blame->why, sizeof blame->why, "its process (pid %d) is gone",
                 (int)atomic_load(&b->page->line[place].pid));
        return true;
    }
    return false;
}
