/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, and the blocking exchanges that prepare or check a measurement. Every blocking call
 * here gives up after the time stated at dial_open(), so a frozen server cannot hold the caller. */
#ifndef BENCH_DIAL_H
#define BENCH_DIAL_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "bench/fail.h"
#include "bench/wire.h"

struct dial {
    struct sockaddr_storage addr;
    socklen_t addr_len;
    const struct wire *wire;
    double patience; /* seconds */
    char name[80];   /* HOST:PORT, for sentences */
};

/* Resolves HOST and PORT. */
int dial_init(struct dial *d, const char *host, const char *port, const struct wire *wire,
              double patience, struct fail *f);

/* A blocking socket on which the hello has been exchanged, or -1 with *f. */
int dial_open(const struct dial *d, struct fail *f);
/* The same without a hello. */
int dial_connect(const struct dial *d, struct fail *f);
void dial_nonblocking(int fd);
/* Closes with a reset, so that thousands of connections leave no TIME_WAIT behind. */
void dial_close(int fd);

int dial_send(const struct dial *d, int fd, const void *bytes, size_t len, struct fail *f);
/* Reads N answers of one kind; *last is the last one. */
int dial_answers(const struct dial *d, int fd, enum answer_kind kind, size_t n, struct answer *last,
                 struct fail *f);
/* How many keys the server says it has. */
int dial_count(const struct dial *d, int fd, int64_t *keys, struct fail *f);

/* Raises the limit of open files; fails when N sockets do not fit. */
int dial_room_for(unsigned long n, struct fail *f);

#endif
