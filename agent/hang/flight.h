/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch's flight recorder tells of one worker: the collectives that it has called, in
 * order, and how far each came. A dump is a pickle of versions 1 and 2 (PyTorch 2.2 and later).
 * Pure.
 *
 * A GPU works off what the program called long ago. Of the calls that are not over the first is the
 * one that the others wait for; those behind it only stand in its line. */
#ifndef DT_AGENT_HANG_FLIGHT_H
#define DT_AGENT_HANG_FLIGHT_H

#include "base/buf.h"
#include "base/err.h"
#include "rendezvous/protocol/stance.h"

#include <stdbool.h>

#define DT_FLIGHT_MAX (16u << 20) /* bytes of a dump that is read */

/* One call of a collective, or of send or recv. Texts are as in struct dt_stance. */
struct dt_flight_call {
    char collective[DT_STANCE_NAME_MAX];
    char peers[DT_STANCE_NAME_MAX]; /* "1<-0" of a recv; else "" */
    char group[DT_STANCE_NAME_MAX]; /* "0 (default_pg)" */
    char shape[DT_STANCE_NAME_MAX];
    char where[DT_STANCE_WHERE_MAX]; /* who called it */
    char function[DT_STANCE_FUNCTION_MAX];
    int64_t sequence; /* of its group, as all of its ranks count; -1: unknown, or send or recv */
    bool started;     /* on the device */
};

struct dt_flight {
    struct dt_flight_call waits; /* the first that is not over, if PENDING */
    struct dt_flight_call done;  /* the last that is, if COMPLETED */
    int pending, completed;      /* how many calls the dump has of each */
};

/* -1 and *err: it is damaged, too large or of a version that is not known. */
int dt_flight_read(struct dt_flight *f, struct dt_bytes dump, struct dt_err *err);

/* Adds to S, which a look at the worker made. A call that is not over is what the worker waits for,
 * wherever its program stands, unless that is known to go no further by itself. */
void dt_flight_tell(const struct dt_flight *f, struct dt_stance *s);

/* Lines for people. */
void dt_flight_put_text(const struct dt_flight *f, struct dt_buf *out);

#endif
