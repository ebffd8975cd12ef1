/* SPDX-License-Identifier: Apache-2.0 */
/* A Python traceback in what a worker printed last: what was raised, and where in the program.
 * Pure.
 */
#ifndef DT_AGENT_FAILURE_TRACEBACK_H
#define DT_AGENT_FAILURE_TRACEBACK_H

#include "base/buf.h"
#include "rendezvous/protocol/messages.h"

#include <stdbool.h>

struct dt_traceback {
    struct dt_bytes exception; /* its first line: "ValueError: boom" */
    struct dt_bytes rest;      /* what was printed behind that line */
    /* "train.py:88": the innermost frame outside of Python's own and of installed packages, else
     * the innermost of all; "": no frame is told. */
    char place[DT_PLACE_MAX];
};

/* The line at the front of *TEXT without its end; *TEXT goes on behind it. */
struct dt_bytes dt_traceback_line(struct dt_bytes *text);

/* LINE without the "[rank3]: " that PyTorch puts in front of each. */
struct dt_bytes dt_traceback_bare(struct dt_bytes line);

/* TEXT from the line on in which its last traceback begins; empty: there is none. */
struct dt_bytes dt_traceback_in(struct dt_bytes text);

/* Reads the last traceback of TEXT. False: there is none that ends with an exception. */
bool dt_traceback_read(struct dt_bytes text, struct dt_traceback *out);

/* Where the frames are that stand in TEXT without a traceback's head: those of a syntax error, or
 * of faulthandler, which tells the innermost first. "": nowhere. */
void dt_traceback_place(struct dt_bytes text, char out[DT_PLACE_MAX]);

#endif
