/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the hosts backend: hosts.c opens it and keeps calls in order;
 * wait.c waits and knows who is to blame; run.c and what it needs (cut.h) move
 * the bytes of one collective after the other. */
#ifndef DT_WORKER_RUNTIME_COLL_HOSTS_INSIDE_H
#define DT_WORKER_RUNTIME_COLL_HOSTS_INSIDE_H

#include "worker_runtime/coll/host/patience.h"
#include "worker_runtime/coll/hosts/board.h"
#include "worker_runtime/coll/hosts/net.h"

/* Messages under way that are waited for together. */
struct dt_hosts_flight {
    struct {
        struct dt_wire_request *request;
        int rank; /* the other end */
    } * at;
    size_t n, size;
};

struct dt_hosts_memory {
    char *at;
    size_t bytes;
    struct dt_hosts_memory *next;
};

/* One call that was started: sends and receives go on at once, all else waits for its turn. */
struct dt_hosts_slot {
    struct dt_coll_handle *handle; /* NULL: free */
    uint64_t number;               /* in the order of starts */
    struct dt_wire_request *mail;  /* a send or receive */
};

struct dt_hosts {
    struct dt_roster roster;
    const struct dt_coll_backend *inside; /* among the ranks of this host */
    void *inner;
    struct dt_net *net; /* NULL once the group is lost */
    struct dt_board board;
    char *page;       /* of inner's memory: the board, and behind it the stages */
    size_t stage;     /* bytes of one rank's stage, of which there are two */
    uint32_t turn;    /* which of the two is next */
    char *partial[2]; /* sums of this host for ranks of others, until they are sent */
    char *incoming;   /* what other hosts summed for this rank */
    char *own;        /* this host's sum for this rank */
    const void **in;  /* room for a pointer for each rank of this host, or each host */
    struct dt_hosts_flight sends[2], receives, rest;
    struct dt_hosts_memory *shared; /* DT_SHARED memory of users */
    struct dt_hosts_slot slots[DT_COLL_PENDING];
    uint64_t started;
    dt_ms deadline; /* of the call under way */
    struct dt_patience patience;
    _Atomic bool aborted;
    struct dt_err lost; /* code: why the group is of no use */
};

/* Runs CALL to its end; waits below are bounded by h->deadline. */
int dt_hosts_run(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err);

/* Fails when the group is lost; to be called again and again by who waits. WAITS_FOR: the rank to
 * name when the time is over. */
int dt_hosts_look(struct dt_hosts *h, int waits_for, struct dt_err *err);

/* A connection to RANK failed. Whoever broke it may have said why, or another knows. */
int dt_hosts_lose_rank(struct dt_hosts *h, int rank, const struct dt_err *why, struct dt_err *err);
int dt_hosts_say_lost(const struct dt_hosts *h, struct dt_err *err); /* as it was before: -1 */
struct dt_hosts_blame dt_hosts_gave_up(const struct dt_hosts *h);    /* this rank's own doing */

/* This rank is at its next step, and so are all others of the host. */
int dt_hosts_meet(struct dt_hosts *h, struct dt_err *err);

int dt_hosts_send(struct dt_hosts *h, struct dt_hosts_flight *f, int rank, const void *bytes,
                  size_t len, struct dt_err *err);
int dt_hosts_recv(struct dt_hosts *h, struct dt_hosts_flight *f, int rank, void *bytes, size_t len,
                  struct dt_err *err);
int dt_hosts_land(struct dt_hosts *h, struct dt_hosts_flight *f,
                  struct dt_err *err); /* waits for all */

/* Waits for one message to or from RANK. */
int dt_hosts_await(struct dt_hosts *h, struct dt_wire_request *r, int rank, struct dt_err *err);

/* Whether the ranks of this host see one and the same memory there. */
bool dt_hosts_is_shared(const struct dt_hosts *h, const void *at, size_t bytes);

/* The board, rounded up to whole pages of memory, then the stages of both turns. */
static inline size_t dt_hosts_board_room(const struct dt_hosts *h)
{
    return (dt_board_bytes(&h->roster) + 4095) / 4096 * 4096;
}

static inline size_t dt_hosts_page_bytes(const struct dt_hosts *h)
{
    return dt_hosts_board_room(h) + 2 * (size_t)dt_roster_own(&h->roster)->n * h->stage;
}

/* The stage of a rank of this host, by its place. */
static inline char *dt_hosts_stage(const struct dt_hosts *h, uint32_t turn, int place)
{
    size_t n = (size_t)dt_roster_own(&h->roster)->n;
    return h->page + dt_hosts_board_room(h) + ((size_t)(turn & 1) * n + (size_t)place) * h->stage;
}

#endif
