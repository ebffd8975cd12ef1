/* SPDX-License-Identifier: Apache-2.0 */
/* dt_http.so: libmicrohttpd, driven through its epoll descriptor. */
#include "base/http/http.h"

#include "base/list.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_MEMORY ((size_t)16 << 10) /* of one connection, its headers among it */
#define ACCEPTED_AT_ONCE 16u              /* the library takes up to ten before we may close one */

struct dt_http {
    struct MHD_Daemon *daemon;
    dt_http_answer_fn *answer;
    void *arg;
    unsigned most;
    dt_ms patience;
    struct dt_list callers; /* the one first that was answered longest ago */
    unsigned count;         /* of callers */
};

/* A connection that we have not ended. */
struct caller {
    struct dt_node in_callers;
    int fd; /* the library's */
    dt_ms since;
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

/* -- callers ---------------------------------------------------------------------------------- */

static void forget(struct dt_http *h, struct caller *c)
{
    if (dt_node_linked(&c->in_callers))
        h->count--;
    dt_list_remove(&c->in_callers);
}

/* The library has no word for this. It sees that the peer has gone, and closes. */
static void end(struct dt_http *h, struct caller *c)
{
    shutdown(c->fd, SHUT_RDWR);
    forget(h, c);
}

static void renew(struct dt_http *h, struct caller *c)
{
    forget(h, c);
    c->since = dt_clock_monotonic();
    dt_list_append(&h->callers, &c->in_callers);
    h->count++;
}

static struct caller *oldest(const struct dt_http *h)
{
    struct dt_node *n = dt_list_first(&h->callers);
    return n ? dt_container_of(n, struct caller, in_callers) : NULL;
}

static void begin(struct dt_http *h, struct MHD_Connection *c, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct caller *caller = info ? calloc(1, sizeof *caller) : NULL;
    *context = caller;
    if (!caller) { /* it would be served without an end */
        if (info)
            shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    caller->fd = info->connect_fd;
    dt_node_init(&caller->in_callers);
    renew(h, caller);
    if (h->count > h->most)
        end(h, oldest(h));
}

static void on_connection(void *arg, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct dt_http *h = arg;
    struct caller *caller = *context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        begin(h, c, context);
    } else if (caller) {
        forget(h, caller);
        free(caller); /* the only free of a caller */
    }
}

static void on_answered(void *arg, struct MHD_Connection *c, void **request,
                        enum MHD_RequestTerminationCode how)
{
    (void)request, (void)how;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct caller *caller = info ? info->socket_context : NULL;
    if (caller && dt_node_linked(&caller->in_callers))
        renew(arg, caller);
}

/* Ends all whose time is over; returns after how long the next one's is. */
static dt_ms end_overdue(struct dt_http *h)
{
    dt_ms now = dt_clock_monotonic();
    struct caller *c;
    while ((c = oldest(h)) && now - c->since >= h->patience)
        end(h, c);
    return c ? c->since + h->patience - now : DT_FOREVER;
}

/* -- the server ------------------------------------------------------------------------------- */

static struct dt_http *open_server(int listener, unsigned connections, dt_ms patience,
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
    h->most = connections;
    h->patience = patience;
    dt_list_init(&h->callers);
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_CONNECTION_LIMIT, connections + ACCEPTED_AT_ONCE, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_answered, h,
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
    dt_ms due = end_overdue(h);
    if (count_connections(h) < before)
        return 0;
    bool has_wish = MHD_get_timeout(h->daemon, &wait) == MHD_YES && wait < INT32_MAX;
    return has_wish && (due == DT_FOREVER || (dt_ms)wait < due) ? (dt_ms)wait : due;
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
