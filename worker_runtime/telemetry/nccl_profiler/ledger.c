/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator has a place on the page for as long as it is open. Nothing is allocated: NCCL may
 * unload us when its last communicator is gone, and load us again. */
#include "worker_runtime/telemetry/nccl_profiler/ledger.h"

#include "worker_runtime/telemetry/page_map.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* As many kernels a stream takes before a launch has to wait. */
#define UNDER_WAY 1024

struct dt_ledger_comm {
    struct dt_page_comm *place; /* on the page; NULL: none, and nothing is kept */
    /* By number: it in the high bits, the channels that are at work in the low eight. */
    uint64_t under_way[UNDER_WAY];
};

/* The process's: what NCCL calls knows nothing that all communicators share. */
static struct {
    pthread_mutex_t lock; /* for opening and closing */
    struct dt_page *page; /* while a communicator is open */
    int open;
    bool sees_forks;
    struct dt_ledger_comm comms[DT_PAGE_COMMS];
} ledger = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* -- words ------------------------------------------------------------------------------------ */

/* Text is stored by words, so that two threads may do so at once. */
static void store_text(char *at, size_t size, const char *text)
{
    uint64_t words[DT_PAGE_COMM_NAME / 8] = {0};
    char *to = (char *)words;
    for (size_t i = 0; text && i < size - 1 && text[i]; i++)
        to[i] = text[i];
    for (size_t i = 0; i < size / 8; i++)
        __atomic_store_n((uint64_t *)(void *)at + i, words[i], __ATOMIC_RELAXED);
}

/* To some milliseconds, which is enough for a hang and a third of the price. */
static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct dt_page_comm *place_of(const struct dt_ledger_comm *c)
{
    return c ? __atomic_load_n(&c->place, __ATOMIC_RELAXED) : NULL;
}

/* -- the page --------------------------------------------------------------------------------- */

/* Its parent goes on to write there. */
static void forget_in_child(void)
{
    for (size_t i = 0; i < DT_PAGE_COMMS; i++)
        ledger.comms[i].place = NULL;
    ledger.page = NULL;
    ledger.open = 0;
    pthread_mutex_init(&ledger.lock, NULL);
}

static bool is_gone(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

/* A worker may be a shell whose programs inherit its page, one after the other or several at once:
 * the first has it for as long as it lives. */
static bool claim(struct dt_page *page)
{
    int32_t self = getpid(), owner = 0;
    if (__atomic_compare_exchange_n(&page->comms_pid, &owner, self, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE) ||
        owner == self)
        return true;
    return is_gone(owner) && __atomic_compare_exchange_n(&page->comms_pid, &owner, self, false,
                                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void open_page(void)
{
    struct dt_page *page = dt_page_map();
    if (!page)
        return;
    if (!claim(page)) {
        munmap(page, DT_PAGE_SIZE);
        return;
    }
    /* What an earlier program left behind. */
    for (size_t i = 0; i < DT_PAGE_COMMS; i++)
        __atomic_store_n(&page->comms[i].state, DT_PAGE_COMM_FREE, __ATOMIC_RELAXED);
    __atomic_store_n(&page->comms_left_out, 0, __ATOMIC_RELAXED);
    if (!ledger.sees_forks)
        ledger.sees_forks = pthread_atfork(NULL, NULL, forget_in_child) == 0;
    ledger.page = page;
}

/* -- communicators ---------------------------------------------------------------------------- */

static void fill_place(struct dt_page_comm *p, int ranks, bool ends)
{
    __atomic_store_n(&p->ranks, ranks, __ATOMIC_RELAXED);
    __atomic_store_n(&p->entered, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&p->ended, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&p->exchanged, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&p->count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&p->entered_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&p->peer, -1, __ATOMIC_RELAXED);
    store_text(p->function, sizeof p->function, NULL);
    store_text(p->datatype, sizeof p->datatype, NULL);
    __atomic_store_n(&p->state, ends ? DT_PAGE_COMM_OPEN_WITH_ENDS : DT_PAGE_COMM_OPEN,
                     __ATOMIC_RELEASE);
}

/* The first that has no place on the page; NULL: all have one. */
static struct dt_ledger_comm *take_place(void)
{
    for (size_t i = 0; i < DT_PAGE_COMMS; i++) {
        struct dt_ledger_comm *c = &ledger.comms[i];
        if (!c->place) {
            memset(c->under_way, 0, sizeof c->under_way);
            __atomic_store_n(&c->place, &ledger.page->comms[i], __ATOMIC_RELAXED);
            return c;
        }
    }
    __atomic_add_fetch(&ledger.page->comms_left_out, 1, __ATOMIC_RELAXED);
    return NULL;
}

struct dt_ledger_comm *dt_ledger_comm_open(const char *name, uint64_t id, int rank, int ranks,
                                           bool ends)
{
    pthread_mutex_lock(&ledger.lock);
    if (!ledger.page)
        open_page();
    struct dt_ledger_comm *c = ledger.page ? take_place() : NULL;
    if (c) {
        ledger.open++;
        dt_ledger_comm_name(c, name, id, rank);
        fill_place(c->place, ranks, ends);
    }
    pthread_mutex_unlock(&ledger.lock);
    return c;
}

void dt_ledger_comm_close(struct dt_ledger_comm *c)
{
    pthread_mutex_lock(&ledger.lock);
    struct dt_page_comm *place = place_of(c);
    if (place) {
        __atomic_store_n(&place->state, DT_PAGE_COMM_FREE, __ATOMIC_RELEASE);
        __atomic_store_n(&c->place, NULL, __ATOMIC_RELAXED);
        if (--ledger.open == 0) {
            munmap(ledger.page, DT_PAGE_SIZE);
            ledger.page = NULL;
        }
    }
    pthread_mutex_unlock(&ledger.lock);
}

bool dt_ledger_is_kept(void)
{
    pthread_mutex_lock(&ledger.lock);
    bool kept = ledger.page != NULL;
    pthread_mutex_unlock(&ledger.lock);
    return kept;
}

void dt_ledger_comm_name(struct dt_ledger_comm *c, const char *name, uint64_t id, int rank)
{
    struct dt_page_comm *p = place_of(c);
    if (!p)
        return;
    store_text(p->name, sizeof p->name, name);
    __atomic_store_n(&p->id, id, __ATOMIC_RELAXED);
    __atomic_store_n(&p->rank, rank, __ATOMIC_RELAXED);
}

/* -- calls ------------------------------------------------------------------------------------ */

static const char *without_nccl(const char *name)
{
    return name && strncmp(name, "nccl", 4) == 0 ? name + 4 : name;
}

static void store_call(struct dt_page_comm *p, const struct dt_ledger_call *call, int peer)
{
    store_text(p->function, sizeof p->function, call->function);
    store_text(p->datatype, sizeof p->datatype, without_nccl(call->datatype));
    __atomic_store_n(&p->count, call->count, __ATOMIC_RELAXED);
    __atomic_store_n(&p->peer, peer, __ATOMIC_RELAXED);
    __atomic_store_n(&p->entered_ns, now_ns(), __ATOMIC_RELAXED);
}

uint64_t dt_ledger_comm_enter(struct dt_ledger_comm *c, const struct dt_ledger_call *call)
{
    struct dt_page_comm *p = place_of(c);
    if (!p)
        return 0;
    store_call(p, call, -1);
    return __atomic_add_fetch(&p->entered, 1, __ATOMIC_RELEASE);
}

void dt_ledger_comm_exchange(struct dt_ledger_comm *c, const struct dt_ledger_call *call, int peer)
{
    struct dt_page_comm *p = place_of(c);
    if (!p)
        return;
    store_call(p, call, peer);
    __atomic_add_fetch(&p->exchanged, 1, __ATOMIC_RELEASE);
}

void dt_ledger_comm_expect(struct dt_ledger_comm *c, uint64_t number, unsigned channels)
{
    if (place_of(c) && channels > 0 && channels < 256)
        __atomic_store_n(&c->under_way[number % UNDER_WAY], number << 8 | channels,
                         __ATOMIC_RELAXED);
}

static void raise_to(uint64_t *at, uint64_t number)
{
    uint64_t was = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (was < number &&
           !__atomic_compare_exchange_n(at, &was, number, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

/* A collective whose entry was taken over by one that is a ring younger ends unnoticed. */
void dt_ledger_comm_channel_ended(struct dt_ledger_comm *c, uint64_t number)
{
    struct dt_page_comm *p = place_of(c);
    if (!p)
        return;
    uint64_t *entry = &c->under_way[number % UNDER_WAY];
    uint64_t was = __atomic_load_n(entry, __ATOMIC_RELAXED);
    do {
        if (was >> 8 != number || (was & 0xff) == 0)
            return;
    } while (!__atomic_compare_exchange_n(entry, &was, was - 1, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    if ((was & 0xff) == 1)
        raise_to(&p->ended, number);
}

int dt_ledger_comm_index(const struct dt_ledger_comm *c)
{
    return (int)(c - ledger.comms);
}

struct dt_ledger_comm *dt_ledger_comm_at(int index)
{
    return index >= 0 && index < DT_PAGE_COMMS ? &ledger.comms[index] : NULL;
}
