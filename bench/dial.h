/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, and the blocking exchanges that prepare or check a measurement. Every blocking call
 * here gives up after the time stated at dial_open(), so a frozen server cannot hold the caller. */
#ifndef BENCH_DIAL_H
#define BENCH_DIAL_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/addr.h"
#include "bench/wire.h"

struct dial {
    struct dt_addr addr;
    const struct wire *wire;
    double patience; /* seconds */
    char name[80];   /* SERVER, for sentences */
};

/* Resolves SERVER, "HOST:PORT". */
int dial_init(struct dial *d, const char *server, const struct wire *wire, double patience,
              struct dt_err *err);

/* A blocking socket on which the hello has been exchanged, or -1 with *f. */
int dial_open(const struct dial *d, struct dt_err *err);
/* The same without a hello. */
int dial_connect(const struct dial *d, struct dt_err *err);
void dial_nonblocking(int fd);
/* Closes with a reset, so that thousands of connections leave no TIME_WAIT behind. */
void dial_close(int fd);

int dial_send(const struct dial *d, int fd, const void *bytes, size_t len, struct dt_err *err);
/* Reads N answers of one kind; *last is the last one. */
int dial_answers(const struct dial *d, int fd, enum answer_kind kind, size_t n, struct answer *last,
                 struct dt_err *err);
/* How many keys the server says it has. */
int dial_count(const struct dial *d, int fd, int64_t *keys, struct dt_err *err);

/* Raises the limit of open files; fails when N sockets do not fit. */
int dial_room_for(unsigned long n, struct dt_err *err);

#endif
