/* SPDX-License-Identifier: Apache-2.0 */
/* A store server on a thread of its own, for tests whose clients block. What belongs to the loop's
 * thread is done there by serving_do(). */
#ifndef DT_TESTS_RENDEZVOUS_SERVING_H
#define DT_TESTS_RENDEZVOUS_SERVING_H

#include "rendezvous/store/server.h"
#include "tests/lib/check.h"

#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

struct serving {
    uv_loop_t loop;
    uv_async_t asked;
    struct dt_store_server *server;
    uint16_t port;
    pthread_t thread;
    pthread_mutex_t lock; /* of what is asked */
    void (*call)(struct serving *s, void *arg);
    void *arg;
    bool async; /* the call answers by serving_done() */
    sem_t done;
};

static inline void serving_done(struct serving *s)
{
    sem_post(&s->done);
}

static inline void on_serving_asked(uv_async_t *h)
{
    struct serving *s = dt_container_of(h, struct serving, asked);
    pthread_mutex_lock(&s->lock);
    void (*call)(struct serving *, void *) = s->call;
    void *arg = s->arg;
    bool async = s->async;
    pthread_mutex_unlock(&s->lock);
    call(s, arg);
    if (!async)
        serving_done(s);
}

static inline void *serving_run(void *arg)
{
    struct serving *s = arg;
    uv_run(&s->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* Listens on a free port; serving_start() is the second half, so that what is to be there before
 * anybody connects can be. */
static inline void serving_open(struct serving *s, const struct dt_store_server_config *config)
{
    struct dt_addr at;
    struct dt_err err;
    *s = (struct serving){0};
    uv_loop_init(&s->loop);
    uv_async_init(&s->loop, &s->asked, on_serving_asked);
    CHECK_EQ(pthread_mutex_init(&s->lock, NULL), 0);
    CHECK_EQ(sem_init(&s->done, 0, 0), 0);
    s->server = dt_store_server_create(&s->loop, config, &err);
    CHECK(s->server != NULL);
    CHECK_OK(dt_addr_parse("127.0.0.1:0", 0, &at, &err), err);
    CHECK_OK(dt_store_server_listen(s->server, &at, &at, &err), err);
    s->port = ntohs(((struct sockaddr_in *)&at.sa)->sin_port);
}

/* As in a daemon, a peer that is gone ends no more than its connection: libuv writes without
 * MSG_NOSIGNAL. */
static inline void serving_start(struct serving *s)
{
    signal(SIGPIPE, SIG_IGN);
    CHECK_EQ(pthread_create(&s->thread, NULL, serving_run, s), 0);
}

static inline void serving_ask(struct serving *s, void (*call)(struct serving *s, void *arg),
                               void *arg, bool async)
{
    pthread_mutex_lock(&s->lock);
    s->call = call;
    s->arg = arg;
    s->async = async;
    pthread_mutex_unlock(&s->lock);
    uv_async_send(&s->asked);
    sem_wait(&s->done);
}

/* Returns when CALL, on the loop's thread, has returned. */
static inline void serving_do(struct serving *s, void (*call)(struct serving *s, void *arg),
                              void *arg)
{
    serving_ask(s, call, arg, false);
}

/* Returns when serving_done() was called, by CALL or from what it began. */
static inline void serving_do_and_wait(struct serving *s,
                                       void (*call)(struct serving *s, void *arg), void *arg)
{
    serving_ask(s, call, arg, true);
}

static inline void serving_close_here(struct serving *s, void *arg)
{
    (void)arg;
    dt_store_server_close(s->server, 0, NULL, NULL);
    uv_close((uv_handle_t *)&s->asked, NULL);
}

static inline void serving_stop(struct serving *s)
{
    serving_do(s, serving_close_here, NULL);
    pthread_join(s->thread, NULL);
    CHECK_EQ(uv_loop_close(&s->loop), 0);
    sem_destroy(&s->done);
    pthread_mutex_destroy(&s->lock);
}

#endif
