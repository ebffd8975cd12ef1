/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces that go up to an S3 server, several at once, each by a request of its own. A thread reads
 * and hashes the next ones meanwhile (ahead.h). At most DT_TRANSFER_AT_ONCE pieces are in memory,
 * whether they are read, hashed, sent or wait for another attempt. */
#ifndef DT_BASE_TRANSFER_FLIGHT_H
#define DT_BASE_TRANSFER_FLIGHT_H

#include "base/transfer/ahead.h"
#include "base/transfer/s3.h"

/* A piece on its way. The texts are for the call to point to. */
struct dt_aboard {
    const struct dt_piece *piece; /* NULL: this place is free */
    struct dt_s3_call call;
    struct dt_flight *flight;
    uint64_t sent;
    char what[64], key[DT_KEY_MAX + 1], number[24], crc[DT_S3_CRC_TEXT];
};

/* What goes up. All but READ are called by the thread of dt_flight_run(). */
struct dt_flight_job {
    size_t count; /* of pieces */
    size_t most;  /* bytes of the largest */
    bool wants_md5;
    int (*read)(void *arg, size_t number, uint8_t *into, size_t *len, struct dt_err *err);
    /* Fills B->call. 1: it is to be sent; 0: the piece is there already, and lands at once. */
    int (*board)(void *arg, struct dt_aboard *b);
    /* RC: what dt_s3_wait() says of the call, with *err if that is -1. It may make a failure of it,
     * or words of its own. 1: the piece is there; 0: that ends the flight as -1 does. */
    int (*land)(void *arg, struct dt_aboard *b, int rc, struct dt_err *err);
    void (*moved)(void *arg, uint64_t sent); /* bytes of all that have not landed; NULL */
    void *arg;
};

/* 1: all pieces have landed; else what was said of the first that did not: the others are called
 * off. */
int dt_flight_run(struct dt_transfer *t, const struct dt_flight_job *job, struct dt_err *err);

#endif
