/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait for work: first by looking at a counter for a moment, as the next op mostly
 * comes within microseconds, then asleep in a futex. Looking is for as long as a sleep and a wake
 * would cost, and not at all where the threads outnumber the processors allowed to this process.
 *
 * A round is published by raising its number; parts are taken one by one, the last first, so a
 * thread that wakes late or shares its processor delays nobody. The round and how many parts are
 * not yet taken live in one word: a late thread cannot take a part of a round that is over.
 *
 * After a fork the child has no threads but its caller's, and does all parts itself. */
#include "base/relax.h"
#include "worker_runtime/ops/cpu/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOKS = 2000, PART_BITS = 32 };

struct helper {
    struct dt_pool *pool;
    pthread_t thread;
    int self;
};

struct dt_pool {
    _Alignas(64) atomic_uint round;      /* what helpers wait on; UINT_MAX steps are a lap */
    _Alignas(64) _Atomic uint64_t left;  /* round << 32 | parts that nobody took yet */
    _Alignas(64) atomic_uint unfinished; /* parts of this round; what the caller waits on */
    _Alignas(64) atomic_uint sleeping;   /* helpers in the futex, or about to be */
    atomic_bool waiting;                 /* the caller is in the futex */
    atomic_bool stop;
    dt_pool_work_fn work;
    void *arg;
    unsigned looks;
    int threads, started;
    pid_t owner;
    struct helper helpers[];
};

static _Thread_local int self_thread; /* the callers' is 0 */

static void futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int most)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
}

/* Takes parts until this round has none left. Whoever finishes the last one tells the caller. WORK
 * and ARG are read after a part was taken: they hold until it is finished. */
static void take_parts(struct dt_pool *p, uint32_t round)
{
    uint64_t left = atomic_load_explicit(&p->left, memory_order_acquire);
    while ((uint32_t)(left >> PART_BITS) == round && (uint32_t)left > 0) {
        if (!atomic_compare_exchange_weak_explicit(&p->left, &left, left - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        p->work(p->arg, (uint32_t)left - 1);
        if (atomic_fetch_sub(&p->unfinished, 1) == 1 && atomic_load(&p->waiting))
            futex_wake(&p->unfinished, 1);
        left = atomic_load_explicit(&p->left, memory_order_acquire);
    }
}

static uint32_t await_round(struct dt_pool *p, uint32_t seen)
{
    for (unsigned i = 0; i < p->looks; i++) {
        uint32_t now = atomic_load_explicit(&p->round, memory_order_acquire);
        if (now != seen)
            return now;
        dt_relax();
    }
    atomic_fetch_add(&p->sleeping, 1);
    while (atomic_load(&p->round) == seen)
        futex_wait(&p->round, seen);
    atomic_fetch_sub(&p->sleeping, 1);
    return atomic_load(&p->round);
}

static void *help(void *arg)
{
    struct helper *h = arg;
    struct dt_pool *p = h->pool;
    self_thread = h->self;
    for (uint32_t round = 0; !atomic_load(&p->stop);) {
        round = await_round(p, round);
        take_parts(p, round);
    }
    return NULL;
}

static uint32_t begin_round(struct dt_pool *p, uint32_t parts)
{
    uint32_t round = atomic_load_explicit(&p->round, memory_order_relaxed) + 1;
    atomic_store_explicit(&p->left, (uint64_t)round << PART_BITS | parts, memory_order_release);
    atomic_store(&p->round, round);
    if (atomic_load(&p->sleeping) > 0)
        futex_wake(&p->round, INT_MAX);
    return round;
}

static void await_parts(struct dt_pool *p)
{
    unsigned left = atomic_load_explicit(&p->unfinished, memory_order_acquire);
    for (unsigned i = 0; left > 0 && i < p->looks; i++) {
        dt_relax();
        left = atomic_load_explicit(&p->unfinished, memory_order_acquire);
    }
    if (left == 0)
        return;
    atomic_store(&p->waiting, true);
    while ((left = atomic_load(&p->unfinished)) > 0)
        futex_wait(&p->unfinished, left);
    atomic_store(&p->waiting, false);
}

/* Helpers leave every signal to the program's own threads. */
static int start_helpers(struct dt_pool *p, struct dt_err *err)
{
    sigset_t all, before;
    int rc = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (rc == 0 && p->started < p->threads - 1) {
        struct helper *h = &p->helpers[p->started];
        *h = (struct helper){.pool = p, .self = p->started + 1};
        rc = pthread_create(&h->thread, NULL, help, h);
        p->started += rc == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return dt_err_errno(err, DT_E_RUNTIME, rc,
                            "cannot start thread %d of %d; give fewer threads to each rank",
                            p->started + 2, p->threads);
    return 0;
}

static unsigned looks_for(int threads)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < threads)
        return 0;
    return LOOKS;
}

struct dt_pool *dt_pool_create(int threads, struct dt_err *err)
{
    if (threads < 1)
        threads = 1;
    size_t size = sizeof(struct dt_pool) + (size_t)threads * sizeof(struct helper);
    struct dt_pool *p = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!p) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a pool of %d threads", threads);
        return NULL;
    }
    *p = (struct dt_pool){.threads = threads, .looks = looks_for(threads), .owner = getpid()};
    if (start_helpers(p, err) < 0) {
        dt_pool_destroy(p);
        return NULL;
    }
    return p;
}

void dt_pool_destroy(struct dt_pool *p)
{
    if (!p)
        return;
    if (p->owner == getpid()) {
        atomic_store(&p->stop, true);
        begin_round(p, 0);
        for (int i = 0; i < p->started; i++)
            pthread_join(p->helpers[i].thread, NULL);
    }
    free(p);
}

int dt_pool_threads(const struct dt_pool *p)
{
    return p ? p->threads : 1;
}

int dt_pool_self(void)
{
    return self_thread;
}

void dt_pool_run(struct dt_pool *p, size_t parts, dt_pool_work_fn work, void *arg)
{
    if (!p || p->started == 0 || parts < 2 || parts > UINT32_MAX || p->owner != getpid()) {
        for (size_t i = 0; i < parts; i++)
            work(arg, i);
        return;
    }
    p->work = work;
    p->arg = arg;
    atomic_store(&p->unfinished, (unsigned)parts);
    take_parts(p, begin_round(p, (uint32_t)parts));
    await_parts(p);
}
