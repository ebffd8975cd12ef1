/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of an upload, in their order: a thread reads and hashes them while those before are
 * sent, as hashing takes about as long as a fast network. A few have room at a time. */
#ifndef DT_BASE_TRANSFER_AHEAD_H
#define DT_BASE_TRANSFER_AHEAD_H

#include "base/transfer/http.h"
#include "base/transfer/transfer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_piece {
    size_t number; /* from 0 */
    uint8_t *at;
    size_t len;
    uint32_t crc;
    char sha256[2 * DT_SHA256_SIZE + 1]; /* as hex digits */
    char md5[2 * DT_MD5_SIZE + 1];       /* "" where nobody wants it */
};

/* What there is to read. READ and READY are called by the thread. */
struct dt_ahead_job {
    const struct dt_curl_table *lib;
    size_t count; /* of pieces */
    size_t most;  /* bytes of the largest */
    bool wants_md5;
    /* Piece NUMBER, of *LEN bytes, into INTO. */
    int (*read)(void *arg, size_t number, uint8_t *into, size_t *len, struct dt_err *err);
    void (*ready)(void *arg); /* dt_ahead_take() has something to tell */
    void *arg;
};

enum dt_ahead_use { DT_ROOM_FREE, DT_ROOM_READING, DT_ROOM_READY, DT_ROOM_OUT };

struct dt_ahead {
    struct dt_ahead_job job;
    struct dt_ahead_room {
        enum dt_ahead_use use;
        struct dt_piece piece;
    } rooms[DT_TRANSFER_AT_ONCE];
    size_t rooms_count;
    pthread_t thread;
    bool is_running;      /* the thread is, and is to be joined; else pieces are read when taken */
    pthread_mutex_t lock; /* of all below, and of the use of rooms */
    pthread_cond_t changed;
    size_t begun, taken; /* pieces; those taken before may be out */
    bool stop;
    int rc;
    struct dt_err err; /* why a piece cannot be read */
};

/* Memory for as many of the pieces as may be out at a time, and the thread. Finish A in either
 * case. */
int dt_ahead_init(struct dt_ahead *a, const struct dt_ahead_job *job, struct dt_err *err);
void dt_ahead_finish(struct dt_ahead *a);

/* The next piece. 1: *PIECE, until it is given back; 0: it is not ready, or there is none; -1. */
int dt_ahead_take(struct dt_ahead *a, const struct dt_piece **piece, struct dt_err *err);
void dt_ahead_give_back(struct dt_ahead *a, const struct dt_piece *piece);

#endif
