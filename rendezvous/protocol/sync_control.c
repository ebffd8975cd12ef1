/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/sync_control.h"

#include "base/addr.h"
#include "base/str.h"
#include "rendezvous/protocol/greeting.h"
#include "rendezvous/protocol/sync_socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESSES 16 /* of one name that are tried */

struct dt_sync_control {
    struct dt_sync_socket socket;
    struct dt_buf in, out;
    dt_ms timeout;
    bool hosted, looks, logs; /* as its hello said */
    struct dt_proof_nonces nonces;
    char name[256]; /* the address as it was given */
};

/* -- frames ----------------------------------------------------------------------------------- */

static int send_message(struct dt_sync_control *c, const struct dt_message *m, dt_ms deadline,
                        struct dt_err *err)
{
    dt_message_encode(&c->out, m);
    int rc = c->out.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a request")
                        : dt_sync_socket_send(&c->socket, (struct dt_bytes){c->out.at, c->out.len},
                                              deadline, err);
    dt_buf_clear(&c->out);
    return rc;
}

static int receive_message(struct dt_sync_control *c, struct dt_message *m, dt_ms deadline,
                           struct dt_err *err)
{
    size_t used;
    for (;;) {
        switch (dt_message_decode(c->in.at, c->in.len, DT_STATUS_FRAME_MAX, m, &used, err)) {
        case DT_DONE:
            dt_buf_consume(&c->in, used);
            return 0;
        case DT_BAD:
            return dt_err_wrap(err, "it did not answer as a rendezvous of dtrun does");
        case DT_MORE:
            if (dt_sync_socket_receive(&c->socket, &c->in, deadline, err) < 0)
                return -1;
        }
    }
}

/* The next message, which is to be of TYPE. */
static int expect(struct dt_sync_control *c, enum dt_message_type type, struct dt_message *m,
                  dt_ms deadline, struct dt_err *err)
{
    char why[DT_WHY_MAX];
    if (receive_message(c, m, deadline, err) < 0)
        return -1;
    if (m->type == type)
        return 0;
    if (m->type == DT_MSG_REFUSED)
        dt_err_set(err, DT_E_PROTOCOL, "it refused: %s",
                   dt_str_printable(dt_bytes_of(m->why), why, sizeof why));
    else
        dt_err_set(err, DT_E_PROTOCOL, "it answered with \"%s\" where \"%s\" was due",
                   dt_message_name(m->type), dt_message_name(type));
    dt_message_finish(m);
    return -1;
}

/* -- the greeting ----------------------------------------------------------------------------- */

/* What any other server does with four bytes that it does not know. */
static int no_greeting(struct dt_err *err)
{
    struct dt_err cause = *err;
    if (cause.code == DT_E_DISCONNECTED)
        return dt_err_set(
            err, cause.code,
            "no answer to the greeting: %s; is it dtrun's rendezvous that serves there? A "
            "job that is not elastic has none. --endpoint says where to look",
            cause.text);
    if (cause.code == DT_E_TIMEOUT)
        return dt_err_set(
            err, cause.code,
            "no answer to the greeting: %s; is it dtrun's rendezvous that serves there? One whose "
            "--max-connections are all taken answers when a place is free",
            cause.text);
    return -1;
}

/* A server that does not look at our proof closes the connection without words. */
static int no_answer_to_proof(struct dt_err *err)
{
    struct dt_err cause = *err;
    if (cause.code != DT_E_DISCONNECTED)
        return -1;
    return dt_err_set(
        err, cause.code,
        "no answer to the token: %s; after ten wrong tokens from one address it looks "
        "at one a second from there, so try again in a few seconds",
        cause.text);
}

/* What is wrong with what the server said. */
static int no_agreement(enum dt_greeting_outcome outcome, int version, struct dt_err *err)
{
    switch (outcome) {
    case DT_GREETING_OTHER_VERSION:
        return dt_err_set(err, DT_E_PROTOCOL,
                          "it speaks version %d of the control protocol and this program version "
                          "%d; use the dtrun-ctl that was installed with it",
                          version, DT_CONTROL_VERSION);
    case DT_GREETING_TOKEN_ASKED:
        return dt_err_set(err, DT_E_RUNTIME, "it asks for a token; give --token-file");
    case DT_GREETING_TOKEN_NOT_ASKED:
        return dt_err_set(err, DT_E_RUNTIME,
                          "it asks for no token, though one is given: either it is another server, "
                          "or leave --token-file out");
    case DT_GREETING_WRONG_PROOF:
        return dt_err_set(err, DT_E_PROTOCOL,
                          "it does not know the token itself: this is not the server that it "
                          "should be");
    case DT_GREETING_GOES_ON:
    case DT_GREETING_DONE:
    case DT_GREETING_OUT_OF_PLACE: /* expect() has looked */
        break;
    }
    return 0;
}

/* Hears what is due, and makes *ANSWER, which is to be said if its type is not DT_MSG_TYPES. */
static int hear_greeting(struct dt_sync_control *c, struct dt_greeting *g,
                         struct dt_message *answer, dt_ms deadline, struct dt_err *err)
{
    struct dt_message m;
    if (expect(c, g->due, &m, deadline, err) < 0)
        return -1;
    enum dt_greeting_outcome outcome = dt_greeting_hear(g, &m, answer);
    int version = m.type == DT_MSG_HELLO ? m.hello.version : 0;
    if (m.type == DT_MSG_HELLO) {
        c->hosted = strcmp(m.hello.host, "agent") == 0;
        c->looks = m.hello.looks;
        c->logs = m.hello.logs;
    }
    dt_message_finish(&m);
    return no_agreement(outcome, version, err);
}

static int greet(struct dt_sync_control *c, const char *program, const struct dt_token *token,
                 dt_ms deadline, struct dt_err *err)
{
    struct dt_greeting g = {.side = DT_PROOF_CLIENT, .token = token};
    struct dt_message ours;
    if ((token && !(g.proofs = dt_proof_open(err))) ||
        dt_greeting_begin(&g, program, NULL, &ours, err) < 0)
        return -1;
    dt_control_put_preamble(&c->out);
    if (send_message(c, &ours, deadline, err) < 0 || hear_greeting(c, &g, &ours, deadline, err) < 0)
        return no_greeting(err);
    c->nonces = g.nonces;
    if (ours.type == DT_MSG_TYPES)
        return 0;
    if (send_message(c, &ours, deadline, err) < 0 || hear_greeting(c, &g, &ours, deadline, err) < 0)
        return no_answer_to_proof(err);
    return 0;
}

/* -- connecting ------------------------------------------------------------------------------- */

/* Nobody is there, or somebody else: the person may have meant another place. */
static int no_connection(struct dt_err *err)
{
    struct dt_err cause = *err;
    if (cause.code == DT_E_TIMEOUT)
        return dt_err_set(err, cause.code,
                          "nothing answers: perhaps a firewall drops what is sent there, or the "
                          "host is down; --endpoint says where to look");
    if (cause.code == DT_E_DISCONNECTED)
        return dt_err_set(err, cause.code,
                          "%s; is a rendezvous running there? --endpoint says where to look",
                          cause.text);
    return -1;
}

static int connect_to(struct dt_sync_control *c, const char *addr, dt_ms deadline,
                      struct dt_err *err)
{
    struct dt_addr to[ADDRESSES];
    size_t count;
    if (dt_addr_resolve(addr, DT_RENDEZVOUS_PORT, to, ADDRESSES, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (dt_sync_socket_connect(&c->socket, &to[i], deadline, err) == 0)
            return 0;
    return no_connection(err);
}

static int explain(const struct dt_sync_control *c, struct dt_err *err)
{
    return dt_err_wrap(err, "rendezvous %s", c->name);
}

struct dt_sync_control *dt_sync_control_open(const char *addr, const char *program,
                                             const struct dt_token *token, dt_ms timeout,
                                             struct dt_err *err)
{
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), timeout);
    struct dt_sync_control *c = calloc(1, sizeof *c);
    if (!c) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a connection");
        return NULL;
    }
    c->timeout = timeout;
    snprintf(c->name, sizeof c->name, "%s", addr);
    c->socket.fd = -1;
    if (connect_to(c, addr, deadline, err) == 0 && greet(c, program, token, deadline, err) == 0)
        return c;
    explain(c, err);
    dt_sync_control_close(c);
    return NULL;
}

void dt_sync_control_close(struct dt_sync_control *c)
{
    if (!c)
        return;
    dt_sync_socket_disconnect(&c->socket);
    dt_buf_finish(&c->in);
    dt_buf_finish(&c->out);
    free(c);
}

void dt_sync_control_set_timeout(struct dt_sync_control *c, dt_ms timeout)
{
    c->timeout = timeout;
}

bool dt_sync_control_looks(const struct dt_sync_control *c)
{
    return c->looks;
}

bool dt_sync_control_is_hosted(const struct dt_sync_control *c)
{
    return c->hosted;
}

bool dt_sync_control_logs(const struct dt_sync_control *c)
{
    return c->logs;
}

const struct dt_proof_nonces *dt_sync_control_nonces(const struct dt_sync_control *c)
{
    return &c->nonces;
}

int dt_sync_control_say(struct dt_sync_control *c, const struct dt_message *m, struct dt_err *err)
{
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), c->timeout);
    return send_message(c, m, deadline, err) < 0 ? explain(c, err) : 0;
}

int dt_sync_control_hear(struct dt_sync_control *c, enum dt_message_type type, struct dt_message *m,
                         struct dt_err *err)
{
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), c->timeout);
    return expect(c, type, m, deadline, err) < 0 ? explain(c, err) : 0;
}

int dt_sync_control_ask(struct dt_sync_control *c, const struct dt_message *request,
                        struct dt_message *answer, struct dt_err *err)
{
    return dt_sync_control_say(c, request, err) < 0
               ? -1
               : dt_sync_control_hear(c, request->type, answer, err);
}
