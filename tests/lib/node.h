/* SPDX-License-Identifier: Apache-2.0 */
/* A node of an elastic job as a test plays it: a blocking connection that speaks the control
 * protocol frame by frame. Every receive has a ceiling of 30 s that only a hang reaches. */
#ifndef DT_TESTS_NODE_H
#define DT_TESTS_NODE_H

#include "rendezvous/protocol/messages.h"
#include "rendezvous/protocol/warrant.h"
#include "tests/lib/check.h"
#include "tests/lib/peer.h"

#include <errno.h>
#include <sys/socket.h>

struct node {
    const char *run, *name;
    uint64_t incarnation;
    struct dt_run_spec spec;
    const char *token;     /* NULL: none is shown */
    const char *run_token; /* likewise */

    int fd;
    struct dt_proof_nonces nonces; /* of its connection */
    struct dt_buf in;
    struct dt_message heard; /* the last frame, until the next is asked for */
    int round;               /* of its last world; -1 */
    struct dt_claim claim;   /* and its place there */
};

/* One of NODES. */
static inline struct node node_of(const char *run, const char *name, uint64_t incarnation,
                                  int nodes)
{
    return (struct node){
        .run = run,
        .name = name,
        .incarnation = incarnation,
        .spec = {.min_nodes = nodes,
                 .max_nodes = nodes,
                 .max_restarts = 3,
                 .max_node_losses = -1,
                 .join_timeout = 600 * DT_SECOND,
                 .last_call = 30 * DT_SECOND,
                 .beat = 60 * DT_SECOND,
                 .beats = 3,
                 .reconnect_grace = 50,
                 .stop_bound = 600 * DT_SECOND,
                 .job = ""},
        .fd = -1,
        .round = -1,
        .claim = {.seat = -1},
    };
}

static inline void node_send(struct node *n, const struct dt_message *m)
{
    struct dt_buf out = {0};
    dt_message_encode(&out, m);
    CHECK(!out.bad);
    peer_send(n->fd, out.at, out.len);
    dt_buf_finish(&out);
}

/* The next frame, which the node keeps. False: the connection has ended. */
static inline bool node_hear_any(struct node *n)
{
    struct dt_err err = {0};
    size_t used;
    dt_message_finish(&n->heard);
    n->heard = (struct dt_message){.type = DT_MSG_TYPES};
    for (;;) {
        uint8_t bytes[4096];
        enum dt_decoded got =
            dt_message_decode(n->in.at, n->in.len, DT_STATUS_FRAME_MAX, &n->heard, &used, &err);
        CHECK_STR(err.text, "");
        if (got == DT_DONE) {
            dt_buf_consume(&n->in, used);
            return true;
        }
        ssize_t r = TEMP_FAILURE_RETRY(recv(n->fd, bytes, sizeof bytes, 0));
        if (r <= 0)
            return false;
        dt_buf_put(&n->in, bytes, (size_t)r);
    }
}

/* The next frame but notes is one of TYPE. */
static inline const struct dt_message *node_hear(struct node *n, enum dt_message_type type)
{
    do
        CHECK(node_hear_any(n));
    while (n->heard.type == DT_MSG_NOTE);
    CHECK_ROW("%s hears \"%s\"", n->name, n->heard.why ? n->heard.why : "");
    CHECK_STR(dt_message_name(n->heard.type), dt_message_name(type));
    return &n->heard;
}

static inline void node_prove(struct node *n, const struct dt_proof_nonces *nonces)
{
    struct dt_err err;
    struct dt_message proof = {.type = DT_MSG_PROOF};
    const struct dt_proof_table *lib = dt_proof_open(&err);
    CHECK(lib != NULL);
    dt_proof_make(lib, n->token, strlen(n->token), DT_PROOF_CLIENT, nonces, proof.proof);
    node_send(n, &proof);
}

/* Connects and says hello, with a proof where it has a token. */
static inline void node_greet(struct node *n, uint16_t port)
{
    struct dt_message hello = {.type = DT_MSG_HELLO,
                               .hello = {.version = DT_CONTROL_VERSION, .program = "test"}};
    struct dt_proof_nonces nonces = {.client = {1, 2, 3}};
    struct dt_buf out = {0};
    n->fd = peer_connect(port);
    dt_buf_clear(&n->in);
    dt_control_put_preamble(&out);
    memcpy(hello.hello.nonce, nonces.client, DT_NONCE_SIZE);
    dt_message_encode(&out, &hello);
    peer_send(n->fd, out.at, out.len);
    dt_buf_finish(&out);
    node_hear(n, DT_MSG_HELLO);
    memcpy(nonces.server, n->heard.hello.nonce, DT_NONCE_SIZE);
    n->nonces = nonces;
    if (!n->token)
        return;
    CHECK(n->heard.hello.token);
    node_prove(n, &nonces);
}

static inline struct dt_message node_message(const struct node *n, enum dt_message_type type)
{
    return (struct dt_message){
        .type = type, .run = n->run, .round = n->round, .incarnation = n->incarnation};
}

/* Sends M with the key that SECRET makes for RUN (NULL: the operator's), and its signature. */
static inline void node_send_signed(struct node *n, struct dt_message *m, const char *secret,
                                    const char *run)
{
    struct dt_err err;
    struct dt_token token = {.len = strlen(secret)};
    struct dt_warrant warrant;
    memcpy(token.secret, secret, token.len);
    dt_warrant_make(dt_proof_open(&err), &token, run, &n->nonces, &warrant);
    m->key = warrant.key;
    m->signature = warrant.signature;
    node_send(n, m);
}

/* Asks for a world, or says which one it has. */
static inline void node_join(struct node *n)
{
    struct dt_message m = node_message(n, DT_MSG_JOIN);
    m.join = (struct dt_join){.spec = n->spec,
                              .node = {.name = n->name,
                                       .boot = "",
                                       .domain = "",
                                       .addr = n->name,
                                       .port = 29500,
                                       .role = "default",
                                       .workers = 2,
                                       .order = -1,
                                       .looks = true,
                                       .keeps = true,
                                       .tails = true},
                              .claim = n->claim};
    if (n->run_token)
        node_send_signed(n, &m, n->run_token, n->run);
    else
        node_send(n, &m);
}

static inline void node_enter(struct node *n, uint16_t port)
{
    node_greet(n, port);
    node_join(n);
}

/* Its world comes, and workers run in it. */
static inline void node_run(struct node *n)
{
    const struct dt_world_message *w = &node_hear(n, DT_MSG_WORLD)->world;
    n->round = n->heard.round;
    n->claim = (struct dt_claim){.running = true,
                                 .seat = w->seat,
                                 .seats = w->seats,
                                 .first_rank = w->first_rank,
                                 .size = w->size,
                                 .restarts = w->restarts};
}

/* The round is over; its workers are gone, and it joins again. */
static inline void node_stop(struct node *n)
{
    node_hear(n, DT_MSG_STOP);
    n->claim = (struct dt_claim){.seat = -1};
    node_join(n);
}

static inline void node_succeed(struct node *n)
{
    struct dt_message m = node_message(n, DT_MSG_RESULT);
    m.result = (struct dt_result){
        .succeeded = true, .rank = -1, .local_rank = -1, .signature = "", .text = ""};
    n->claim.running = false;
    n->claim.done = true;
    node_send(n, &m);
}

/* Proves that all it said was heard. */
static inline void node_beat(struct node *n)
{
    struct dt_message m = node_message(n, DT_MSG_BEAT);
    m.beat = (struct dt_beat){.seq = 7, .step = -1, .running = 2};
    node_send(n, &m);
    CHECK_EQ(node_hear(n, DT_MSG_BEAT)->beat.seq, 7);
}

static inline void node_hang_up(struct node *n)
{
    close(n->fd);
    n->fd = -1;
}

static inline void node_expect_end(struct node *n)
{
    CHECK(!node_hear_any(n));
    node_hang_up(n);
}

static inline void node_finish(struct node *n)
{
    if (n->fd >= 0)
        close(n->fd);
    dt_message_finish(&n->heard);
    dt_buf_finish(&n->in);
}

#endif
