/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker's progress page tells of its communicators: how many collectives of each this rank
 * has entered, and the last call. All ranks of a communicator make the same calls in one order, so
 * the rank with the lower number is the one that the others wait for. Pure. */
#ifndef DT_RENDEZVOUS_PROTOCOL_COMMS_H
#define DT_RENDEZVOUS_PROTOCOL_COMMS_H

#include "rendezvous/protocol/page.h"

struct dt_comm_told {
    uint64_t id;        /* the same on all ranks; 0: not told */
    int rank, ranks;    /* in the communicator; -1: not told */
    int64_t entered;    /* collectives; the last call is that one, unless it has a peer */
    int64_t ended;      /* -1: not told */
    int64_t exchanged;  /* sends and receives */
    int64_t count;      /* elements of the last call */
    int64_t bytes;      /* ... in bytes; -1: not known */
    int64_t entered_ns; /* CLOCK_MONOTONIC; 0: there was no call */
    int peer;           /* of a send or receive; -1: the last call is a collective */
    char function[DT_PAGE_WORD], datatype[DT_PAGE_WORD]; /* letters and digits; "": not told */
    char name[DT_PAGE_COMM_NAME];                        /* printable ASCII */
};

struct dt_comms_told {
    int count;
    int left_out; /* further communicators, of which the page tells nothing */
    struct dt_comm_told at[DT_PAGE_COMMS];
};

/* A worker may have written anything: what is beyond reason is read as not told, and a communicator
 * in an unknown state as none. */
void dt_page_read_comms(const struct dt_page *page, struct dt_comms_told *out);

/* The communicator whose last call is the newest; NULL: there was no call. */
const struct dt_comm_told *dt_comms_latest(const struct dt_comms_told *comms);

/* How many calls there were, on all of them: more of them is progress. */
int64_t dt_comms_calls(const struct dt_comms_told *comms);

/* "default_pg"; without a name the id, "4f00c2d1" */
#define DT_COMM_LABEL 40
const char *dt_comm_label(const struct dt_comm_told *comm, char out[DT_COMM_LABEL]);

/* "Float32 [1048576]"; "" where nothing is known. */
#define DT_COMM_SHAPE 40
const char *dt_comm_shape(const struct dt_comm_told *comm, char out[DT_COMM_SHAPE]);

/* "AllReduce 812 of default_pg, Float32 [1048576]" */
#define DT_COMM_WORDS 160
const char *dt_comm_describe(const struct dt_comm_told *comm, char out[DT_COMM_WORDS]);

#endif
