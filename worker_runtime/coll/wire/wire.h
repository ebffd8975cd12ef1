/* SPDX-License-Identifier: Apache-2.0 */
/* Point-to-point messages between hosts, as coll/hosts/ needs them. Filled by tcp/tcp.c, and by
 * the helper library dt_ucx.so (ucx.c), so that libdtrun itself needs no UCX.
 *
 * Ranks are known by small numbers, 0 and up, that all of a group agree on. Messages between two
 * ranks with one tag arrive in the order sent. Nothing here waits, except flush. One thread. */
#ifndef DT_WORKER_RUNTIME_COLL_WIRE_WIRE_H
#define DT_WORKER_RUNTIME_COLL_WIRE_WIRE_H

#include "base/clock.h"
#include "base/err.h"
#include "base/plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_WIRE_ABI 1
#define DT_WIRE_ADDRESS_MAX 4000 /* grows with the network devices of a host */
#define DT_WIRE_PEERS_MAX (1 << 20)

struct dt_wire;         /* this process's end of all connections */
struct dt_wire_request; /* a message under way */

struct dt_wire_ops {
    struct dt_plugin_head head;
    struct dt_wire *(*open)(int self, struct dt_err *err); /* SELF: how peers call us */
    /* How others reach us: *LEN bytes, at most DT_WIRE_ADDRESS_MAX. */
    int (*address)(struct dt_wire *w, void *out, size_t *len, struct dt_err *err);
    /* Before the first message from or to PEER. */
    int (*connect)(struct dt_wire *w, int peer, const void *address, size_t len,
                   struct dt_err *err);
    /* The bytes are the wire's until the request is done. TAG is below 1 << 16. */
    int (*send)(struct dt_wire *w, int peer, uint64_t tag, const void *bytes, size_t len,
                struct dt_wire_request **out, struct dt_err *err);
    int (*recv)(struct dt_wire *w, int peer, uint64_t tag, void *bytes, size_t len,
                struct dt_wire_request **out, struct dt_err *err); /* exactly LEN bytes come */
    /* 1: done, and the request is freed; 0: under way; -1: failed, freed, *err. */
    int (*test)(struct dt_wire *w, struct dt_wire_request *r, struct dt_err *err);
    void (*progress)(struct dt_wire *w); /* moves all that is under way */
    /* The first peer from number FROM on whose connection broke, -1: none; WHY points to words that
     * last. A receive from such a peer may stay under way for ever. */
    int (*broken)(struct dt_wire *w, int from, const char **why);
    /* Becomes readable when there is something to do; -1: there is already. */
    int (*wait_fd)(struct dt_wire *w);
    /* What was sent has left this process, or TIMEOUT is over. */
    void (*flush)(struct dt_wire *w, dt_ms timeout);
    /* Where all goes well and peers do the same. */
    void (*close)(struct dt_wire *w);
    /* Where something failed: no byte is touched any more. The connections stay until this process
     * ends, since a library may not outlive its own ways of closing them then. */
    void (*abandon)(struct dt_wire *w);
};

/* Settings in the environment of workers:
 * DTRUN_WIRE       "tcp" (default) or "ucx".
 * DTRUN_COLL_ADDR  with tcp: where other hosts connect to this one: an interface ("eth1"), an
 *                  address of this host, IPv4 or IPv6, or a name that stands for one. May differ
 *                  from host to host. Default: the address from which this host talks to
 *                  MASTER_ADDR, else to its default gateway. UCX has UCX_NET_DEVICES for that.
 *
 * Those of tcp/tcp.h, or with DTRUN_WIRE=ucx those of dt_ucx.so, loaded when the first asks; NULL
 * and a sentence that says what to install. Sets what UCX reads from the environment at its load
 * where the user did not: no signal handlers, no words on stdout, and probes that find a host which
 * vanished without a word. */
const struct dt_wire_ops *dt_wire_load(struct dt_err *err);

#endif
