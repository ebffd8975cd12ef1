/* SPDX-License-Identifier: Apache-2.0 */
/* A rendezvous that does what a test says: a real store server, and behind its port connections
 * that are greeted, heard and answered by hand. One agent's connection at a time. */
#ifndef DT_TESTS_AGENT_FAKE_RENDEZVOUS_H
#define DT_TESTS_AGENT_FAKE_RENDEZVOUS_H

#include "rendezvous/protocol/proof.h"
#include "rendezvous/store/control.h"
#include "rendezvous/store/server.h"
#include "tests/agent/notes.h"
#include "tests/lib/port.h"

#include <netinet/in.h>

struct fake_rendezvous {
    uv_loop_t *loop;
    struct dt_store_server *store; /* NULL: it is away */
    uint16_t port;                 /* 0: some, the first time */
    struct dt_control_peer *peer;  /* the agent's connection, greeted or not */
    int connections;               /* so far */
    bool greeted;
    /* How it behaves. */
    bool foreign;        /* knows nothing of us */
    bool silent;         /* beats are not echoed */
    const char *host;    /* NULL: "daemon" */
    int version;         /* 0: ours */
    const char *refusal; /* what it answers to hello */
    const char *token;   /* that it asks for and knows; NULL: none */
    struct dt_proof_nonces nonces;
    /* What it heard: "JOIN -1; RESULT 0 failed", without beats. */
    char heard[2000];
    struct dt_join join; /* the last, but for its strings ... */
    char addr[100];      /* ... of which this is kept */
    int64_t step;        /* of the last beat */
    int beats;
    uint64_t incarnation;
    char run[DT_RUN_ID_MAX];
};

static inline void fake_send(struct fake_rendezvous *f, struct dt_message m)
{
    m.run = f->run;
    m.incarnation = f->incarnation;
    m.why = m.why ? m.why : "";
    CHECK(f->peer != NULL);
    dt_message_encode(f->peer->out, &m);
    dt_control_peer_send(f->peer);
}

#define FAKE_SAY(f, ...) fake_send((f), (struct dt_message){__VA_ARGS__})

__attribute__((format(printf, 2, 3))) static inline void fake_note(struct fake_rendezvous *f,
                                                                   const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    notes_add(f->heard, sizeof f->heard, fmt, ap);
    va_end(ap);
}

/* -- greeting --------------------------------------------------------------------------------- */

static inline void fake_hear_hello(struct fake_rendezvous *f, const struct dt_message *m)
{
    struct dt_message hello = {.type = DT_MSG_HELLO,
                               .hello = {.version = f->version ? f->version : DT_CONTROL_VERSION,
                                         .program = "fake",
                                         .host = f->host ? f->host : "daemon",
                                         .remarks = true,
                                         .token = f->token != NULL}};
    memcpy(f->nonces.client, m->hello.nonce, DT_NONCE_SIZE);
    memset(f->nonces.server, 7, DT_NONCE_SIZE);
    memcpy(hello.hello.nonce, f->nonces.server, DT_NONCE_SIZE);
    f->greeted = !f->token && !f->refusal;
    if (f->refusal)
        FAKE_SAY(f, .type = DT_MSG_REFUSED, .why = f->refusal);
    else
        fake_send(f, hello);
}

/* Answers as one who knows the token, and does not look at what it was shown. */
static inline void fake_hear_proof(struct fake_rendezvous *f)
{
    struct dt_message proof = {.type = DT_MSG_PROOF};
    dt_proof_make(dt_proof_open(NULL), f->token, strlen(f->token), DT_PROOF_SERVER, &f->nonces,
                  proof.proof);
    f->greeted = true;
    fake_send(f, proof);
}

/* -- frames ----------------------------------------------------------------------------------- */

static inline void fake_hear_join(struct fake_rendezvous *f, const struct dt_message *m)
{
    f->incarnation = m->incarnation;
    f->join = m->join;
    snprintf(f->run, sizeof f->run, "%s", m->run);
    snprintf(f->addr, sizeof f->addr, "%s", m->join.node.addr);
    fake_note(f, "JOIN %d%s%s", m->round, m->join.claim.running ? " running" : "",
              m->join.claim.done ? " done" : "");
}

static inline void fake_hear_beat(struct fake_rendezvous *f, const struct dt_message *m)
{
    f->beats++;
    f->step = m->beat.step;
    if (!f->silent)
        fake_send(f, (struct dt_message){.type = DT_MSG_BEAT, .round = m->round, .beat = m->beat});
}

static inline void fake_hear(struct fake_rendezvous *f, const struct dt_message *m)
{
    if (m->type == DT_MSG_HELLO)
        fake_hear_hello(f, m);
    else if (m->type == DT_MSG_PROOF)
        fake_hear_proof(f);
    else if (m->type == DT_MSG_JOIN)
        fake_hear_join(f, m);
    else if (m->type == DT_MSG_BEAT)
        fake_hear_beat(f, m);
    else if (m->type == DT_MSG_RESULT)
        fake_note(f, "RESULT %d %s", m->round, m->result.succeeded ? "well" : m->result.text);
    else if (m->type == DT_MSG_LEAVE)
        fake_note(f, "LEAVE%s %s", m->leave.stopping ? " stopping" : "", m->why);
    else
        fake_note(f, "%s", dt_message_name(m->type));
}

/* -- connections ------------------------------------------------------------------------------ */

struct fake_conn {
    struct fake_rendezvous *f;
    struct dt_control_peer *peer;
    bool began; /* its preamble has come */
};

static inline void *on_fake_opened(void *arg, struct dt_control_peer *peer)
{
    struct fake_conn *c = calloc(1, sizeof *c);
    CHECK(c != NULL);
    *c = (struct fake_conn){.f = arg, .peer = peer};
    c->f->peer = peer;
    c->f->greeted = false;
    c->f->connections++;
    return c;
}

static inline enum dt_decoded on_fake_bytes(void *conn, const uint8_t *bytes, size_t len,
                                            size_t *used, struct dt_err *err)
{
    struct fake_conn *c = conn;
    struct dt_message m;
    int version;
    enum dt_decoded got;
    if (!c->began) {
        *used = DT_CONTROL_PREAMBLE;
        got = dt_control_read_preamble(bytes, len, &version);
        c->began = got == DT_DONE;
        return got;
    }
    if ((got = dt_message_decode(bytes, len, DT_FRAME_MAX, &m, used, err)) == DT_DONE) {
        fake_hear(c->f, &m);
        dt_message_finish(&m);
    }
    return got;
}

static inline void on_fake_closed(void *conn)
{
    struct fake_conn *c = conn;
    if (c->f->peer == c->peer)
        c->f->peer = NULL;
    free(c);
}

/* Serves, on the port it had before if it had one. */
static inline void fake_open(struct fake_rendezvous *f, uv_loop_t *loop)
{
    static const struct dt_control_ops ops = {on_fake_opened, on_fake_bytes, on_fake_closed};
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct dt_addr at;
    struct dt_err err;
    f->loop = loop;
    f->port = f->port ? f->port : (uint16_t)port_take();
    f->store = dt_store_server_create(loop, &config, &err);
    CHECK(f->store != NULL);
    CHECK_OK(dt_addr_parse("127.0.0.1", f->port, &at, &err), err);
    CHECK_OK(dt_store_server_listen(f->store, &at, NULL, &err), err);
    if (!f->foreign)
        dt_store_server_control(f->store, &ops, f);
}

/* Is away, with all its connections, until it is opened again. */
static inline void fake_close(struct fake_rendezvous *f)
{
    if (f->store)
        dt_store_server_close(f->store, 0, NULL, NULL);
    f->store = NULL;
}

static inline void fake_hang_up(struct fake_rendezvous *f)
{
    CHECK(f->peer != NULL);
    dt_control_peer_close(f->peer);
}

/* What it heard since the last time. */
static inline const char *fake_heard(struct fake_rendezvous *f)
{
    static char text[sizeof f->heard];
    memcpy(text, f->heard, sizeof text);
    f->heard[0] = '\0';
    return text;
}

#endif
