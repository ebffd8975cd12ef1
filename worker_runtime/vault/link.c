/* SPDX-License-Identifier: Apache-2.0 */
/* The wire is the thread's alone once that runs. What the thread shares with the trainer is behind
 * `lock`, but for `ends`, which it looks at between any two chunks. */
#include "worker_runtime/vault/link.h"

#include "worker_runtime/coll/wire/tcp/address.h"
#include "worker_runtime/coll/wire/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define CHUNK ((size_t)4 << 20)
#define UNDER_WAY 4 /* chunks: the next one's place is known when one has come */
#define TICK_MS 50  /* between looks at the clock: calls that rest, strangers at the door */
#define WAIT_MS 50  /* between looks at GIVE_UP */
#define MAGIC 0x6474766bu

static const struct dt_wire_ops *const ops = &dt_wire_tcp;

enum tag { TAG_HEAD = 1, TAG_BYTES, TAG_REPLY };

struct head {
    uint64_t magic, seal;
    struct dt_vault_facts facts;
};

struct reply { /* it is sealed */
    uint64_t magic;
    int64_t rank, step;
};

struct stream { /* the bytes of a copy */
    int peer;
    bool leaves;
    char *at;
    size_t len, posted; /* how many are done or under way */
    struct dt_wire_request *chunk[UNDER_WAY];
    int chunks;
};

struct outgoing {
    bool busy;
    struct head head;
    struct reply reply;
    struct dt_wire_request *head_sent, *reply_came; /* NULL: they are, it is */
    struct stream bytes;
};

struct incoming { /* of one ward */
    struct dt_link_ward ward;
    bool busy; /* a head has come, and not yet all that it announces */
    int slot;  /* where it goes */
    int64_t step;
    struct head head;
    struct reply reply;
    struct dt_wire_request *head_came, *reply_sent;
    struct stream bytes;
};

struct offer {
    struct head head;
    char *bytes; /* NULL: none */
    size_t len;
};

struct dt_link {
    struct dt_wire *wire;
    int rank, neighbour;
    struct outgoing out;
    struct incoming *in; /* by ward */
    int wards;
    struct dt_vault_facts like;
    int wake; /* an eventfd: there is an offer, or the end */
    pthread_t thread;
    bool runs;
    atomic_bool ends;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct offer offer; /* that the thread has not begun with */
    bool kept;          /* by the neighbour: what was offered last */
    bool over;          /* WHY says why */
    struct dt_err why;
};

static struct dt_link *link_create(int rank)
{
    pthread_condattr_t monotonic;
    struct dt_link *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->rank = rank;
    l->kept = true;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return l;
}

struct dt_link *dt_link_open(int rank, struct dt_link_card *card, struct dt_err *err)
{
    _Static_assert(DT_LINK_CARD == DT_TCP_CARD, "a card is that of the wire");
    size_t len;
    struct dt_link *l = link_create(rank);
    if (!l) {
        dt_err_set(err, DT_E_MEMORY, "no memory for copies on other hosts");
        return NULL;
    }
    if (l->wake < 0)
        dt_err_errno(err, DT_E_RUNTIME, errno, "no way to wake the thread of copies");
    else if ((l->wire = ops->open(rank, err)) != NULL &&
             ops->address(l->wire, card->bytes, &len, err) == 0)
        return l;
    dt_link_close(l);
    return NULL;
}

static void wake(struct dt_link *l)
{
    static const uint64_t one = 1;
    ssize_t n = write(l->wake, &one, sizeof one); /* that it is full wakes as well */
    (void)n;
}

void dt_link_close(struct dt_link *l)
{
    if (!l)
        return;
    if (l->runs) {
        atomic_store(&l->ends, true);
        wake(l);
        pthread_join(l->thread, NULL);
    }
    if (l->wire)
        ops->close(l->wire);
    if (l->wake >= 0)
        close(l->wake);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l->in);
    free(l);
}

/* -- the thread ------------------------------------------------------------------------------- */

static int post(struct dt_link *l, int peer, enum tag tag, bool leaves, void *bytes, size_t len,
                struct dt_wire_request **r, struct dt_err *err)
{
    return leaves ? ops->send(l->wire, peer, tag, bytes, len, r, err)
                  : ops->recv(l->wire, peer, tag, bytes, len, r, err);
}

/* 1: *R is done, and NULL; 0: under way; -1: failed. */
static int settle(struct dt_link *l, struct dt_wire_request **r, struct dt_err *err)
{
    int rc = *r ? ops->test(l->wire, *r, err) : 1;
    if (rc != 0)
        *r = NULL;
    return rc;
}

/* 1: all of S has left or come; 0: not yet; -1. */
static int move(struct dt_link *l, struct stream *s, struct dt_err *err)
{
    while (!atomic_load_explicit(&l->ends, memory_order_relaxed)) {
        while (s->chunks < UNDER_WAY && s->posted < s->len) {
            size_t len = s->len - s->posted < CHUNK ? s->len - s->posted : CHUNK;
            if (post(l, s->peer, TAG_BYTES, s->leaves, s->at + s->posted, len, &s->chunk[s->chunks],
                     err) < 0)
                return -1;
            s->chunks++;
            s->posted += len;
        }
        if (s->chunks == 0)
            return 1;
        int rc = settle(l, &s->chunk[0], err);
        if (rc <= 0)
            return rc;
        memmove(&s->chunk[0], &s->chunk[1], (size_t)--s->chunks * sizeof s->chunk[0]);
    }
    return 0;
}

static void note_kept(struct dt_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->kept = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* False: there is none. */
static bool take_offer(struct dt_link *l, struct offer *offer)
{
    pthread_mutex_lock(&l->lock);
    *offer = l->offer;
    l->offer = (struct offer){0};
    pthread_mutex_unlock(&l->lock);
    return offer->bytes != NULL;
}

static int begin_to_send(struct dt_link *l, const struct offer *offer, struct dt_err *err)
{
    struct outgoing *o = &l->out;
    *o = (struct outgoing){
        .busy = true,
        .head = offer->head,
        .bytes = {.peer = l->neighbour, .leaves = true, .at = offer->bytes, .len = offer->len},
    };
    if (post(l, l->neighbour, TAG_HEAD, true, &o->head, sizeof o->head, &o->head_sent, err) < 0)
        return -1;
    return post(l, l->neighbour, TAG_REPLY, false, &o->reply, sizeof o->reply, &o->reply_came, err);
}

static int send_on(struct dt_link *l, struct dt_err *err)
{
    struct outgoing *o = &l->out;
    struct offer offer;
    int rc;
    if (!o->busy && (!take_offer(l, &offer) || begin_to_send(l, &offer, err) < 0))
        return offer.bytes ? -1 : 0;
    if ((rc = settle(l, &o->head_sent, err)) <= 0 || (rc = move(l, &o->bytes, err)) <= 0 ||
        (rc = settle(l, &o->reply_came, err)) <= 0)
        return rc;
    if (o->reply.magic != MAGIC || o->reply.rank != l->rank || o->reply.step != o->head.facts.step)
        return dt_err_set(err, DT_E_PROTOCOL, "it has taken another copy than it was sent");
    o->busy = false;
    note_kept(l);
    return 0;
}

static int await_head(struct dt_link *l, struct incoming *in, struct dt_err *err)
{
    in->busy = false;
    return post(l, in->ward.rank, TAG_HEAD, false, &in->head, sizeof in->head, &in->head_came, err);
}

/* A ward is a rank of this job, as it knows the secret; what it says is looked at all the same. */
static bool is_expected(const struct dt_link *l, const struct incoming *in)
{
    const struct dt_vault_facts *f = &in->head.facts;
    return in->head.magic == MAGIC && in->head.seal != 0 && f->whose.job == l->like.whose.job &&
           f->whose.mesh == l->like.whose.mesh && f->epoch == l->like.epoch &&
           f->world == l->like.world && f->shard == l->like.shard && f->rank == in->ward.rank &&
           f->step > in->step;
}

static int begin_to_receive(struct dt_link *l, struct incoming *in, struct dt_err *err)
{
    const struct dt_vault_facts *f = &in->head.facts;
    struct dt_vault_image *image = in->ward.image;
    struct dt_vault_extent extent;
    if (!is_expected(l, in) || dt_vault_extent(f, &extent) < 0)
        return dt_err_set(err, DT_E_PROTOCOL, "what came is no copy of its part");
    in->busy = true;
    in->step = f->step;
    in->slot = dt_vault_image_room(image, f);
    if (dt_vault_image_begin(image, in->slot, f, err) < 0)
        return -1;
    in->bytes = (struct stream){.peer = in->ward.rank,
                                .at = (char *)image->slot[in->slot].at + extent.sums_at,
                                .len = (size_t)(extent.all - extent.sums_at)};
    return 0;
}

static int receive_on(struct dt_link *l, struct incoming *in, struct dt_err *err)
{
    int rc;
    if (!in->busy) {
        if ((rc = settle(l, &in->head_came, err)) <= 0)
            return rc;
        if (begin_to_receive(l, in, err) < 0)
            return -1;
    }
    /* The ward speaks again when it has the last reply, so that one is done. */
    if ((rc = settle(l, &in->reply_sent, err)) <= 0 || (rc = move(l, &in->bytes, err)) <= 0)
        return rc;
    if (dt_vault_image_seal_copy(in->ward.image, in->slot, in->head.seal, err) < 0 ||
        await_head(l, in, err) < 0)
        return -1;
    in->reply = (struct reply){MAGIC, in->ward.rank, in->step};
    return post(l, in->ward.rank, TAG_REPLY, true, &in->reply, sizeof in->reply, &in->reply_sent,
                err);
}

static int look(struct dt_link *l, struct dt_err *err)
{
    const char *why;
    ops->progress(l->wire);
    if (send_on(l, err) < 0)
        return dt_err_wrap(err, "a copy for rank %d", l->neighbour);
    for (int i = 0; i < l->wards; i++)
        if (receive_on(l, &l->in[i], err) < 0)
            return dt_err_wrap(err, "a copy of rank %d", l->in[i].ward.rank);
    int peer = ops->broken(l->wire, 0, &why);
    if (peer >= 0)
        return dt_err_set(err, DT_E_DISCONNECTED, "the connection with rank %d broke (%s)", peer,
                          why);
    return 0;
}

/* The peers learn of it by their connections. A failure here is none of the job's group, whose
 * codes end a program. */
static void end_with(struct dt_link *l, const struct dt_err *why)
{
    pthread_mutex_lock(&l->lock);
    l->over = true;
    dt_err_set(&l->why, DT_E_RUNTIME, "%s", why->text);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    ops->close(l->wire);
    l->wire = NULL;
}

static void *carry(void *arg)
{
    struct dt_link *l = arg;
    struct dt_err why = {0};
    struct pollfd fds[2] = {{.fd = ops->wait_fd(l->wire), .events = POLLIN},
                            {.fd = l->wake, .events = POLLIN}};
    while (!atomic_load(&l->ends)) {
        uint64_t times;
        if (look(l, &why) < 0) {
            end_with(l, &why);
            return NULL;
        }
        poll(fds, 2, TICK_MS);
        if (fds[1].revents && read(l->wake, &times, sizeof times) < 0)
            continue;
    }
    return NULL;
}

/* Signals are the program's own threads'. */
static int start_thread(struct dt_link *l, struct dt_err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&l->thread, NULL, carry, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    l->runs = rc == 0;
    return rc == 0 ? 0 : dt_err_errno(err, DT_E_RUNTIME, rc, "no thread for copies on other hosts");
}

static int call(struct dt_link *l, const struct dt_link_card *cards, int rank, struct dt_err *err)
{
    if (ops->connect(l->wire, rank, cards[rank].bytes, DT_LINK_CARD, err) < 0)
        return dt_err_wrap(err, "copies with rank %d", rank);
    return 0;
}

int dt_link_start(struct dt_link *l, const struct dt_link_card *cards, int neighbour,
                  const struct dt_link_ward *wards, int count, const struct dt_vault_facts *like,
                  struct dt_err *err)
{
    bool called = false; /* the neighbour */
    l->neighbour = neighbour;
    l->like = *like;
    l->in = calloc((size_t)count + 1, sizeof *l->in);
    if (!l->in)
        return dt_err_set(err, DT_E_MEMORY, "no memory for copies of %d ranks", count);
    for (int i = 0; i < count; i++) {
        l->in[i].ward = wards[i];
        l->in[i].step = -1;
        called = called || wards[i].rank == neighbour;
        if (call(l, cards, wards[i].rank, err) < 0 || await_head(l, &l->in[i], err) < 0)
            return -1;
    }
    l->wards = count;
    if (!called && call(l, cards, neighbour, err) < 0)
        return -1;
    return start_thread(l, err);
}

/* -- the trainer ------------------------------------------------------------------------------ */

void dt_link_offer(struct dt_link *l, const struct dt_vault_image *own, int slot)
{
    const struct dt_vault_slot *s = &own->slot[slot];
    pthread_mutex_lock(&l->lock);
    assert(l->kept || l->over);
    l->offer = (struct offer){
        .head = {MAGIC, dt_vault_image_sealed(own, slot), dt_vault_slot_header(s)->facts},
        .bytes = (char *)s->at + s->extent.sums_at,
        .len = (size_t)(s->extent.all - s->extent.sums_at),
    };
    l->kept = false;
    pthread_mutex_unlock(&l->lock);
    wake(l);
}

static void wait_a_little(struct dt_link *l)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&l->changed, &l->lock, &until);
}

int dt_link_wait(struct dt_link *l, dt_ms timeout, bool (*give_up)(void *arg), void *arg,
                 struct dt_err *err)
{
    dt_ms until = dt_clock_after(dt_clock_monotonic(), timeout);
    int rc = 0;
    pthread_mutex_lock(&l->lock);
    while (!l->kept && !l->over && rc == 0) {
        wait_a_little(l);
        if (l->kept || l->over)
            break;
        if (give_up && give_up(arg))
            rc = dt_err_set(err, DT_E_RUNTIME, "this world is over");
        else if (dt_clock_monotonic() >= until)
            rc =
                dt_err_set(err, DT_E_RUNTIME, "a copy for rank %d: it has not taken it within %d s",
                           l->neighbour, dt_clock_seconds(timeout));
    }
    if (rc == 0 && l->over)
        rc = dt_err_set(err, l->why.code, "%s", l->why.text);
    pthread_mutex_unlock(&l->lock);
    return rc;
}
