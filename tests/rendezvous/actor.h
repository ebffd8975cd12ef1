/* SPDX-License-Identifier: Apache-2.0 */
/* A server on a thread that follows a script, line by line, to behave badly at the moment a test
 * chooses: static const struct line script[] = {GREET, READ(18), SEND("\0"), HANG_UP, END}; */
#ifndef DT_TESTS_RENDEZVOUS_ACTOR_H
#define DT_TESTS_RENDEZVOUS_ACTOR_H

#include "base/addr.h"
#include "tests/lib/check.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACTOR_PEERS 8

enum verb { DO_END, DO_ACCEPT, DO_GREET, DO_USE, DO_READ, DO_SEND, DO_HANG_UP, DO_READ_ALL };

struct line {
    enum verb verb;
    const char *bytes; /* of SEND */
    size_t len;        /* of SEND, READ and USE */
};

/* clang-format off */
#define END          {.verb = DO_END}
#define ACCEPT       {.verb = DO_ACCEPT}
#define GREET        {.verb = DO_GREET} /* accepts, and answers the greeting */
#define READ(n)      {.verb = DO_READ, .len = (n)}
#define SEND(s)      {.verb = DO_SEND, .bytes = (s), .len = sizeof(s) - 1}
#define USE(n)       {.verb = DO_USE, .len = (n)} /* the Nth of those accepted, from 0 */
#define HANG_UP      {.verb = DO_HANG_UP}
#define UNTIL_CLOSED {.verb = DO_READ_ALL}
/* clang-format on */

struct actor {
    const struct line *script;
    int listener, peer; /* peer: of `peers`, who is talked to */
    int peers[ACTOR_PEERS];
    int accepted;
    pthread_t thread;
    char addr[DT_ADDR_TEXT];
};

static inline void read_bytes(int fd, size_t len, uint8_t *out)
{
    for (size_t have = 0; have < len;) {
        ssize_t n = TEMP_FAILURE_RETRY(recv(fd, out + have, len - have, 0));
        if (n <= 0)
            return;
        have += (size_t)n;
    }
}

static inline void accept_peer(struct actor *a)
{
    a->peer = accept(a->listener, NULL, NULL);
    if (a->accepted < ACTOR_PEERS)
        a->peers[a->accepted++] = a->peer;
}

static inline void *act(void *arg)
{
    struct actor *a = arg;
    uint8_t bytes[256];
    for (const struct line *l = a->script; l->verb != DO_END; l++) {
        switch (l->verb) {
        case DO_ACCEPT:
            accept_peer(a);
            break;
        case DO_USE:
            a->peer = a->peers[l->len];
            break;
        case DO_GREET:
            accept_peer(a);
            read_bytes(a->peer, 10, bytes);
            send(a->peer, bytes + 6, 4, MSG_NOSIGNAL);
            break;
        case DO_READ:
            read_bytes(a->peer, l->len, bytes);
            break;
        case DO_SEND:
            send(a->peer, l->bytes, l->len, MSG_NOSIGNAL);
            break;
        case DO_HANG_UP:
            shutdown(a->peer, SHUT_RDWR); /* closed by actor_stop() */
            break;
        case DO_READ_ALL:
            while (TEMP_FAILURE_RETRY(recv(a->peer, bytes, sizeof bytes, 0)) > 0)
                ;
            break;
        case DO_END:
            break;
        }
    }
    return NULL;
}

static inline int bind_somewhere(char *addr, size_t size)
{
    struct dt_addr a;
    struct dt_err err;
    CHECK_OK(dt_addr_parse("127.0.0.1:0", 0, &a, &err), err);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&a.sa, a.len), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&a.sa, &a.len), 0);
    dt_addr_text(&a, addr, size);
    return fd;
}

static inline void actor_start(struct actor *a, const struct line *script)
{
    *a = (struct actor){.script = script, .peer = -1};
    a->listener = bind_somewhere(a->addr, sizeof a->addr);
    CHECK_EQ(listen(a->listener, 16), 0);
    CHECK_EQ(pthread_create(&a->thread, NULL, act, a), 0);
}

static inline void actor_stop(struct actor *a)
{
    pthread_join(a->thread, NULL);
    for (int i = 0; i < a->accepted; i++)
        close(a->peers[i]);
    close(a->listener);
}

#endif
