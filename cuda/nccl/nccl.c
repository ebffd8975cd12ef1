/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of GPUs by NCCL: how one is made and ended. Rank 0 makes the id by which the communicator
 * finds itself, and gives it to the others by the meeting; where it could not, it gives them its
 * reason instead, so that nobody waits for what cannot come. Whatever begins here is bounded in
 * time, and the watchdog looks at it from the first moment. */
#include "cuda/nccl/inside.h"

#include "cuda/nccl/hints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long the ranks of a healthy group may take to end it together. */
#define PARTING ((dt_ms)10000)

struct hello {             /* rank 0 to all others */
    int32_t version, code; /* of its NCCL; enum dt_err_code, with WHY */
    ncclUniqueId id;
    char why[256];
};

/* -- the id ----------------------------------------------------------------------------------- */

struct version_text {
    char text[24];
};

static struct version_text show(int version)
{
    struct version_text v;
    int old = version < 10000; /* 2.8 and before */
    snprintf(v.text, sizeof v.text, "%d.%d.%d", version / (old ? 1000 : 10000),
             old ? version / 100 % 10 : version / 100 % 100, version % 100);
    return v;
}

static int own_version(const struct dt_nccl *n, int *version, struct dt_err *err)
{
    ncclResult_t r = n->calls->version(version);
    if (r != ncclSuccess)
        return dt_nccl_fail(n->calls, r, "asking NCCL for its version", err);
    if (*version >= DT_NCCL_OLDEST)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME,
                      "NCCL %s is loaded, and 2.19 or newer is needed: install one, or see which "
                      "is found first (LD_LIBRARY_PATH)",
                      show(*version).text);
}

static int make_hello(const struct dt_nccl *n, struct hello *hello, struct dt_err *err)
{
    int version = 0;
    if (own_version(n, &version, err) < 0)
        return -1;
    hello->version = version;
    ncclResult_t r = n->calls->unique_id(&hello->id);
    return r == ncclSuccess ? 0 : dt_nccl_fail(n->calls, r, "making the id of a group", err);
}

static int give_hello(const struct dt_nccl *n, struct dt_meeting *m, const char *key,
                      struct hello *hello, struct dt_err *err)
{
    struct dt_err why = {0};
    int rc = make_hello(n, hello, &why);
    hello->code = (int32_t)why.code;
    snprintf(hello->why, sizeof hello->why, "%.*s", (int)sizeof hello->why - 1, why.text);
    if (m->set(m, key, hello, sizeof *hello, err) < 0)
        return -1;
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static int take_hello(const struct dt_nccl *n, const struct dt_coll_group *g, struct dt_meeting *m,
                      const char *key, struct hello *hello, struct dt_err *err)
{
    int first = g->members[0].world_rank, we = g->members[g->rank].world_rank, version = 0;
    if (m->get(m, key, hello, sizeof *hello, g->timeout, err) < 0)
        return dt_err_wrap(err, "the id of the group from rank %d", first);
    hello->why[sizeof hello->why - 1] = '\0';
    if (hello->code != DT_E_NONE)
        return dt_err_set(err, (enum dt_err_code)hello->code, "rank %d could not begin: %s", first,
                          hello->why);
    if (own_version(n, &version, err) < 0)
        return -1;
    if (version == hello->version)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME,
                      "rank %d has NCCL %s and rank %d has NCCL %s: install one version on all "
                      "hosts, and look at LD_LIBRARY_PATH",
                      we, show(version).text, first, show(hello->version).text);
}

static int meet(const struct dt_nccl *n, const struct dt_coll_group *g, struct dt_meeting *m,
                ncclUniqueId *id, struct dt_err *err)
{
    char key[256];
    struct hello hello;
    memset(&hello, 0, sizeof hello); /* its padding travels too */
    int len = snprintf(key, sizeof key, "coll/%lld/%s/nccl", (long long)g->epoch, g->name);
    if (len < 0 || (size_t)len >= sizeof key)
        return dt_err_set(err, DT_E_RUNTIME, "the name of the group is too long");
    int rc =
        g->rank == 0 ? give_hello(n, m, key, &hello, err) : take_hello(n, g, m, key, &hello, err);
    *id = hello.id;
    return rc;
}

/* -- connecting ------------------------------------------------------------------------------- */

static int say_late(const struct dt_coll_group *g, struct dt_err *err)
{
    return dt_err_set(
        err, DT_E_TIMEOUT,
        "rank %d of group %s has waited %g s for NCCL to connect its %d ranks: one of "
        "them did not come, or hosts do not reach each other; set "
        "NCCL_SOCKET_IFNAME to the interface they share, and NCCL_DEBUG=INFO to see "
        "where it stands",
        g->members[g->rank].world_rank, g->name, (double)g->timeout / 1e3, g->size);
}

/* NCCL may hang where it splits a communicator that still has work. */
static int split_off(struct dt_nccl *n, const struct dt_coll_group *g, dt_ms deadline,
                     struct dt_err *err)
{
    struct dt_nccl *parent = g->parent;
    if (dt_nccl_rest(parent, deadline, err) < 0)
        return -1;
    return dt_comm_split(&n->comm, &parent->comm, g->colour, g->key, deadline, err);
}

static int connect_all(struct dt_nccl *n, const struct dt_coll_group *g, struct dt_meeting *m,
                       struct dt_err *err)
{
    struct dt_nccl *parent = g->parent;
    struct dt_err why = {0};
    ncclUniqueId id = {{0}};
    bool split = parent && parent->connected && n->calls->split;
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), g->timeout);
    int rc = split ? split_off(n, g, deadline, &why) : meet(n, g, m, &id, &why);
    bool by_nccl = split || rc == 0;
    if (rc == 0 && !split)
        rc = dt_comm_connect(&n->comm, id, g->size, g->rank, deadline, &why);
    if (rc == 0)
        return 0;
    if (by_nccl && why.code == DT_E_TIMEOUT)
        say_late(g, &why);
    if (err)
        *err = why;
    return -1;
}

/* -- the watchdog of the device --------------------------------------------------------------- */

static void lose(void *cuda, const struct dt_err *why)
{
    dt_cuda_device_lose(cuda, why);
}

static int watch(struct dt_nccl *n, dt_ms timeout, struct dt_err *err)
{
    struct dt_cuda *c = n->cuda;
    struct dt_comm_watchdog_of of = {.calls = n->calls,
                                     .ordinal = c->stream.ordinal,
                                     .round_over = c->round_over,
                                     .round_over_arg = c->round_over_arg,
                                     .lose = lose,
                                     .lose_arg = c};
    n->watched.comm = &n->comm;
    n->watched.flights = &n->flights;
    n->watched.peers = &n->peers;
    n->watched.group = n->name;
    atomic_store(&n->watched.timeout, timeout);
    bool first = !c->watchdog;
    if (first)
        c->watchdog = dt_comm_watchdog_open(&of, err);
    if (!c->watchdog)
        return -1;
    n->watching = dt_comm_watchdog_add(c->watchdog, &n->watched, err) == 0;
    if (first && !n->watching) {
        dt_comm_watchdog_close(c->watchdog);
        c->watchdog = NULL;
    }
    return n->watching ? 0 : -1;
}

static void unwatch(struct dt_nccl *n)
{
    struct dt_cuda *c = n->cuda;
    if (n->watching && dt_comm_watchdog_remove(c->watchdog, &n->watched)) {
        dt_comm_watchdog_close(c->watchdog);
        c->watchdog = NULL;
    }
    n->watching = false;
}

/* -- opening and closing ---------------------------------------------------------------------- */

/* By the variable that NCCL itself obeys, whatever the caller of NCCL says. */
static bool is_to_block(const struct dt_nccl *n)
{
    const char *wish = getenv("NCCL_COMM_BLOCKING");
    return n->cuda->give_up && wish && strtol(wish, NULL, 0) == 1;
}

static int open_connected(struct dt_nccl *n, const struct dt_coll_group *g, struct dt_meeting *m,
                          struct dt_err *err)
{
    const struct dt_comm_last last = {n->cuda->give_up, n->cuda->give_up_arg};
    if (dt_nccl_find_windows(n, err) < 0 ||
        dt_comm_init(&n->comm, n->calls, is_to_block(n) ? &last : NULL, err) < 0)
        return -1;
    dt_flights_init(&n->flights, n->calls);
    n->connected = true;
    if (dt_peers_open(&n->peers, g, err) < 0 || watch(n, g->timeout, err) < 0)
        return -1;
    cudaError_t e = dt_nccl_choose_gpu(n);
    if (e != cudaSuccess)
        return dt_cuda_fail(e, "choosing the GPU", err);
    if (connect_all(n, g, m, err) < 0)
        return -1;
    n->token = dt_device_alloc(&n->cuda->device, sizeof(float), "collective buffers", err);
    return n->token ? 0 : -1;
}

static void close_connected(struct dt_nccl *n, dt_ms patience)
{
    unwatch(n);
    dt_nccl_drop_posted(n);
    bool rests = dt_nccl_rest(n, dt_clock_after(dt_clock_monotonic(), patience), NULL) == 0;
    if (rests)
        dt_nccl_hide_all(n);
    else
        dt_comm_abort(&n->comm, NULL);
    dt_comm_close(&n->comm, patience);
    if (!rests) { /* what stands behind NCCL's work there uses the memory that goes back now */
        n->calls->stream_sync(n->cuda->gather);
        n->calls->stream_sync(n->cuda->reduce);
    }
    dt_comm_finish(&n->comm);
    dt_flights_finish(&n->flights);
    dt_peers_close(&n->peers);
    dt_device_free(&n->cuda->device, n->token);
    dt_device_free(&n->cuda->device, n->wide);
}

static void nccl_close(void *b)
{
    struct dt_nccl *n = b;
    if (!n)
        return;
    dt_nccl_choose_gpu(n);
    if (n->connected)
        close_connected(n, PARTING);
    dt_nccl_release_all(n);
    free(n->name);
    free(n);
}

/* A communicator of one is made only to be there when NCCL splits its parent, which all of the
 * parent's ranks have to call. */
static bool needs_communicator(const struct dt_nccl *n, const struct dt_coll_group *g)
{
    const struct dt_nccl *parent = g->parent;
    return g->size > 1 || (parent && parent->connected && n->calls->split);
}

void *dt_nccl_open(const struct dt_nccl_calls *calls, const struct dt_coll_group *g,
                   struct dt_meeting *m, struct dt_err *err)
{
    struct dt_nccl *n = calloc(1, sizeof *n);
    char *name = strdup(g->name);
    if (!n || !name) {
        free(n);
        free(name);
        dt_err_set(err, DT_E_MEMORY, "no memory for a group of GPUs");
        return NULL;
    }
    n->calls = calls;
    n->cuda = dt_container_of(g->device, struct dt_cuda, device);
    n->size = g->size;
    n->rank = g->rank;
    n->name = name;
    dt_list_init(&n->blocks);
    if (!needs_communicator(n, g) || open_connected(n, g, m, err) == 0)
        return n;
    nccl_close(n);
    return NULL;
}

/* -- the backend ------------------------------------------------------------------------------ */

static void *nccl_open(const struct dt_coll_group *g, struct dt_meeting *m, struct dt_err *err)
{
    return dt_nccl_open(dt_nccl_linked(), g, m, err);
}

/* Each rank has its own GPU's memory. */
static bool nccl_shares_all(void *b)
{
    (void)b;
    return false;
}

static bool nccl_lends_better(void *b)
{
    const struct dt_nccl *n = b;
    return n->windows;
}

static void nccl_abort(void *b)
{
    struct dt_nccl *n = b;
    struct dt_err why = {0};
    dt_err_set(&why, DT_E_CANCELED, "this rank has aborted its group");
    dt_nccl_choose_gpu(n);
    if (n->connected)
        dt_comm_abort(&n->comm, &why);
}

const struct dt_coll_backend dt_cuda_nccl = {
    .name = "nccl",
    .open = nccl_open,
    .start = dt_nccl_start,
    .wait = dt_nccl_wait,
    .alloc = dt_nccl_alloc,
    .release = dt_nccl_release,
    .shares_all = nccl_shares_all,
    .lends_better = nccl_lends_better,
    .abort = nccl_abort,
    .close = nccl_close,
};
