/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank of a host waits, and what ends a wait before its time: a peer that died, one that left
 * and says because of whom, or one that does not come. */
#include "worker_runtime/coll/host/shm.h"
#include "worker_runtime/coll/host/stream.h"

#include <stdio.h>

void shm_give_up(struct shm *s, int blame)
{
    struct dt_shm_seat *own = dt_shm_seats_own(&s->seats);
    uint32_t nobody = 0;
    atomic_compare_exchange_strong(&own->gave_up, &nobody, (uint32_t)blame + 1);
    dt_shm_seats_ring(&s->seats);
}

static bool missing(const struct shm *s, const struct shm_need *need, int r)
{
    return r != s->seats.rank && (need->peer < 0 || need->peer == r) && !shm_has(s, need, r);
}

static int fail_dead(struct shm *s, int r, struct dt_err *err)
{
    shm_give_up(s, r);
    return dt_err_set(err, DT_E_DISCONNECTED, "rank %d (pid %d) is gone", shm_world_rank(s, r),
                      s->seats.members[r].pid);
}

static int fail_left(struct shm *s, int r, int blame, struct dt_err *err)
{
    shm_give_up(s, blame);
    if (blame == r)
        return dt_err_set(err, DT_E_DISCONNECTED, "rank %d (pid %d) has left the group",
                          shm_world_rank(s, r), s->seats.members[r].pid);
    return dt_err_set(err, DT_E_DISCONNECTED,
                      "rank %d (pid %d) has left the group because of rank %d (pid %d)",
                      shm_world_rank(s, r), s->seats.members[r].pid, shm_world_rank(s, blame),
                      s->seats.members[blame].pid);
}

int shm_blamed_by(const struct shm *s, int r)
{
    uint32_t word = atomic_load(&s->seats.seat[r]->gave_up);
    return word == 0 ? -1 : word > (uint32_t)s->seats.size ? r : (int)word - 1;
}

/* Dead, and had no time to say why. */
static bool was_killed(const struct shm *s, int r)
{
    return dt_shm_seats_dead(&s->seats, r) && shm_blamed_by(s, r) < 0;
}

/* Peers that were killed or have left. In a collective that is anybody: who is done with it has
 * seen all others come as far as we now wait for them, so who leaves while we wait was not done.
 * All may have come since we looked, and then there is nothing to tell. Survivors that leave and
 * end because of another are not the news, that one is. */
static int look_at_peers(struct shm *s, const struct shm_need *need, struct dt_err *err)
{
    int killed = -1, left = -1, blame = -1;
    for (int r = 0; r < s->seats.size; r++) {
        if (r == s->seats.rank || (need->peer >= 0 && need->peer != r))
            continue;
        int cause = shm_blamed_by(s, r);
        if (killed < 0 && cause < 0 && was_killed(s, r))
            killed = r;
        if (cause >= 0 && (left < 0 || blame == left)) {
            left = r;
            blame = cause;
        }
    }
    if ((killed < 0 && left < 0) || shm_ready(s, need))
        return 0;
    if (killed < 0 && blame != s->seats.rank && was_killed(s, blame))
        killed = blame;
    return killed >= 0 ? fail_dead(s, killed, err) : fail_left(s, left, blame, err);
}

static int fail_late(struct shm *s, const struct shm_need *need, struct dt_err *err)
{
    char who[300] = "";
    size_t n = 0;
    int first = -1, late = 0;
    for (int r = 0; r < s->seats.size; r++) {
        if (!missing(s, need, r))
            continue;
        first = first < 0 ? r : first;
        if (late++ < 8)
            n += (size_t)snprintf(who + n, sizeof who - n, "%s%d (pid %d)", late > 1 ? ", " : "",
                                  shm_world_rank(s, r), s->seats.members[r].pid);
    }
    shm_give_up(s, first < 0 ? s->seats.rank : first);
    return dt_err_set(err, DT_E_TIMEOUT, "rank%s %s%s did not come in time", late > 1 ? "s" : "",
                      who, late > 8 ? " and others" : "");
}

/* Sleeps for what OP needs, 1 ms at the most. */
static void sleep_on(struct shm *s, const struct shm_need *need)
{
    int peer = need->peer;
    for (int r = 0; peer < 0 && r < s->seats.size; r++)
        if (missing(s, need, r))
            peer = r;
    if (peer < 0)
        return;
    const struct dt_shm_seat *theirs = s->seats.seat[peer];
    struct dt_shm_seat *own = dt_shm_seats_own(&s->seats);
    uint32_t bell = atomic_load(&theirs->bell);
    atomic_store(&own->asleep_on, (uint32_t)peer + 1);
    if (atomic_load(&theirs->gave_up) == 0 && !shm_has(s, need, peer))
        dt_futex_sleep(&theirs->bell, bell);
    atomic_store(&own->asleep_on, 0);
}

int shm_wait_for(struct shm *s, struct shm_op *op, dt_ms deadline, struct dt_err *err)
{
    struct dt_patience patience = {.own_core = s->seats.own_core};
    while (!op->done) {
        int moved = shm_progress(s);
        if (moved < 0) {
            shm_give_up(s, s->fault_of);
            if (err)
                *err = s->fault;
            return -1;
        }
        if (moved > 0) {
            patience.tries = 0;
            continue;
        }
        if (!dt_patience_over(&patience))
            continue;
        const struct shm_need need = shm_front(s, op)->need;
        sleep_on(s, &need);
        if (atomic_load(&s->aborted))
            return dt_err_set(err, DT_E_CANCELED, "the group was aborted");
        if (look_at_peers(s, &need, err) < 0)
            return -1;
        if (dt_clock_monotonic() >= deadline && !shm_ready(s, &need))
            return fail_late(s, &need, err);
    }
    dt_stream_end(); /* what came past the caches is there for other threads of ours too */
    op->used = false;
    return 0;
}
