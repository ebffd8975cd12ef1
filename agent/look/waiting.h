/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for: its system call's descriptor, and what that leads to; or the other
 * threads behind a futex. Names of files, addresses of peers; never what is in them. */
#ifndef DT_AGENT_LOOK_WAITING_H
#define DT_AGENT_LOOK_WAITING_H

#include "agent/look/memory.h"
#include "base/addr.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DT_WAITING_FOR_MAX 224

enum dt_waiting_kind {
    DT_WAITING_UNKNOWN, /* not told, or for something else */
    DT_WAITING_TIME,    /* for time to pass, nothing else */
    DT_WAITING_FILE,
    DT_WAITING_PIPE, /* or a terminal */
    DT_WAITING_SOCKET,
    DT_WAITING_LOCK, /* a semaphore, which is what locks of Python are up to 3.12 and wait in */
    DT_WAITING_CONDITION, /* another thread of its process, in C code */
    DT_WAITING_MEMORY,    /* another process, in memory that both have */
};

/* A thread's system call, as /proc/PID/task/TID/syscall tells it. */
struct dt_waiting_call {
    long number; /* below 0: it computes, or we may not know */
    uint64_t arguments[4];
};

struct dt_waiting {
    enum dt_waiting_kind kind;
    int descriptor;                /* -1: none */
    int others;                    /* descriptors for which it waits at the same time */
    unsigned long inode;           /* of a socket */
    bool briefly;                  /* for a futex, until soon: it will wait again and again */
    char here[DT_ADDR_TEXT];       /* our end of a TCP connection; "" unknown */
    char what[DT_WAITING_FOR_MAX]; /* "/data/a.bin", "pipe:[812]", "10.0.0.2:29500"; "" unknown. Of
                                      a longer path, the end */
};

/* Reads what a thread of process PID waits for in CALL; M is the memory of PID. A socket is
 * "socket:[INODE]" until dt_waiting_name_sockets(). */
void dt_waiting_read(struct dt_waiting *w, const struct dt_waiting_call *call, pid_t pid,
                     struct dt_memory *m);

/* Puts the peers of the COUNT sockets AT, all in the network of process PID, where the kernel's
 * tables tell them. */
#define DT_WAITING_SOCKETS_MAX 1024
void dt_waiting_name_sockets(struct dt_waiting *const *at, size_t count, pid_t pid);

#endif
