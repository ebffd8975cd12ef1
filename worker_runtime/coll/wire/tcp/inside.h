/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the wire over TCP: door.c lets peers in, lines.c calls them and watches
 * over connections, messages.c moves messages over them, tcp.c is what others see.
 *
 * Two ranks have two lines. The lower rank calls the other for the one that carries messages; the
 * higher calls for the pulse, over which nothing ever goes once it is open. The kernel probes a
 * silent connection only while none of its own bytes wait for an answer, and TCP_USER_TIMEOUT also
 * ends a connection to a host that is well but does not read for as long as that, as a rank does
 * that computes. On the pulse nothing waits, so it ends when the other host has vanished and not
 * before; and who waits to be called knows by it that the caller lives. */
#ifndef DT_WORKER_RUNTIME_COLL_WIRE_TCP_INSIDE_H
#define DT_WORKER_RUNTIME_COLL_WIRE_TCP_INSIDE_H

#include "worker_runtime/coll/wire/tcp/address.h"
#include "worker_runtime/coll/wire/wire.h"

/* Messages that come before their receive are kept up to so many bytes, of all peers together; then
 * their connections are not read any further until receives are there. */
#define DT_TCP_EARLY_MAX ((size_t)64 << 20)
#define DT_TCP_CALLERS_MAX 64 /* connections that have not said yet who they are */

struct dt_tcp_head { /* of a message */
    uint64_t tag, len;
};

#define DT_TCP_MAGIC 0x64747733u
struct dt_tcp_hello { /* of who connects, and the answer to it */
    uint32_t magic;
    uint32_t from, to, line;
    uint8_t secret[DT_TCP_SECRET];
};

struct dt_wire_request {
    struct dt_wire_request *next;                 /* in a list of its peer */
    struct dt_wire_request *all_next, **all_link; /* of the wire's; not when early */
    struct dt_tcp_head head;
    char *bytes; /* the user's; our own when early */
    size_t at;   /* bytes moved, with the head when it is sent */
    bool early, done;
    enum dt_err_code code; /* it failed */
    char why[128];
};

struct dt_tcp_list {
    struct dt_wire_request *first, **end;
};

enum dt_tcp_line_name { DT_TCP_MESSAGES, DT_TCP_PULSE, DT_TCP_LINES };

enum dt_tcp_line_state {
    DT_TCP_NONE,    /* not called for yet, or broken off */
    DT_TCP_CALLING, /* a socket connects */
    DT_TCP_GREETED, /* it is connected, and the other's answer is to come */
    DT_TCP_RESTS,   /* nobody answered as they should: called again at `retry_at` */
    DT_TCP_OPEN,
    DT_TCP_ENDED, /* an open pulse was closed at its other end: it is not called for again */
    DT_TCP_LINE_STATES,
};

struct dt_tcp_line {
    enum dt_tcp_line_state state; /* lines.c alone assigns it */
    int fd;                       /* -1: none */
    int tries, refusals;
    dt_ms retry_at, give_up_at;
    uint8_t in[sizeof(struct dt_tcp_hello)]; /* the answer, as far as it came */
    size_t got;
};

struct dt_tcp_peer {
    int number;
    bool broken, stuck, drains, wants_write; /* stuck: its head waits for room or a receive */
    char why[160];
    struct dt_tcp_line line[DT_TCP_LINES];
    struct dt_tcp_card card;
    struct dt_tcp_list out, wanted, early; /* to be sent; receives; whole ones before theirs */
    struct dt_tcp_head head;               /* of the message that is coming */
    size_t head_at;
    struct dt_wire_request *coming; /* NULL: its head is */
    size_t skip;                    /* bytes of it that nobody wants */
};

struct dt_tcp_caller {
    int fd; /* -1: a free place */
    dt_ms since;
    size_t got;
    uint8_t in[sizeof(struct dt_tcp_hello)];
};

struct dt_wire {
    int self, listener, epoll, size;
    struct dt_tcp_card card;
    struct dt_tcp_peer **peers;  /* by number; NULL: none yet */
    struct dt_wire_request *all; /* that nobody has seen done yet */
    size_t early_bytes;
    int stuck, resting, callers; /* how many peers, lines, callers */
    dt_ms listener_rests;        /* until then; 0: it does not */
    struct dt_tcp_caller caller[DT_TCP_CALLERS_MAX];
};

/* What an event is about; its number is that of a peer, or of a caller's place. */
enum dt_tcp_what { DT_TCP_DOOR, DT_TCP_CALLER, DT_TCP_LINE };

/* -- door.c ----------------------------------------------------------------------------------- */

int dt_tcp_listen(struct dt_wire *w, struct dt_err *err);
void dt_tcp_door_open(struct dt_wire *w); /* to all who are there */
void dt_tcp_door_hear(struct dt_wire *w, int place);
void dt_tcp_door_handle_time(struct dt_wire *w, dt_ms now);

/* -- lines.c ---------------------------------------------------------------------------------- */

struct dt_tcp_peer *dt_tcp_peer_at(struct dt_wire *w, int number); /* NULL: no memory */
void dt_tcp_call(struct dt_wire *w, struct dt_tcp_peer *p);        /* p->card is there */
/* Says what to wait for on the line of messages. */
void dt_tcp_watch(struct dt_wire *w, struct dt_tcp_peer *p);
void dt_tcp_break(struct dt_wire *w, struct dt_tcp_peer *p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void dt_tcp_break_line(struct dt_wire *w, struct dt_tcp_peer *p, int why); /* errno; 0: its end */
void dt_tcp_handle_event(struct dt_wire *w, uint64_t what, uint32_t events);
void dt_tcp_handle_time(struct dt_wire *w);

uint64_t dt_tcp_what(enum dt_tcp_what what, int line, int number);
void dt_tcp_hang_up(struct dt_wire *w, int fd); /* -1 is fine */
void dt_tcp_epoll(struct dt_wire *w, int op, int fd, uint32_t events, uint64_t what);
enum dt_tcp_line_name dt_tcp_line_we_call(const struct dt_wire *w, int number);
bool dt_tcp_same_secret(const uint8_t a[DT_TCP_SECRET], const uint8_t b[DT_TCP_SECRET]);
bool dt_tcp_say_hello(int fd, const struct dt_tcp_hello *h); /* false: errno */
/* Both ends have shown who they are; the line's socket is set. */
void dt_tcp_open_line(struct dt_wire *w, struct dt_tcp_peer *p, enum dt_tcp_line_name name);
void dt_tcp_close_line(struct dt_wire *w, struct dt_tcp_line *l); /* it is none then */

/* -- messages.c ------------------------------------------------------------------------------- */

void dt_tcp_push(struct dt_wire *w, struct dt_tcp_peer *p);
void dt_tcp_pull(struct dt_wire *w, struct dt_tcp_peer *p);
void dt_tcp_post_send(struct dt_wire *w, struct dt_tcp_peer *p, struct dt_wire_request *r);
void dt_tcp_post_recv(struct dt_wire *w, struct dt_tcp_peer *p, struct dt_wire_request *r);
/* Reads on where there is room again. */
void dt_tcp_unstick(struct dt_wire *w);
/* Nothing comes or goes any more: sends fail with WHY, messages that came whole stay. */
void dt_tcp_drop_messages(struct dt_wire *w, struct dt_tcp_peer *p);
void dt_tcp_free_early(struct dt_tcp_peer *p);

#endif
