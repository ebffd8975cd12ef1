/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/coll/hosts/board.h"

#include "worker_runtime/coll/host/patience.h"

#include <stdio.h>

size_t dt_board_bytes(const struct dt_roster *roster)
{
    return sizeof(struct dt_board_page) +
           (size_t)dt_roster_own(roster)->n * sizeof(struct dt_board_line);
}

void dt_board_open(struct dt_board *b, const struct dt_roster *roster, void *page,
                   const struct dt_shm_seats *seats)
{
    *b = (struct dt_board){.page = page, .roster = roster, .seats = seats};
}

void dt_board_close(struct dt_board *b)
{
    if (b->page)
        atomic_store(&b->page->line[b->roster->local].left, 1);
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

static bool has_left(const struct dt_board *b, int place)
{
    return atomic_load(&b->page->line[place].left) != 0;
}

int dt_board_wait_fd(const struct dt_board *b, int place)
{
    return !b->seats || has_left(b, place) ? -1 : dt_life_wait_fd(&b->seats->life[place]);
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
    for (int place = 0; b->seats && place < own->n; place++) {
        if (!dt_shm_seats_dead(b->seats, place) || has_left(b, place))
            continue;
        if (is_blamed(b, blame))
            return true;
        *blame = (struct dt_hosts_blame){.rank = own->ranks[place], .code = DT_E_DISCONNECTED};
        snprintf(blame->why, sizeof blame->why, "its process (pid %d) is gone",
                 b->seats->members[place].pid);
        return true;
    }
    return false;
}
