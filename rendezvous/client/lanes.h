/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to wait on. An answer carries no tag and a wait's may come at any time, so a wait has
 * a connection, a lane, to itself; it is used again for the next one. For client.c. */
#ifndef DT_RENDEZVOUS_CLIENT_LANES_H
#define DT_RENDEZVOUS_CLIENT_LANES_H

#include "base/list.h"
#include "base/loop/ending.h"
#include "rendezvous/client/client.h"
#include "rendezvous/client/link.h"

struct dt_store_lane;

struct dt_store_lanes {
    uv_loop_t *loop;
    const struct dt_store_client_config *config;
    struct dt_list lanes;
    uv_timer_t timer; /* runs while a lane has a deadline */
    struct dt_ending ending;
};

/* CONFIG must outlive P. */
void dt_store_lanes_open(struct dt_store_lanes *p, uv_loop_t *loop,
                         const struct dt_store_client_config *config);
void dt_store_lanes_close(struct dt_store_lanes *p, void (*on_closed)(void *arg), void *arg);

/* From the loop, once. ERR is NULL when what was waited for has come. */
typedef void dt_store_lane_done_fn(void *arg, const struct dt_err *err);

/* Sends ASK, a WAIT or BARRIER whose bytes last until DONE or a cancel, over a lane to AT. NULL and
 * *err: no DONE. */
struct dt_store_lane *dt_store_lanes_wait(struct dt_store_lanes *p, const struct dt_addr *at,
                                          enum dt_c10d_dialect dialect,
                                          const struct dt_c10d_request *ask,
                                          dt_store_lane_done_fn *done, void *arg,
                                          struct dt_err *err);

/* Takes an open wait back; no DONE. The lane is used again when the server has said that it knows,
 * and closed where it is of a generation that cannot. */
void dt_store_lane_cancel(struct dt_store_lane *l);

/* The server is gone: forgets all waits, without DONE, and drops their connections. */
void dt_store_lanes_drop(struct dt_store_lanes *p);

#endif
