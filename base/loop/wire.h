/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of one connection that we make to a server, from connecting to closed; it is never used
 * twice. A member of what knows the bytes' meaning. All calls belong to the loop's thread. */
#ifndef DT_BASE_LOOP_WIRE_H
#define DT_BASE_LOOP_WIRE_H

#include "base/buf.h"
#include "base/loop/uvx.h"

struct dt_wire;

/* Called from the loop, never from inside the calls below but dt_wire_lose(). After a close only
 * `closed` follows. */
struct dt_wire_events {
    void (*connected)(struct dt_wire *w);
    void (*came)(struct dt_wire *w);  /* more is in `in` */
    void (*wrote)(struct dt_wire *w); /* `written` has grown. May be NULL */
    void (*lost)(struct dt_wire *w, const struct dt_err *why); /* it is closing already */
    void (*closed)(struct dt_wire *w); /* the last one: W is finished, and may be freed */
};

struct dt_wire {
    union dt_uvx_stream io;
    uv_connect_t connect;
    uv_write_t write;
    bool writing, closing;
    struct dt_buf in;           /* what came; to be consumed by the owner */
    struct dt_buf out, sending; /* `sending` is owned by `write` while it is under way */
    uint64_t written;           /* bytes, ever */
    const struct dt_wire_events *events;
};

/* W is zeroed. -1: of all events only `closed` follows. */
int dt_wire_open(struct dt_wire *w, uv_loop_t *loop, const struct dt_addr *to,
                 const struct dt_wire_events *events, struct dt_err *err);
void dt_wire_close(struct dt_wire *w);

/* Closes it, and tells its owner so: what came is of no use. Does nothing to one that is closing.
 */
void dt_wire_lose(struct dt_wire *w, const struct dt_err *why);

/* Sends what stands in `out`, once it is connected and what was sent before is out. */
void dt_wire_flush(struct dt_wire *w);

#endif
