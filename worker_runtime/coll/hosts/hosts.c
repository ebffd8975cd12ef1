/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of a group on several hosts. Work is done while a rank waits: calls that were started
 * stand in line, and who waits for one of them runs all before it too, so that every rank runs the
 * same in the same order. Sends and receives are apart from that and go on from their start.
 *
 * Once a rank knows that another is gone, so do soon all that it talks with: on its host by the
 * board, on others by the news that it sends before it closes its connections. */
#include "worker_runtime/coll/hosts/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGE ((size_t)1 << 20)
#define SMALL_PARTS ((size_t)16 << 10) /* of each host, see cut.h */

/* -- calls ------------------------------------------------------------------------------------ */

static bool is_mail(const struct dt_coll_call *call)
{
    return call->kind == DT_SEND || call->kind == DT_RECV;
}

/* Over the wire to ranks of this host too: a rank that waited inside shm would not move its
 * messages to other hosts, and ranks would wait for each other in a ring. */
static int start_mail(struct dt_hosts *h, struct dt_hosts_slot *s, struct dt_err *err)
{
    const struct dt_coll_call *c = &s->handle->call;
    size_t bytes = c->count * dt_dtype_size(c->type);
    struct dt_err why = {0};
    int rc = c->kind == DT_SEND
                 ? dt_net_send(h->net, c->peer, DT_NET_MAIL, c->send, bytes, &s->mail, &why)
                 : dt_net_recv(h->net, c->peer, DT_NET_MAIL, c->recv, bytes, &s->mail, &why);
    return rc < 0 ? dt_hosts_lose_rank(h, c->peer, &why, err) : 0;
}

static int start(void *b, struct dt_coll_handle *handle, struct dt_err *err)
{
    struct dt_hosts *h = b;
    struct dt_hosts_slot *s = NULL;
    if (h->lost.code != DT_E_NONE)
        return dt_hosts_say_lost(h, err);
    for (size_t i = 0; i < DT_COLL_PENDING && !s; i++)
        s = h->slots[i].handle ? NULL : &h->slots[i];
    if (!s)
        return dt_err_set(err, DT_E_LIMIT, "more than %d collectives under way", DT_COLL_PENDING);
    *s = (struct dt_hosts_slot){.handle = handle, .number = h->started++};
    handle->state = s;
    if (!is_mail(&handle->call))
        return 0;
    int rc = start_mail(h, s, err);
    if (rc < 0)
        s->handle = NULL;
    return rc;
}

/* The first of those that stand in line, up to LAST. */
static struct dt_hosts_slot *next_in_line(struct dt_hosts *h, uint64_t last)
{
    struct dt_hosts_slot *first = NULL;
    for (size_t i = 0; i < DT_COLL_PENDING; i++) {
        struct dt_hosts_slot *s = &h->slots[i];
        if (s->handle && !s->handle->done && !is_mail(&s->handle->call) && s->number <= last &&
            (!first || s->number < first->number))
            first = s;
    }
    return first;
}

static int finish_mail(struct dt_hosts *h, struct dt_hosts_slot *s, struct dt_err *err)
{
    if (h->lost.code != DT_E_NONE)
        return dt_hosts_say_lost(h, err);
    return dt_hosts_await(h, s->mail, s->handle->call.peer, err);
}

static int wait(void *b, struct dt_coll_handle *handle, dt_ms deadline, struct dt_err *err)
{
    struct dt_hosts *h = b;
    struct dt_hosts_slot *s = handle->state, *next;
    int rc = 0;
    h->deadline = deadline;
    if (is_mail(&handle->call)) {
        rc = finish_mail(h, s, err);
        handle->done = true;
    } else {
        while (rc == 0 && (next = next_in_line(h, s->number)) != NULL) {
            rc = h->lost.code != DT_E_NONE ? dt_hosts_say_lost(h, err)
                                           : dt_hosts_run(h, &next->handle->call, err);
            next->handle->done = true;
            next->handle = NULL;
        }
        if (rc == 0 && h->lost.code != DT_E_NONE)
            rc = dt_hosts_say_lost(h, err);
    }
    if (s->handle == handle)
        s->handle = NULL;
    return rc;
}

/* -- memory ----------------------------------------------------------------------------------- */

static void *alloc(void *b, size_t bytes, enum dt_coll_memory memory, struct dt_err *err)
{
    struct dt_hosts *h = b;
    struct dt_hosts_memory *m = memory == DT_SHARED ? malloc(sizeof *m) : NULL;
    if (memory == DT_SHARED && !m) {
        dt_err_set(err, DT_E_MEMORY, "no memory to remember shared memory");
        return NULL;
    }
    void *at = h->inside->alloc(h->inner, bytes, memory, err);
    if (!at || !m) {
        free(m);
        return at;
    }
    *m = (struct dt_hosts_memory){.at = at, .bytes = bytes, .next = h->shared};
    h->shared = m;
    return at;
}

static void release(void *b, void *memory)
{
    struct dt_hosts *h = b;
    for (struct dt_hosts_memory **at = &h->shared; *at; at = &(*at)->next)
        if ((*at)->at == memory) {
            struct dt_hosts_memory *m = *at;
            *at = m->next;
            free(m);
            break;
        }
    h->inside->release(h->inner, memory);
}

bool dt_hosts_is_shared(const struct dt_hosts *h, const void *at, size_t bytes)
{
    uintptr_t p = (uintptr_t)at;
    for (const struct dt_hosts_memory *m = h->shared; m; m = m->next)
        if (p >= (uintptr_t)m->at && p - (uintptr_t)m->at <= m->bytes &&
            bytes <= m->bytes - (p - (uintptr_t)m->at))
            return true;
    return false;
}

static bool shares_all(void *b)
{
    const struct dt_hosts *h = b;
    return h->roster.hosts == 1 && h->inside->shares_all(h->inner);
}

/* -- open and close --------------------------------------------------------------------------- */

static int open_inside(struct dt_hosts *h, const struct dt_coll_group *g, struct dt_meeting *m,
                       struct dt_err *err)
{
    const struct dt_roster_host *own = dt_roster_own(&h->roster);
    struct dt_coll_member *members = calloc((size_t)own->n, sizeof *members);
    char name[128];
    if (!members)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the ranks of this host");
    for (int q = 0; q < own->n; q++)
        members[q] = g->members[own->ranks[q]];
    /* By its first rank, as a host's number may mean little. */
    snprintf(name, sizeof name, "%.100s@%d", g->name, own->ranks[0]);
    struct dt_coll_group in = *g;
    in.members = members;
    in.size = own->n;
    in.rank = h->roster.local;
    in.name = name;
    h->inside = own->n > 1 ? &dt_coll_shm : &dt_coll_alone;
    h->inner = h->inside->open(&in, m, err);
    free(members);
    return h->inner ? 0 : -1;
}

/* The board and the stages are in memory that the host shares, all else is our own. */
static int alloc_stages(struct dt_hosts *h, struct dt_err *err)
{
    size_t size = (size_t)h->roster.size, hosts = (size_t)h->roster.hosts;
    size_t n = (size_t)dt_roster_own(&h->roster)->n;
    size_t most = n > hosts ? n : hosts;
    h->stage = size * 4096 > STAGE ? size * 4096 : STAGE;
    size_t incoming = hosts * SMALL_PARTS > h->stage ? hosts * SMALL_PARTS : h->stage;
    h->page = h->inside->alloc(h->inner, dt_hosts_page_bytes(h), DT_SHARED, err);
    if (!h->page)
        return -1;
    h->partial[0] = malloc(h->stage);
    h->partial[1] = malloc(h->stage);
    h->own = malloc(h->stage);
    h->incoming = malloc(incoming);
    h->in = calloc(most, sizeof *h->in);
    if (!h->partial[0] || !h->partial[1] || !h->own || !h->incoming || !h->in)
        return dt_err_set(err, DT_E_MEMORY, "no memory for sums between hosts");
    return 0;
}

static void close_hosts(void *b);

static void *open_hosts(const struct dt_coll_group *g, struct dt_meeting *m, struct dt_err *err)
{
    struct dt_hosts *h = calloc(1, sizeof *h);
    if (!h) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a group of %d ranks", g->size);
        return NULL;
    }
    h->deadline = DT_FOREVER;
    if (dt_roster_init(&h->roster, g, err) < 0 || open_inside(h, g, m, err) < 0 ||
        alloc_stages(h, err) < 0)
        goto fail;
    dt_board_open(&h->board, &h->roster, h->page,
                  h->inside == &dt_coll_shm ? dt_shm_seats_of(h->inner) : NULL);
    h->net = dt_net_open(g, &h->roster, &h->board, m, err);
    if (!h->net)
        goto fail;
    return h;
fail:
    close_hosts(h);
    return NULL;
}

static void abort_hosts(void *b)
{
    struct dt_hosts *h = b;
    struct dt_hosts_blame own = dt_hosts_gave_up(h);
    atomic_store(&h->aborted, true);
    dt_board_blame(&h->board, &own);
    h->inside->abort(h->inner);
}

static void close_hosts(void *b)
{
    struct dt_hosts *h = b;
    if (!h)
        return;
    struct dt_hosts_blame own = dt_hosts_gave_up(h);
    dt_net_close(h->net, atomic_load(&h->aborted) ? &own : NULL);
    dt_board_close(&h->board);
    if (h->inner)
        h->inside->close(h->inner);
    for (struct dt_hosts_memory *m = h->shared, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    free(h->partial[0]);
    free(h->partial[1]);
    free(h->own);
    free(h->incoming);
    free(h->in);
    free(h->sends[0].at);
    free(h->sends[1].at);
    free(h->receives.at);
    free(h->rest.at);
    dt_roster_finish(&h->roster);
    free(h);
}

const struct dt_coll_backend dt_coll_hosts = {
    .name = "hosts",
    .open = open_hosts,
    .start = start,
    .wait = wait,
    .alloc = alloc,
    .release = release,
    .shares_all = shares_all,
    .abort = abort_hosts,
    .close = close_hosts,
};
