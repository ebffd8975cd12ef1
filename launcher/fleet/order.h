/* SPDX-License-Identifier: Apache-2.0 */
/* What the dtrun that starts a fleet and the one on each host say to each other, over the standard
 * streams of the launch agent. Pure.
 *
 * The line that a host executes is the same for every job, and no shell finds anything in it to
 * change: "dtrun --fleet-agent". That one says hello in a line of its standard output. Then it gets
 * its order on its standard input: arguments, environment, working directory and token, which so
 * never stand in a list of processes, with a length before each, so that nothing has to be quoted.
 * What follows are single bytes: DT_FLEET_BEAT, which says that somebody is still there, or the
 * number of a signal. The end of the input is the end of the job on that host. The last byte of its
 * output is DT_FLEET_OVER: the exit status that follows is its own, and not one by which the launch
 * agent says that the connection is lost. */
#ifndef DT_LAUNCHER_FLEET_ORDER_H
#define DT_LAUNCHER_FLEET_ORDER_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_FLEET_ORDER_MAX ((uint32_t)8 << 20) /* bytes behind the length */
#define DT_FLEET_BEAT 0
#define DT_FLEET_OVER 4 /* which ends a transmission in ASCII, too */

struct dt_fleet_hello {
    char version[64]; /* of dtrun there */
    int port;         /* one that is free there */
};

/* A line, with its newline. */
void dt_fleet_hello_put(struct dt_buf *out, const struct dt_fleet_hello *hello);
/* Whether LINE is one. Other lines come from a shell's start-up files, or from ssh. */
bool dt_fleet_hello_read(struct dt_bytes line, struct dt_fleet_hello *hello);

/* NULL-ended lists of owned strings. */
struct dt_fleet_order {
    char **argv; /* with the name of the program */
    char **env;  /* NAME=VALUE, to be added */
    char *cwd;
    uint8_t *token; /* the content of a token file */
    size_t token_len;
};

/* With its length, four bytes, first. -1 and *err: it has more than DT_FLEET_ORDER_MAX. */
int dt_fleet_order_put(struct dt_buf *out, const struct dt_fleet_order *order, struct dt_err *err);
/* BODY is all behind the length. The result is to be finished also after a failure. */
int dt_fleet_order_read(struct dt_bytes body, struct dt_fleet_order *order, struct dt_err *err);
void dt_fleet_order_finish(struct dt_fleet_order *order); /* wipes the token */

#endif
