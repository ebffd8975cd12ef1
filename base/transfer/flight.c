/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/flight.h"

#include "base/list.h"

#include <stdlib.h>

struct dt_flight {
    struct dt_transfer *t;
    const struct dt_flight_job *job;
    struct dt_ahead ahead;
    struct dt_aboard aboard[DT_TRANSFER_AT_ONCE];
    size_t landed;
};

static int read_piece(void *arg, size_t number, uint8_t *into, size_t *len, struct dt_err *err)
{
    const struct dt_flight *f = arg;
    return f->job->read(f->job->arg, number, into, len, err);
}

static void on_ready(void *arg)
{
    const struct dt_flight *f = arg;
    dt_s3_wake(f->t);
}

static void tell_moved(const struct dt_flight *f)
{
    uint64_t sent = 0;
    for (size_t i = 0; i < DT_TRANSFER_AT_ONCE; i++)
        sent += f->aboard[i].sent;
    if (f->job->moved)
        f->job->moved(f->job->arg, sent);
}

static void on_sent(void *arg, uint64_t sent)
{
    struct dt_aboard *b = arg;
    b->sent = sent;
    tell_moved(b->flight);
}

static struct dt_aboard *find_place(struct dt_flight *f)
{
    for (size_t i = 0; i < DT_TRANSFER_AT_ONCE; i++)
        if (!f->aboard[i].piece)
            return &f->aboard[i];
    return NULL;
}

static int land(struct dt_flight *f, struct dt_aboard *b, int rc, struct dt_err *err)
{
    b->sent = 0;
    rc = f->job->land(f->job->arg, b, rc, err);
    dt_ahead_give_back(&f->ahead, b->piece);
    b->piece = NULL;
    if (rc == 1) {
        f->landed++;
        tell_moved(f);
    }
    return rc;
}

static int board(struct dt_flight *f, struct dt_aboard *b, const struct dt_piece *piece,
                 struct dt_err *err)
{
    *b = (struct dt_aboard){.piece = piece, .flight = f};
    if (f->job->board(f->job->arg, b) == 0)
        return land(f, b, 1, err);
    b->call.body = (struct dt_bytes){piece->at, piece->len};
    b->call.payload = piece->sha256;
    b->call.on_sent = on_sent;
    b->call.arg = b;
    return dt_s3_begin(f->t, &b->call, err) < 0 ? -1 : 1;
}

/* All that are ready, as there is a place for each that may be out. */
static int board_ready(struct dt_flight *f, struct dt_err *err)
{
    const struct dt_piece *piece;
    int rc = 1;
    while (rc == 1) {
        int ready = dt_ahead_take(&f->ahead, &piece, err);
        if (ready <= 0)
            return ready < 0 ? -1 : 1;
        rc = board(f, find_place(f), piece, err);
    }
    return rc;
}

static int fly(struct dt_flight *f, struct dt_err *err)
{
    int rc = 1;
    while (rc == 1 && f->landed < f->job->count) {
        struct dt_s3_call *over = NULL;
        if (dt_transfer_is_stopped(f->t))
            return dt_err_set(err, DT_E_CANCELED, "it was stopped");
        rc = board_ready(f, err);
        if (rc != 1 || f->landed == f->job->count)
            break;
        int ended = dt_s3_wait(f->t, &over, err);
        if (over)
            rc = land(f, dt_container_of(over, struct dt_aboard, call), ended, err);
    }
    return rc;
}

int dt_flight_run(struct dt_transfer *t, const struct dt_flight_job *job, struct dt_err *err)
{
    struct dt_flight *f = calloc(1, sizeof *f);
    if (!f)
        return dt_err_set(err, DT_E_MEMORY, "no memory for an upload");
    f->t = t;
    f->job = job;
    struct dt_ahead_job ahead = {.lib = t->s3->lib,
                                 .count = job->count,
                                 .most = job->most,
                                 .wants_md5 = job->wants_md5,
                                 .read = read_piece,
                                 .ready = on_ready,
                                 .arg = f};
    int rc = dt_ahead_init(&f->ahead, &ahead, err) < 0 ? -1 : fly(f, err);
    dt_s3_call_off(t);
    dt_ahead_finish(&f->ahead);
    free(f);
    return rc;
}
