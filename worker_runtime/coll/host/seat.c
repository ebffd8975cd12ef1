/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a host find each other's seats by the meeting: each says its process id and the
 * number of a descriptor, and the others open that. A random number on both ways tells them that it
 * is the right one: process ids are reused, and mean something else in another pid namespace. */
#include "worker_runtime/coll/host/seat.h"
#include "worker_runtime/coll/host/segment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LOOK DT_SECOND /* a wait for a card goes on for so long without a look at who has died */

struct card { /* what a rank says of itself at the meeting */
    int32_t pid, fd;
    uint64_t nonce, pid_namespace;
};

/* WHAT is "seat" for the card, and "left" for the rank because of which this one gave up. */
static int make_key(char *out, size_t size, const struct dt_coll_group *g, const char *what,
                    int rank, struct dt_err *err)
{
    int n = snprintf(out, size, "coll/%lld/%s/%s/%d", (long long)g->epoch, g->name, what, rank);
    if (n < 0 || (size_t)n >= size)
        return dt_err_set(err, DT_E_RUNTIME, "the name of group %s is too long", g->name);
    return 0;
}

static int card_show(const struct dt_coll_group *g, struct dt_meeting *m, const struct card *card,
                     struct dt_err *err)
{
    char key[256];
    if (make_key(key, sizeof key, g, "seat", g->rank, err) < 0)
        return -1;
    return m->set(m, key, card, sizeof *card, err);
}

static int seat_make(struct dt_shm_seats *s, struct card *card, struct dt_err *err)
{
    size_t bytes = dt_shm_seat_bytes(s->size);
    card->fd = dt_segment_make("dtrun-seat", bytes, false, err);
    if (card->fd < 0)
        return -1;
    struct dt_shm_seat *own = dt_segment_map(card->fd, bytes, true, err);
    if (!own)
        return -1;
    s->seat[s->rank] = own;
    if (getrandom(&own->nonce, sizeof own->nonce, 0) != sizeof own->nonce)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "no random number for a seat");
    dt_cores_own(&own->cores);
    card->nonce = own->nonce;
    return 0;
}

/* The descriptor of its life comes first: whoever the seat then turns out to be right of was alive
 * when it was opened, so it is about the same process. */
static int seat_reach(struct dt_shm_seats *s, int rank, const struct card *card, struct dt_err *err)
{
    s->members[rank].pid = card->pid;
    if (card->pid_namespace != dt_segment_namespace())
        return dt_err_set(err, DT_E_RUNTIME,
                          "it is in another pid namespace: workers of one host must run in one "
                          "container, or in containers that share theirs");
    if (card->fd < 0)
        return dt_err_set(err, DT_E_RUNTIME, "it could not make its own seat");
    if (dt_life_open(&s->life[rank], card->pid) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "its process cannot be watched");
    int fd = dt_segment_reach(card->pid, card->fd, false, err);
    if (fd < 0)
        return -1;
    s->seat[rank] = dt_segment_map(fd, dt_shm_seat_bytes(s->size), false, err);
    close(fd);
    if (!s->seat[rank])
        return -1;
    if (s->seat[rank]->nonce != card->nonce)
        return dt_err_set(err, DT_E_RUNTIME,
                          "its seat is not where it said: is /proc that of "
                          "this pid namespace?");
    return 0;
}

/* Whether the process of a member is over, as far as its id is known. */
static bool is_gone(const struct dt_shm_seats *s, int rank)
{
    return rank != s->rank && dt_life_was(s->members[rank].pid);
}

/* Whom a rank that is gone said it left because of; itself, when it said nothing. */
static int culprit_of(const struct dt_shm_seats *s, const struct dt_coll_group *g,
                      struct dt_meeting *m, int rank)
{
    char key[256];
    int32_t culprit;
    if (make_key(key, sizeof key, g, "left", rank, NULL) < 0 ||
        m->get(m, key, &culprit, sizeof culprit, 1, NULL) < 0 || culprit < 0 || culprit >= s->size)
        return rank;
    return culprit;
}

/* In place of *ERR, if somebody is gone: who stumbled over that is not the news. */
static bool name_gone(struct dt_shm_seats *s, const struct dt_coll_group *g, struct dt_meeting *m,
                      struct dt_err *err)
{
    const struct dt_coll_member *who = s->members;
    struct dt_err why = {0};
    int r = 0;
    while (r < s->size && !is_gone(s, r))
        r++;
    if (r == s->size)
        return false;
    s->culprit = culprit_of(s, g, m, r);
    if (s->culprit == r)
        dt_err_set(&why, DT_E_DISCONNECTED, "rank %d (pid %d) is gone", who[r].world_rank,
                   who[r].pid);
    else
        dt_err_set(&why, DT_E_DISCONNECTED, "rank %d (pid %d) has left because of rank %d",
                   who[r].world_rank, who[r].pid, who[s->culprit].world_rank);
    if (err)
        *err = why;
    return true;
}

/* A rank that is dead before it has a seat would be waited for to the end, so the wait is cut up
 * for looks at those whose process is known. */
static int card_get(struct dt_shm_seats *s, const struct dt_coll_group *g, struct dt_meeting *m,
                    int r, struct card *card, struct dt_err *err)
{
    char key[256];
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), g->timeout), left = g->timeout;
    struct dt_err why = {0};
    if (make_key(key, sizeof key, g, "seat", r, err) < 0)
        return -1;
    do {
        if (m->get(m, key, card, sizeof *card, left < LOOK ? left : LOOK, &why) == 0)
            return 0;
        if (name_gone(s, g, m, err))
            return -1;
        left = deadline - dt_clock_monotonic();
    } while (why.code == DT_E_TIMEOUT && left > 0);
    s->culprit = r;
    if (err)
        *err = why;
    return dt_err_wrap(err, "rank %d did not come", g->members[r].world_rank);
}

/* Rank R lives, but gave up, and said because of whom before it closed what we looked for. */
static void name_left(struct dt_shm_seats *s, const struct dt_coll_group *g, struct dt_meeting *m,
                      int r, struct dt_err *err)
{
    int culprit = culprit_of(s, g, m, r);
    if (culprit == r)
        return;
    s->culprit = culprit;
    dt_err_set(err, DT_E_DISCONNECTED, "rank %d (pid %d) has left because of rank %d",
               s->members[r].world_rank, s->members[r].pid, s->members[culprit].world_rank);
}

/* Rank R could not be reached. It may have left because of another that died, so that one is looked
 * for, also among those whose cards we have not taken yet. */
static int fail_reach(struct dt_shm_seats *s, const struct dt_coll_group *g, struct dt_meeting *m,
                      int r, struct dt_err *err)
{
    char key[256];
    struct card card;
    s->culprit = r;
    dt_err_wrap(err, "rank %d (pid %d)", s->members[r].world_rank, s->members[r].pid);
    for (int q = 0; q < s->size; q++)
        if (s->members[q].pid == 0 && make_key(key, sizeof key, g, "seat", q, NULL) == 0 &&
            m->get(m, key, &card, sizeof card, 1, NULL) == 0 &&
            card.pid_namespace == dt_segment_namespace())
            s->members[q].pid = card.pid;
    if (!name_gone(s, g, m, err))
        name_left(s, g, m, r, err);
    return -1;
}

static int reach_all(struct dt_shm_seats *s, const struct dt_coll_group *g, struct dt_meeting *m,
                     struct dt_err *err)
{
    struct card card;
    for (int r = 0; r < s->size; r++) {
        if (r == s->rank)
            continue;
        if (card_get(s, g, m, r, &card, err) < 0)
            return -1;
        if (seat_reach(s, r, &card, err) < 0)
            return fail_reach(s, g, m, r, err);
    }
    return 0;
}

static bool cores_suffice(const struct dt_shm_seats *s, int ranks)
{
    struct dt_cores *cores = calloc((unsigned)s->size, sizeof *cores);
    if (!cores)
        return false;
    for (int r = 0; r < s->size; r++)
        cores[r] = s->seat[r]->cores;
    bool suffice = dt_cores_suffice(cores, s->size, ranks);
    free(cores);
    return suffice;
}

int dt_shm_seats_open(struct dt_shm_seats *s, const struct dt_coll_group *g, struct dt_meeting *m,
                      int *own_fd, struct dt_err *err)
{
    struct card card = {.pid = (int)getpid(), .fd = -1, .pid_namespace = dt_segment_namespace()};
    size_t n = (size_t)g->size;
    *own_fd = -1;
    *s = (struct dt_shm_seats){.size = g->size, .rank = g->rank, .culprit = g->rank};
    s->members = calloc(n, sizeof *s->members);
    s->life = calloc(n, sizeof *s->life);
    s->seat = calloc(n, sizeof(struct dt_shm_seat *));
    if (!s->members || !s->life || !s->seat)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the %d ranks of a group", g->size);
    memcpy(s->members, g->members, n * sizeof *s->members);
    s->members[s->rank].pid = card.pid;
    int rc = seat_make(s, &card, err);
    *own_fd = card.fd;
    if (rc < 0) {
        card.fd = -1; /* nobody is to wait for us */
        card_show(g, m, &card, NULL);
        return -1;
    }
    if (card_show(g, m, &card, err) < 0 || reach_all(s, g, m, err) < 0)
        return -1;
    s->own_core = cores_suffice(s, g->neighbours > g->size ? g->neighbours : g->size);
    return 0;
}

void dt_shm_seats_tell(const struct dt_coll_group *g, struct dt_meeting *m, int culprit)
{
    char key[256];
    int32_t word = culprit;
    if (make_key(key, sizeof key, g, "left", g->rank, NULL) == 0)
        m->set(m, key, &word, sizeof word, NULL);
}

void dt_shm_seats_close(struct dt_shm_seats *s)
{
    for (int r = 0; r < s->size; r++) {
        if (s->life)
            dt_life_close(&s->life[r]);
        if (s->seat)
            dt_segment_unmap(s->seat[r], dt_shm_seat_bytes(s->size));
    }
    free(s->members);
    free(s->life);
    free(s->seat);
    *s = (struct dt_shm_seats){0};
}

void dt_shm_seats_ring(const struct dt_shm_seats *s)
{
    struct dt_shm_seat *own = dt_shm_seats_own(s);
    bool asked = false;
    for (int r = 0; r < s->size; r++)
        asked |= s->seat[r] && atomic_load(&s->seat[r]->asleep_on) == (uint32_t)s->rank + 1;
    if (!asked)
        return;
    atomic_fetch_add(&own->bell, 1);
    dt_futex_wake(&own->bell);
}

/* Who goes to sleep says so and then looks once more; we write and then look who sleeps. All in one
 * order, so one of the two sees the other. */
void dt_shm_seats_publish(const struct dt_shm_seats *s, _Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value);
    dt_shm_seats_ring(s);
}

bool dt_shm_seats_dead(const struct dt_shm_seats *s, int rank)
{
    return rank != s->rank && dt_life_is_over(&s->life[rank]);
}
