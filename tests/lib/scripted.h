/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for a rendezvous, on a thread: it greets as it is told to, answers each request with
 * the next line of a script, and keeps what it was asked. One connection, then it is done. */
#ifndef DT_TESTS_SCRIPTED_H
#define DT_TESTS_SCRIPTED_H

#include "base/addr.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/protocol/proof.h"
#include "tests/lib/check.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct scripted {
    /* How it greets. */
    const char *raw; /* sent in place of its hello, or NULL; "": it hangs up */
    size_t raw_len;
    int version;         /* 0: ours */
    bool is_older;       /* it cannot be asked for looks */
    const char *token;   /* asked for; NULL: none */
    bool knows_no_token; /* its own proof is none */
    bool is_guessed_at;  /* it closes the connection rather than look at a proof */
    const char *refusal; /* in place of whatever would follow its hello */
    /* The JSON it answers with, one by one, NULL-ended; behind the last it hangs up. */
    const char *const *answers;

    struct dt_buf asked; /* the JSON of hello and requests, a line each; after scripted_stop() */
    int listener, peer;
    pthread_t thread;
    char addr[DT_ADDR_TEXT];
};

static inline void scripted_send(struct scripted *s, const char *json)
{
    struct dt_buf out = {0};
    dt_buf_put_u32(&out, (uint32_t)strlen(json));
    dt_buf_put_str(&out, json);
    send(s->peer, out.at, out.len, MSG_NOSIGNAL);
    dt_buf_finish(&out);
}

static inline void scripted_send_message(struct scripted *s, const struct dt_message *m)
{
    struct dt_buf out = {0};
    dt_message_encode(&out, m);
    send(s->peer, out.at, out.len, MSG_NOSIGNAL);
    dt_buf_finish(&out);
}

static inline bool scripted_read(struct scripted *s, void *into, size_t len)
{
    return len == 0 || recv(s->peer, into, len, MSG_WAITALL) == (ssize_t)len;
}

/* Reads a frame, and keeps its text. */
static inline bool scripted_take(struct scripted *s, struct dt_message *m)
{
    uint8_t frame[4096];
    size_t used;
    if (!scripted_read(s, frame, 4))
        return false;
    struct dt_reader r = dt_reader_over(frame, 4);
    uint32_t size = dt_read_u32(&r);
    if (size > sizeof frame - 4 || !scripted_read(s, frame + 4, size))
        return false;
    dt_buf_put(&s->asked, frame + 4, size);
    dt_buf_put_u8(&s->asked, '\n');
    return dt_message_decode(frame, size + 4, sizeof frame, m, &used, NULL) == DT_DONE;
}

static inline bool scripted_prove(struct scripted *s, const struct dt_proof_nonces *nonces)
{
    const struct dt_proof_table *lib = dt_proof_open(NULL);
    struct dt_message m, ours = {.type = DT_MSG_PROOF};
    if (!lib || !scripted_take(s, &m))
        return false;
    if (s->is_guessed_at) {
        dt_message_finish(&m);
        return false;
    }
    bool good = m.type == DT_MSG_PROOF &&
                dt_proof_holds(lib, s->token, strlen(s->token), DT_PROOF_CLIENT, nonces, m.proof);
    dt_message_finish(&m);
    if (!good) {
        scripted_send(s, "{\"type\":\"refused\",\"why\":\"that is another token\"}");
        return false;
    }
    if (!s->knows_no_token)
        dt_proof_make(lib, s->token, strlen(s->token), DT_PROOF_SERVER, nonces, ours.proof);
    scripted_send_message(s, &ours);
    return true;
}

static inline bool scripted_greet(struct scripted *s)
{
    uint8_t preamble[DT_CONTROL_PREAMBLE];
    struct dt_proof_nonces nonces = {.server = "our own nonce"};
    struct dt_message m, ours = {
                             .type = DT_MSG_HELLO,
                             .hello = {.version = s->version ? s->version : DT_CONTROL_VERSION,
                                       .program = "a test",
                                       .host = "daemon",
                                       .token = s->token != NULL,
                                       .looks = !s->is_older},
                         };
    if (!scripted_read(s, preamble, sizeof preamble) ||
        memcmp(preamble, "DTRN\1\0", sizeof preamble) != 0 || !scripted_take(s, &m))
        return false;
    memcpy(nonces.client, m.hello.nonce, DT_NONCE_SIZE);
    dt_message_finish(&m);
    if (s->raw) {
        send(s->peer, s->raw, s->raw_len, MSG_NOSIGNAL);
        return false;
    }
    memcpy(ours.hello.nonce, nonces.server, DT_NONCE_SIZE);
    scripted_send_message(s, &ours);
    if (s->refusal) {
        scripted_send_message(s, &(struct dt_message){.type = DT_MSG_REFUSED, .why = s->refusal});
        return false;
    }
    return !s->token || scripted_prove(s, &nonces);
}

static inline void *scripted_run(void *arg)
{
    struct scripted *s = arg;
    struct dt_message m;
    s->peer = accept(s->listener, NULL, NULL);
    bool greeted = scripted_greet(s);
    for (const char *const *a = s->answers; greeted && a && *a && scripted_take(s, &m); a++) {
        dt_message_finish(&m);
        scripted_send(s, *a);
    }
    shutdown(s->peer, SHUT_RDWR);
    return NULL;
}

static inline void scripted_start(struct scripted *s)
{
    struct dt_addr a;
    struct dt_err err = {0};
    CHECK_OK(dt_addr_parse("127.0.0.1:0", 0, &a, &err), err);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(s->listener, (struct sockaddr *)&a.sa, a.len), 0);
    CHECK_EQ(listen(s->listener, 4), 0);
    CHECK_EQ(getsockname(s->listener, (struct sockaddr *)&a.sa, &a.len), 0);
    dt_addr_text(&a, s->addr, sizeof s->addr);
    CHECK_EQ(pthread_create(&s->thread, NULL, scripted_run, s), 0);
}

/* Somebody must have connected. Then dt_buf_finish(&s->asked). */
static inline void scripted_stop(struct scripted *s)
{
    pthread_join(s->thread, NULL);
    close(s->peer);
    close(s->listener);
}

#endif
