/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct held_frame {
    struct dt_node in_held;
    uint64_t after;
    struct dt_buf bytes;
};

void dt_rdzv_conn_init(struct dt_rdzv_conn *c, struct dt_control_peer *peer,
                       struct dt_rdzv_door *door, struct dt_rdzv_server_counters *counters)
{
    *c = (struct dt_rdzv_conn){.peer = peer, .door = door, .counters = counters};
    dt_node_init(&c->in_server);
    dt_node_init(&c->in_strangers);
    dt_node_init(&c->in_lookers);
    dt_node_init(&c->in_holding);
    dt_list_init(&c->held);
}

/* What it takes of memory, malloc's part of both allocations included. */
static size_t cost(const struct held_frame *f)
{
    return sizeof *f + f->bytes.size + 32;
}

static void free_frame(struct dt_rdzv_conn *c, struct held_frame *f)
{
    dt_list_remove(&f->in_held);
    c->held_bytes -= cost(f);
    dt_buf_finish(&f->bytes);
    free(f);
}

void dt_rdzv_conn_finish(struct dt_rdzv_conn *c)
{
    dt_list_remove(&c->in_server);
    dt_list_remove(&c->in_strangers);
    dt_list_remove(&c->in_lookers);
    dt_list_remove(&c->in_holding);
    dt_list_each(&c->held, n) free_frame(c, dt_container_of(n, struct held_frame, in_held));
}

/* -- out -------------------------------------------------------------------------------------- */

void dt_rdzv_conn_send(struct dt_rdzv_conn *c, const struct dt_message *m)
{
    size_t before = c->peer->out->len;
    dt_message_encode(c->peer->out, m);
    if (c->peer->out->bad) {
        dt_rdzv_conn_end(c); /* it would miss something; it comes again, and is told all anew */
        return;
    }
    c->counters->frames_out++;
    c->counters->bytes_out += c->peer->out->len - before;
    dt_control_peer_send(c->peer);
}

void dt_rdzv_conn_hold(struct dt_rdzv_conn *c, const struct dt_message *m, uint64_t after)
{
    struct held_frame *f = calloc(1, sizeof *f);
    if (f) {
        dt_node_init(&f->in_held);
        dt_message_encode(&f->bytes, m);
        dt_buf_trim(&f->bytes);
    }
    if (!f || f->bytes.bad || c->held_bytes + cost(f) > DT_CONTROL_UNTAKEN_MAX) {
        if (f)
            dt_buf_finish(&f->bytes);
        free(f);
        dt_rdzv_conn_end(c);
        return;
    }
    f->after = after;
    dt_list_append(&c->held, &f->in_held);
    c->held_bytes += cost(f);
    dt_control_peer_keep(c->peer, c->held_bytes);
}

void dt_rdzv_conn_release(struct dt_rdzv_conn *c, uint64_t upto)
{
    bool any = false;
    dt_list_each(&c->held, n)
    {
        struct held_frame *f = dt_container_of(n, struct held_frame, in_held);
        if (f->after > upto)
            break;
        dt_buf_put(c->peer->out, f->bytes.at, f->bytes.len);
        c->counters->frames_out++;
        c->counters->bytes_out += f->bytes.len;
        free_frame(c, f);
        any = true;
    }
    if (!any)
        return;
    dt_control_peer_keep(c->peer, c->held_bytes);
    dt_control_peer_send(c->peer);
}

void dt_rdzv_conn_end(struct dt_rdzv_conn *c)
{
    c->phase = DT_CONN_DEAF;
    dt_control_peer_end(c->peer);
}

enum dt_decoded dt_rdzv_conn_refuse(struct dt_rdzv_conn *c, const struct dt_err *err)
{
    struct dt_message refused = {.type = DT_MSG_REFUSED, .why = err->text};
    dt_rdzv_conn_send(c, &refused);
    c->counters->refused++;
    return DT_BAD;
}

/* -- the greeting ----------------------------------------------------------------------------- */

static int send_hello(struct dt_rdzv_conn *c, struct dt_err *err)
{
    const struct dt_rdzv_door *door = c->door;
    struct dt_message hello;
    c->greeting = (struct dt_greeting){.side = DT_PROOF_SERVER,
                                       .token = door->proofs ? &door->token : NULL,
                                       .proofs = door->proofs,
                                       .shared = door->shared};
    if (dt_greeting_begin(&c->greeting, "dtrun " DT_VERSION, door->host, &hello, err) < 0)
        return -1;
    dt_rdzv_conn_send(c, &hello);
    return 0;
}

static enum dt_decoded read_preamble(struct dt_rdzv_conn *c, const uint8_t *bytes, size_t len,
                                     size_t *used, struct dt_err *err)
{
    int version;
    enum dt_decoded got = dt_control_read_preamble(bytes, len, &version);
    if (got != DT_DONE)
        return got; /* never BAD: the magic was seen by who called us */
    *used = DT_CONTROL_PREAMBLE;
    if (version != DT_CONTROL_VERSION) {
        dt_err_set(err, DT_E_PROTOCOL,
                   "the client speaks version %d of the control protocol and this server version "
                   "%d; run the same dtrun on all hosts",
                   version, DT_CONTROL_VERSION);
        return dt_rdzv_conn_refuse(c, err);
    }
    if (send_hello(c, err) < 0)
        return dt_rdzv_conn_refuse(c, err);
    c->phase = DT_CONN_GREETING;
    return DT_DONE;
}

static enum dt_decoded refuse_token(struct dt_rdzv_conn *c, struct dt_err *err)
{
    dt_guesses_wrong(c->door->guesses, &c->peer->addr, dt_clock_monotonic());
    dt_err_set(err, DT_E_PROTOCOL,
               "the client's token is not that of this server; give both the same --token-file");
    return dt_rdzv_conn_refuse(c, err);
}

static enum dt_decoded refuse_order(struct dt_rdzv_conn *c, const struct dt_message *m,
                                    struct dt_err *err)
{
    if (c->greeting.due == DT_MSG_HELLO)
        dt_err_set(err, DT_E_PROTOCOL, "its first frame is a %s and no hello",
                   dt_message_name(m->type));
    else
        dt_err_set(err, DT_E_PROTOCOL, "a token is asked for here; give --token-file");
    return dt_rdzv_conn_refuse(c, err);
}

static enum dt_decoded take_greeting(struct dt_rdzv_conn *c, const struct dt_message *m,
                                     struct dt_err *err)
{
    struct dt_message answer;
    bool guess = c->greeting.due == DT_MSG_PROOF && m->type == DT_MSG_PROOF;
    /* Not refused in words, which an agent takes for the last one: it comes again. */
    if (guess && !dt_guesses_may_try(c->door->guesses, &c->peer->addr, dt_clock_monotonic())) {
        dt_err_set(err, DT_E_LIMIT,
                   "too many wrong tokens came from its address, so this one is not checked");
        return DT_BAD;
    }
    enum dt_greeting_outcome outcome = dt_greeting_hear(&c->greeting, m, &answer);
    if (outcome == DT_GREETING_WRONG_PROOF)
        return refuse_token(c, err);
    if (outcome == DT_GREETING_OUT_OF_PLACE)
        return refuse_order(c, m, err);
    if (guess)
        dt_guesses_right(c->door->guesses, &c->peer->addr);
    if (answer.type != DT_MSG_TYPES)
        dt_rdzv_conn_send(c, &answer);
    if (outcome == DT_GREETING_DONE)
        c->phase = DT_CONN_FRAMES;
    return DT_DONE;
}

/* -- who speaks ------------------------------------------------------------------------------- */

/* To check a signature takes longer than most that a client may ask for, so it is done once. */
int dt_rdzv_conn_check_key(struct dt_rdzv_conn *c, const struct dt_message *m, struct dt_err *err)
{
    struct dt_rdzv_door *door = c->door;
    if (!*m->key || strcmp(m->key, c->key) == 0)
        return 0;
    if (*c->key)
        return dt_err_set(err, DT_E_PROTOCOL, "a second key on one connection");
    if (!door->keys && !(door->keys = dt_proof_open(err)))
        return dt_err_wrap(err, "the rendezvous cannot check a run's token");
    if (!dt_warrant_holds(door->keys, m->key, m->signature, &c->greeting.nonces))
        return dt_err_set(err, DT_E_PROTOCOL, "a key whose signature does not hold");
    snprintf(c->key, sizeof c->key, "%s", m->key);
    return 0;
}

/* The permissions of a unix socket say who may come at all: there another user is no stranger. */
static enum dt_asker_user user_of(const struct dt_rdzv_conn *c)
{
    int64_t user = dt_control_peer_user(c->peer);
    if (user == 0 || user == geteuid())
        return DT_ASKER_OURS;
    bool by_path = c->peer->addr.sa.ss_family == AF_UNIX;
    return user == DT_CONTROL_USER_UNKNOWN || by_path ? DT_ASKER_UNKNOWN : DT_ASKER_ANOTHER;
}

struct dt_asker dt_rdzv_conn_asker(struct dt_rdzv_conn *c, const struct dt_message *m)
{
    if (!c->user_known)
        c->user = user_of(c);
    c->user_known = true;
    return (struct dt_asker){.key = c->key, .user = c->user, .name = m->user};
}

/* -- in --------------------------------------------------------------------------------------- */

enum dt_decoded dt_rdzv_conn_read(struct dt_rdzv_conn *c, const uint8_t *bytes, size_t len,
                                  struct dt_message *m, size_t *used, struct dt_err *err)
{
    enum dt_rdzv_conn_phase phase = c->phase;
    m->type = DT_MSG_TYPES;
    if (phase == DT_CONN_DEAF) {
        *used = len;
        return DT_DONE;
    }
    if (phase == DT_CONN_PREAMBLE)
        return read_preamble(c, bytes, len, used, err);
    enum dt_decoded got = dt_message_decode(bytes, len, DT_FRAME_MAX, m, used, err);
    if (got == DT_BAD)
        return dt_rdzv_conn_refuse(c, err);
    if (got == DT_MORE)
        return got;
    c->counters->frames_in++;
    c->counters->bytes_in += *used;
    if (phase == DT_CONN_FRAMES)
        return DT_DONE;
    got = take_greeting(c, m, err);
    dt_message_finish(m);
    m->type = DT_MSG_TYPES;
    return got;
}
