/* SPDX-License-Identifier: Apache-2.0 */
#include "base/relax.h"
#include "worker_runtime/coll/host/patience.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS 4000 /* about 100 us: longer than a peer needs to wake up, shorter than a slice */
#define YIELDS 50
#define SLEEP_NS 1000000

void dt_cores_own(struct dt_cores *c)
{
    memset(c, 0, sizeof *c);
    /* The system call itself: the C library's sets end at 1024 processors. */
    syscall(SYS_sched_getaffinity, 0, sizeof c->bits, c->bits);
}

static int count(const struct dt_cores *c)
{
    int n = 0;
    for (int i = 0; i < DT_CORES_WORDS; i++)
        n += __builtin_popcountll(c->bits[i]);
    return n;
}

static bool within(const struct dt_cores *small, const struct dt_cores *big)
{
    for (int i = 0; i < DT_CORES_WORDS; i++)
        if (small->bits[i] & ~big->bits[i])
            return false;
    return true;
}

/* No set may hold more ranks than cores. Of sets that partly overlap this asks less than it should,
 * which costs time and nothing else. */
bool dt_cores_suffice(const struct dt_cores *cores, int n, int ranks)
{
    struct dt_cores all = {0};
    int each = 0;
    for (int i = 0; i < n; i++) {
        int inside = 0;
        for (int k = 0; k < n; k++)
            inside += within(&cores[k], &cores[i]);
        if (inside > count(&cores[i]))
            return false;
        for (int w = 0; w < DT_CORES_WORDS; w++)
            all.bits[w] |= cores[i].bits[w];
        each += count(&cores[i]);
    }
    bool bound = each == count(&all); /* no two share a core: then others were given theirs too */
    return bound || count(&all) >= ranks;
}

bool dt_patience_over(struct dt_patience *p)
{
    int spins = p->own_core ? SPINS : 0, at = p->tries;
    if (at >= spins + YIELDS)
        return true;
    p->tries++;
    if (at < spins)
        dt_relax();
    else
        sched_yield();
    return false;
}

void dt_futex_sleep(const _Atomic uint32_t *word, uint32_t seen)
{
    const struct timespec bound = {.tv_nsec = SLEEP_NS};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &bound, NULL, 0);
}

void dt_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
