/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks of a host: letters in the mailbox that the sender has for the
 * receiver. Two letters can be under way, so one is filled while the other is read. A message from
 * dt_coll_alloc() memory is one letter that says where it lies. */
#include "worker_runtime/coll/host/shm.h"

#include <string.h>

enum { LETTERS, READ }; /* phases: letters go out; all is out and must be read */

#define SMALL (16 << 10) /* up to here a copy is cheaper than waiting for the reader */

static size_t bytes_of(const struct shm_op *op)
{
    return op->call.count * dt_dtype_size(op->call.type);
}

static void need(struct shm_op *op, enum shm_counter counter, uint32_t value)
{
    op->need = (struct shm_need){.counter = counter, .value = value, .peer = op->call.peer};
}

/* Fills the next letter. */
static void letter_fill(struct shm *s, struct shm_op *op)
{
    int to = op->call.peer;
    uint32_t n = ++s->sent[to];
    struct dt_shm_seat *own = dt_shm_seats_own(&s->seats);
    struct dt_letter *l = &dt_shm_seat_mailbox(own, to)->letters[n % 2];
    size_t total = bytes_of(op), len = total - op->at;
    struct dt_place place = {.memory = -1};
    if (total > SMALL)
        place = dt_memories_find(&s->memories, op->call.send, total);
    if (place.memory < 0) {
        len = len < DT_MAIL ? len : DT_MAIL;
        if (len > 0)
            memcpy(dt_shm_seat_mail(own, s->seats.size, to, n),
                   (const char *)op->call.send + op->at, len);
    }
    *l = (struct dt_letter){.total = total, .len = len, .type = op->call.type, .place = place};
    op->at += len;
    dt_shm_seats_publish(&s->seats, &dt_shm_seat_mailbox(own, to)->filled, n);
    if (op->at < total)
        return;
    /* What was copied is the receiver's now; what lies in our memory must have been read. */
    if (place.memory >= 0) {
        op->phase = READ;
        need(op, NEED_DRAINED, n);
    } else {
        op->done = true;
    }
}

static int send_advance(struct shm *s, struct shm_op *op)
{
    if (op->phase == READ) {
        op->done = shm_ready(s, &op->need);
        return op->done;
    }
    need(op, NEED_DRAINED, s->sent[op->call.peer] - 1);
    if (!shm_ready(s, &op->need))
        return 0;
    letter_fill(s, op);
    return 1;
}

bool shm_message_is_out(const struct shm_op *op)
{
    return op->call.kind == DT_SEND && op->phase == READ;
}

static int letter_read(struct shm *s, struct shm_op *op, const struct dt_letter *l,
                       const char *mail)
{
    size_t total = bytes_of(op);
    char *to = op->call.recv;
    if (l->total != total || l->type != op->call.type)
        return shm_fault(s, op->call.peer, "sends a message of another size or type");
    if (l->place.memory >= 0)
        mail = dt_memories_at(&s->memories, &l->place, op->call.peer, total);
    if (!mail || l->len > total - op->at)
        return shm_fault(s, op->call.peer, "sends from memory that this rank does not know");
    if (l->len > 0)
        memcpy(to + op->at, mail, l->len);
    op->at += l->len;
    op->done = op->at == total;
    return 1;
}

static int recv_advance(struct shm *s, struct shm_op *op)
{
    int from = op->call.peer;
    uint32_t n = s->taken[from] + 1;
    need(op, NEED_FILLED, n);
    if (!shm_ready(s, &op->need))
        return 0;
    struct dt_shm_seat *theirs = s->seats.seat[from];
    const struct dt_letter l = dt_shm_seat_mailbox(theirs, s->seats.rank)->letters[n % 2];
    if (letter_read(s, op, &l, dt_shm_seat_mail(theirs, s->seats.size, s->seats.rank, n)) < 0)
        return -1;
    s->taken[from] = n;
    struct dt_mailbox *own = dt_shm_seat_mailbox(dt_shm_seats_own(&s->seats), from);
    dt_shm_seats_publish(&s->seats, &own->drained, n);
    return 1;
}

int shm_message_advance(struct shm *s, struct shm_op *op)
{
    return op->call.kind == DT_SEND ? send_advance(s, op) : recv_advance(s, op);
}
