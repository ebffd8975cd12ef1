/* SPDX-License-Identifier: Apache-2.0 */
/* dt_http.so: libmicrohttpd, driven through its epoll descriptor. */
#include "agent/watch/http.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_MEMORY ((size_t)16 << 10) /* of one connection, its headers among it */

struct dt_http {
    struct MHD_Daemon *daemon;
    dt_http_answer_fn *answer;
    void *arg;
};

static struct MHD_Response *response_of(struct dt_http_answer *a)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(a->body.len, a->body.at, MHD_RESPMEM_MUST_COPY);
    if (!r)
        return NULL;
    if (a->type)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
    if (a->allow)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, a->allow);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    return r;
}

static enum MHD_Result give_answer(struct dt_http *h, struct MHD_Connection *c, const char *method,
                                   const char *url)
{
    struct dt_http_answer a = {.status = MHD_HTTP_INTERNAL_SERVER_ERROR};
    h->answer(h->arg, method, url, &a);
    struct MHD_Response *r = a.body.bad ? NULL : response_of(&a);
    dt_buf_finish(&a.body);
    if (!r)
        return MHD_NO; /* no memory: the connection is closed */
    enum MHD_Result rc = MHD_queue_response(c, (unsigned)a.status, r);
    MHD_destroy_response(r);
    return rc;
}

/* Called once for the headers, again for each piece of a body, and once for the end. Who answers
 * the headers ends the connection, which is right for those who would upload and no one else. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **request)
{
    (void)version, (void)upload;
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    bool is_first = *request == NULL;
    *request = arg;
    if (reads && (is_first || *upload_size)) {
        *upload_size = 0;
        return MHD_YES;
    }
    return give_answer(arg, c, method, url);
}

static struct dt_http *open_server(int listener, unsigned connections, unsigned timeout,
                                   dt_http_answer_fn *answer, void *arg, struct dt_err *err)
{
    struct dt_http *h = calloc(1, sizeof *h);
    if (!h) {
        close(listener);
        dt_err_set(err, DT_E_MEMORY, "no memory for an HTTP server");
        return NULL;
    }
    h->answer = answer;
    h->arg = arg;
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT, timeout,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, REQUEST_MEMORY, MHD_OPTION_END);
    if (h->daemon)
        return h;
    close(listener);
    free(h);
    dt_err_set(err, DT_E_RUNTIME, "libmicrohttpd does not start");
    return NULL;
}

static int descriptor(struct dt_http *h)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}

static unsigned count_connections(struct dt_http *h)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? info->num_connections : 0;
}

/* Full, or out of descriptors, the library takes the listener out of its epoll set, and it puts it
 * back at the turn after the one in which somebody left: nothing else would ask for that turn. */
static dt_ms turn(struct dt_http *h)
{
    MHD_UNSIGNED_LONG_LONG wait;
    unsigned before = count_connections(h);
    MHD_run(h->daemon);
    if (count_connections(h) < before)
        return 0;
    return MHD_get_timeout(h->daemon, &wait) == MHD_YES && wait < INT32_MAX ? (dt_ms)wait
                                                                            : DT_FOREVER;
}

static void close_server(struct dt_http *h)
{
    MHD_stop_daemon(h->daemon);
    free(h);
}

extern const struct dt_http_table dt_plugin;
DT_PLUGIN_EXPORT const struct dt_http_table dt_plugin = {
    .head = {.abi = DT_HTTP_ABI, .size = sizeof(struct dt_http_table)},
    .open = open_server,
    .descriptor = descriptor,
    .turn = turn,
    .close = close_server,
};
