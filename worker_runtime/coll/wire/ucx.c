/* SPDX-License-Identifier: Apache-2.0 */
/* The wire over UCX: a worker (UCX's word for a set of network devices and what they do) per group,
 * and an endpoint per peer with error handling on, so that the death of a peer is told.
 *
 * UCX matches messages by a tag of 64 bits and not by who sent them, so the sender's number is the
 * upper part of the tag.
 *
 * Each peer has a second endpoint, of a second worker, over which nothing ever goes: the pulse. The
 * kernel probes a silent TCP connection only while none of its own bytes wait for an answer; a host
 * that vanishes in the middle of a message is then noticed by retransmission alone, a quarter of an
 * hour later. On the pulse nothing ever waits. */
#include "worker_runtime/coll/wire/wire.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#define TAG_BITS 16
#define LANES 2 /* [0] carries messages, [1] is the pulse */

struct peer {
    struct dt_wire *wire;
    int number;
    ucp_ep_h ep[LANES];
    bool broken;
    char why[64];
};

struct dt_wire {
    ucp_context_h context;
    ucp_worker_h worker[LANES];
    int self;
    struct peer **peers; /* by number; NULL: not connected */
    int size, broken;    /* how many are */
    struct dt_wire_request *first;
};

struct dt_wire_request {
    struct dt_wire_request *next, **link; /* of the wire's list */
    void *ucx;                            /* NULL: it was done at once */
    ucs_status_t status;
    bool done, receives;
    int peer;
    size_t wanted, got;
};

static int say(struct dt_err *err, ucs_status_t status, const char *what)
{
    return dt_err_set(err, status == UCS_ERR_NO_MEMORY ? DT_E_MEMORY : DT_E_RUNTIME, "UCX: %s: %s",
                      what, ucs_status_string(status));
}

/* -- open and connect ------------------------------------------------------------------------- */

static int open_context(struct dt_wire *w, struct dt_err *err)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};
    ucp_config_t *config;
    ucs_status_t s = ucp_config_read(NULL, NULL, &config);
    if (s != UCS_OK)
        return say(err, s, "reading its settings (UCX_... in the environment)");
    s = ucp_init(&params, config, &w->context);
    ucp_config_release(config);
    return s == UCS_OK ? 0 : say(err, s, "starting");
}

static int open_worker(struct dt_wire *w, int lane, struct dt_err *err)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucs_status_t s = ucp_worker_create(w->context, &params, &w->worker[lane]);
    return s == UCS_OK ? 0 : say(err, s, "opening the network devices");
}

static void wire_close(struct dt_wire *w);

static struct dt_wire *wire_open(int self, struct dt_err *err)
{
    struct dt_wire *w = calloc(1, sizeof *w);
    if (!w) {
        dt_err_set(err, DT_E_MEMORY, "no memory for connections to other hosts");
        return NULL;
    }
    w->self = self;
    if (open_context(w, err) < 0)
        goto fail;
    for (int lane = 0; lane < LANES; lane++)
        if (open_worker(w, lane, err) < 0)
            goto fail;
    return w;
fail:
    wire_close(w);
    return NULL;
}

/* Each lane's address behind its length, two bytes in the order of the network. */
static int wire_address(struct dt_wire *w, void *out, size_t *len, struct dt_err *err)
{
    uint8_t *to = out;
    size_t used = 0;
    for (int lane = 0; lane < LANES; lane++) {
        ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS |
                                                UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS,
                                  .address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY};
        ucs_status_t s = ucp_worker_query(w->worker[lane], &attr);
        if (s != UCS_OK)
            return say(err, s, "asking for this rank's address");
        size_t n = attr.address_length;
        bool fits = n + 2 <= DT_WIRE_ADDRESS_MAX - used;
        if (fits) {
            to[used] = (uint8_t)(n >> 8);
            to[used + 1] = (uint8_t)n;
            memcpy(to + used + 2, attr.address, n);
            used += n + 2;
        }
        ucp_worker_release_address(w->worker[lane], attr.address);
        if (!fits)
            return dt_err_set(err, DT_E_LIMIT,
                              "this host has so many network devices that their addresses take "
                              "more than %d bytes; name those to use in UCX_NET_DEVICES",
                              DT_WIRE_ADDRESS_MAX);
    }
    *len = used;
    return 0;
}

static void on_peer_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct peer *p = arg;
    (void)ep;
    if (p->broken)
        return;
    p->broken = true;
    p->wire->broken++;
    snprintf(p->why, sizeof p->why, "%s", ucs_status_string(status));
}

static struct peer *new_peer(struct dt_wire *w, int number)
{
    if (number >= w->size) {
        int size = number + 16;
        struct peer **peers = realloc(w->peers, (size_t)size * sizeof *peers);
        if (!peers)
            return NULL;
        memset(peers + w->size, 0, (size_t)(size - w->size) * sizeof *peers);
        w->peers = peers;
        w->size = size;
    }
    struct peer *p = calloc(1, sizeof *p);
    if (p)
        *p = (struct peer){.wire = w, .number = number};
    return w->peers[number] = p;
}

static int connect_lane(struct peer *p, int lane, const uint8_t *address, struct dt_err *err)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_peer_error, .arg = p},
    };
    ucs_status_t s = ucp_ep_create(p->wire->worker[lane], &params, &p->ep[lane]);
    if (s == UCS_OK)
        return 0;
    p->ep[lane] = NULL;
    return say(err, s,
               "connecting (a network that both hosts are in may be named by UCX_NET_DEVICES)");
}

static int wire_connect(struct dt_wire *w, int number, const void *address, size_t len,
                        struct dt_err *err)
{
    const uint8_t *at = address, *end = at + len;
    struct peer *p = new_peer(w, number);
    if (!p)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a connection");
    for (int lane = 0; lane < LANES; lane++) {
        size_t n = end - at >= 2 ? (size_t)at[0] << 8 | at[1] : 0;
        if (n == 0 || n > (size_t)(end - at) - 2)
            return dt_err_set(err, DT_E_PROTOCOL,
                              "the address of a peer is no address: another version of dtrun?");
        if (connect_lane(p, lane, at + 2, err) < 0)
            return -1;
        at += n + 2;
    }
    return 0;
}

/* -- messages --------------------------------------------------------------------------------- */

static void on_send_done(void *ucx, ucs_status_t status, void *arg)
{
    struct dt_wire_request *r = arg;
    (void)ucx;
    r->status = status;
    r->done = true;
}

static void on_recv_done(void *ucx, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    struct dt_wire_request *r = arg;
    (void)ucx;
    r->status = status;
    r->got = info->length;
    r->done = true;
}

static struct dt_wire_request *new_request(struct dt_wire *w, int peer, size_t wanted)
{
    struct dt_wire_request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct dt_wire_request){
        .next = w->first, .link = &w->first, .peer = peer, .wanted = wanted};
    if (w->first)
        w->first->link = &r->next;
    return w->first = r;
}

static void free_request(struct dt_wire_request *r)
{
    *r->link = r->next;
    if (r->next)
        r->next->link = r->link;
    if (r->ucx)
        ucp_request_free(r->ucx);
    free(r);
}

/* What UCX gave for a new message: nothing (done), a request, or an error. */
static int begin(struct dt_wire_request *r, ucs_status_ptr_t got, struct dt_wire_request **out,
                 struct dt_err *err)
{
    if (UCS_PTR_IS_ERR(got)) {
        dt_err_set(err, DT_E_DISCONNECTED, "UCX: %s", ucs_status_string(UCS_PTR_STATUS(got)));
        free_request(r);
        return -1;
    }
    r->ucx = got;
    r->done = r->done || !got;
    *out = r;
    return 0;
}

static int wire_send(struct dt_wire *w, int peer, uint64_t tag, const void *bytes, size_t len,
                     struct dt_wire_request **out, struct dt_err *err)
{
    struct dt_wire_request *r = new_request(w, peer, len);
    if (!r)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a message");
    ucp_request_param_t params = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_send_done,
        .user_data = r,
    };
    uint64_t full = (uint64_t)w->self << TAG_BITS | tag;
    return begin(r, ucp_tag_send_nbx(w->peers[peer]->ep[0], bytes, len, full, &params), out, err);
}

static int wire_recv(struct dt_wire *w, int peer, uint64_t tag, void *bytes, size_t len,
                     struct dt_wire_request **out, struct dt_err *err)
{
    struct dt_wire_request *r = new_request(w, peer, len);
    if (!r)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a message");
    r->receives = true;
    r->got = len;
    ucp_request_param_t params = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = on_recv_done,
        .user_data = r,
    };
    uint64_t full = (uint64_t)peer << TAG_BITS | tag;
    return begin(r, ucp_tag_recv_nbx(w->worker[0], bytes, len, full, UINT64_MAX, &params), out,
                 err);
}

static int wire_test(struct dt_wire *w, struct dt_wire_request *r, struct dt_err *err)
{
    (void)w;
    int rc = 1;
    if (!r->done)
        return 0;
    if (r->status != UCS_OK)
        rc = dt_err_set(err, DT_E_DISCONNECTED, "UCX: %s", ucs_status_string(r->status));
    else if (r->receives && r->got != r->wanted)
        rc = dt_err_set(err, DT_E_PROTOCOL,
                        "a message of %zu bytes came where %zu were expected: the ranks do not "
                        "make the same calls",
                        r->got, r->wanted);
    free_request(r);
    return rc;
}

static void wire_progress(struct dt_wire *w)
{
    while (ucp_worker_progress(w->worker[0]))
        ;
    ucp_worker_progress(w->worker[1]);
}

static int wire_broken(struct dt_wire *w, int from, const char **why)
{
    if (w->broken == 0)
        return -1;
    for (int i = from; i < w->size; i++)
        if (w->peers[i] && w->peers[i]->broken) {
            *why = w->peers[i]->why;
            return i;
        }
    return -1;
}

static int wire_wait_fd(struct dt_wire *w)
{
    int fd;
    if (ucp_worker_get_efd(w->worker[0], &fd) != UCS_OK || ucp_worker_arm(w->worker[0]) != UCS_OK)
        return -1;
    return fd;
}

/* -- the end ---------------------------------------------------------------------------------- */

static void ignore(void *ucx, ucs_status_t status, void *arg)
{
    (void)ucx, (void)status, (void)arg;
}

static void await(struct dt_wire *w, ucs_status_ptr_t ucx, dt_ms deadline)
{
    if (!UCS_PTR_IS_PTR(ucx))
        return;
    while (ucp_request_check_status(ucx) == UCS_INPROGRESS && dt_clock_monotonic() < deadline)
        for (int lane = 0; lane < LANES; lane++)
            ucp_worker_progress(w->worker[lane]);
    ucp_request_free(ucx);
}

static void wire_flush(struct dt_wire *w, dt_ms timeout)
{
    ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = ignore};
    await(w, ucp_worker_flush_nbx(w->worker[0], &params),
          dt_clock_after(dt_clock_monotonic(), timeout));
}

/* By force: there is nobody to agree with, and what is under way ends with an error. */
static void close_peer(struct dt_wire *w, struct peer *p)
{
    ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                  .flags = UCP_EP_CLOSE_FLAG_FORCE};
    for (int lane = 0; lane < LANES; lane++)
        if (p->ep[lane])
            await(w, ucp_ep_close_nbx(p->ep[lane], &params),
                  dt_clock_after(dt_clock_monotonic(), DT_SECOND));
}

static void wire_close(struct dt_wire *w)
{
    if (!w)
        return;
    for (struct dt_wire_request *r = w->first; r; r = r->next)
        if (r->receives && r->ucx && !r->done)
            ucp_request_cancel(w->worker[0], r->ucx);
    for (int i = 0; i < w->size; i++)
        if (w->peers[i])
            close_peer(w, w->peers[i]);
    for (struct dt_wire_request *r = w->first; r; r = r->next)
        if (r->ucx)
            ucp_request_free(r->ucx);
    for (int lane = 0; lane < LANES; lane++)
        if (w->worker[lane])
            ucp_worker_destroy(w->worker[lane]);
    /* Behind the workers, which may still have called back. */
    for (struct dt_wire_request *r = w->first, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    if (w->context)
        ucp_cleanup(w->context);
    for (int i = 0; i < w->size; i++)
        free(w->peers[i]);
    free(w->peers);
    free(w);
}

/* UCX 1.13 ends the process on assertions of its own when an endpoint is closed while another of
 * the worker, or the same at its other end, is failing. What is never moved again does no harm. */
static void wire_abandon(struct dt_wire *w)
{
    for (struct dt_wire_request *r = w->first; r; r = r->next)
        if (r->receives && r->ucx && !r->done)
            ucp_request_cancel(w->worker[0], r->ucx);
}

DT_PLUGIN_EXPORT const struct dt_wire_ops dt_plugin = {
    .head = {DT_WIRE_ABI, sizeof(struct dt_wire_ops)},
    .open = wire_open,
    .address = wire_address,
    .connect = wire_connect,
    .send = wire_send,
    .recv = wire_recv,
    .test = wire_test,
    .progress = wire_progress,
    .broken = wire_broken,
    .wait_fd = wire_wait_fd,
    .flush = wire_flush,
    .close = wire_close,
    .abandon = wire_abandon,
};
