/* SPDX-License-Identifier: Apache-2.0 */
/* dt_httpd.so: libmicrohttpd, driven through its epoll descriptor. */
#include "base/httpd/httpd.h"

#include "base/list.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_MEMORY ((size_t)16 << 10) /* of one connection, its headers among it */
#define PIECE ((size_t)16 << 10)          /* that a body is asked for at once */
#define ACCEPTED_AT_ONCE 16u              /* the library takes up to ten before we may close one */

struct dt_httpd {
    struct MHD_Daemon *daemon;
    dt_httpd_answer_fn *answer;
    void *arg;
    struct dt_httpd_limits limits;
    struct dt_list callers; /* the one first that was answered longest ago */
    unsigned count;         /* of callers */
    struct dt_list streams; /* endless ones, the oldest first */
    unsigned stream_count;
    bool woken; /* a stream was, behind the beginning of the last turn */
};

/* A connection that we have not ended, and that takes no endless body. */
struct caller {
    struct dt_node in_callers;
    int fd; /* the library's */
    dt_ms since;
};

/* A body in pieces, as long as the library has the answer. */
struct dt_httpd_stream {
    struct dt_httpd *http;
    struct dt_httpd_source *source;
    struct MHD_Connection *connection;
    struct dt_node in_streams; /* linked: it is endless */
    int fd;
    struct dt_buf out; /* made, and not taken */
    bool last;         /* nothing comes behind it */
    bool asleep;       /* the library does not look at the connection until it is woken */
    bool ended;        /* by us */
};

static int fd_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static struct caller *caller_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* -- callers ---------------------------------------------------------------------------------- */

static void forget(struct dt_httpd *h, struct caller *c)
{
    if (dt_node_linked(&c->in_callers))
        h->count--;
    dt_list_remove(&c->in_callers);
}

/* The library has no word for this. It sees that the peer has gone, and closes. */
static void end(struct dt_httpd *h, struct caller *c)
{
    shutdown(c->fd, SHUT_RDWR);
    forget(h, c);
}

static void renew(struct dt_httpd *h, struct caller *c)
{
    forget(h, c);
    c->since = dt_clock_monotonic();
    dt_list_append(&h->callers, &c->in_callers);
    h->count++;
}

static struct caller *oldest(const struct dt_httpd *h)
{
    struct dt_node *n = dt_list_first(&h->callers);
    return n ? dt_container_of(n, struct caller, in_callers) : NULL;
}

static void begin(struct dt_httpd *h, struct MHD_Connection *c, void **context)
{
    int fd = fd_of(c);
    struct caller *caller = fd >= 0 ? calloc(1, sizeof *caller) : NULL;
    *context = caller;
    if (!caller) { /* it would be served without an end */
        if (fd >= 0)
            shutdown(fd, SHUT_RDWR);
        return;
    }
    caller->fd = fd;
    dt_node_init(&caller->in_callers);
    renew(h, caller);
    if (h->count > h->limits.connections)
        end(h, oldest(h));
}

static void on_connection(void *arg, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct dt_httpd *h = arg;
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
    struct caller *caller = caller_of(c);
    if (caller && dt_node_linked(&caller->in_callers))
        renew(arg, caller);
}

/* Ends all whose time is over; returns after how long the next one's is. */
static dt_ms end_overdue(struct dt_httpd *h)
{
    dt_ms now = dt_clock_monotonic();
    struct caller *c;
    while ((c = oldest(h)) && now - c->since >= h->limits.patience)
        end(h, c);
    return c ? c->since + h->limits.patience - now : DT_FOREVER;
}

/* -- bodies in pieces ------------------------------------------------------------------------- */

static void forget_stream(struct dt_httpd_stream *s)
{
    if (dt_node_linked(&s->in_streams))
        s->http->stream_count--;
    dt_list_remove(&s->in_streams);
}

static void wake(struct dt_httpd_stream *s)
{
    if (!s->asleep)
        return;
    s->asleep = false;
    s->http->woken = true;
    MHD_resume_connection(s->connection);
}

static void end_stream(struct dt_httpd_stream *s)
{
    s->ended = true;
    shutdown(s->fd, SHUT_RDWR);
    forget_stream(s);
    wake(s);
}

/* Returns whether the library may go on: with what is in S->out, if anything is. */
static bool make_piece(struct dt_httpd_stream *s)
{
    switch (s->source->next(s->source, &s->out)) {
    case DT_HTTPD_MORE:
        return s->out.len > 0 && !s->out.bad;
    case DT_HTTPD_LAST:
        s->last = true;
        return !s->out.bad;
    case DT_HTTPD_LATER:
        return s->source->endless && !s->out.bad;
    case DT_HTTPD_BROKEN:
        break;
    }
    return false;
}

/* The library has room for MOST bytes of the body. */
static ssize_t on_room(void *arg, uint64_t at, char *room, size_t most)
{
    struct dt_httpd_stream *s = arg;
    (void)at;
    if (s->ended || (s->out.len == 0 && !s->last && !make_piece(s)))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (s->out.len == 0 && s->last)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (s->out.len == 0) {
        dt_buf_finish(&s->out); /* who waits keeps no memory */
        s->asleep = true;
        MHD_suspend_connection(s->connection);
        return 0;
    }
    size_t n = s->out.len < most ? s->out.len : most;
    memcpy(room, s->out.at, n);
    dt_buf_consume(&s->out, n);
    return (ssize_t)n;
}

static void on_body_over(void *arg)
{
    struct dt_httpd_stream *s = arg;
    forget_stream(s);
    dt_buf_finish(&s->out);
    s->source->stream = NULL;
    s->source->gone(s->source);
    free(s); /* the only free of a stream */
}

static void keep_streaming(struct dt_httpd *h, struct dt_httpd_stream *s)
{
    struct caller *caller = caller_of(s->connection);
    if (caller)
        forget(h, caller); /* it has all the time it wants */
    dt_list_append(&h->streams, &s->in_streams);
    if (++h->stream_count > h->limits.streams)
        end_stream(dt_container_of(dt_list_first(&h->streams), struct dt_httpd_stream, in_streams));
}

static struct MHD_Response *make_stream(struct dt_httpd *h, struct MHD_Connection *c,
                                        struct dt_httpd_source *source)
{
    struct dt_httpd_stream *s = calloc(1, sizeof *s);
    struct MHD_Response *r =
        s ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE, on_room, s, on_body_over)
          : NULL;
    if (!r) {
        free(s);
        source->gone(source);
        return NULL;
    }
    s->http = h;
    s->source = source;
    s->connection = c;
    s->fd = fd_of(c);
    dt_node_init(&s->in_streams);
    source->stream = s;
    return r;
}

/* -- requests --------------------------------------------------------------------------------- */

struct request {
    struct dt_httpd_request base;
    struct MHD_Connection *connection;
};

static const char *look_up(const struct dt_httpd_request *q, enum MHD_ValueKind kind,
                           const char *name)
{
    const struct request *r = dt_container_of((struct dt_httpd_request *)q, struct request, base);
    return MHD_lookup_connection_value(r->connection, kind, name);
}

static const char *header(const struct dt_httpd_request *q, const char *name)
{
    return look_up(q, MHD_HEADER_KIND, name);
}

static const char *argument(const struct dt_httpd_request *q, const char *name)
{
    return look_up(q, MHD_GET_ARGUMENT_KIND, name);
}

static void add_headers(struct MHD_Response *r, const struct dt_httpd_answer *a)
{
    if (a->type)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
    for (size_t i = 0; i < a->headers_len; i++)
        MHD_add_response_header(r, a->headers[i].name, a->headers[i].value);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
}

static struct MHD_Response *response_of(struct dt_httpd *h, struct MHD_Connection *c,
                                        const struct dt_httpd_answer *a)
{
    if (a->source)
        return make_stream(h, c, a->source);
    if (a->body.bad)
        return NULL;
    return MHD_create_response_from_buffer(a->body.len, a->body.at, MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result give_answer(struct dt_httpd *h, struct MHD_Connection *c, const char *method,
                                   const char *url)
{
    struct request q = {{method, url, header, argument}, c};
    struct dt_httpd_answer a = {.status = MHD_HTTP_INTERNAL_SERVER_ERROR};
    h->answer(h->arg, &q.base, &a);
    struct MHD_Response *r = response_of(h, c, &a);
    dt_buf_finish(&a.body);
    if (!r)
        return MHD_NO; /* no memory: the connection is closed */
    add_headers(r, &a);
    enum MHD_Result rc = MHD_queue_response(c, (unsigned)a.status, r);
    bool streams = rc == MHD_YES && a.source && a.source->endless && strcmp(method, "HEAD") != 0;
    if (streams)
        keep_streaming(h, a.source->stream);
    MHD_destroy_response(r); /* its last holder's calls on_body_over() */
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

/* -- the server ------------------------------------------------------------------------------- */

static struct dt_httpd *open_server(int listener, const struct dt_httpd_limits *limits,
                                    dt_httpd_answer_fn *answer, void *arg, struct dt_err *err)
{
    struct dt_httpd *h = calloc(1, sizeof *h);
    if (!h) {
        close(listener);
        dt_err_set(err, DT_E_MEMORY, "no memory for an HTTP server");
        return NULL;
    }
    h->answer = answer;
    h->arg = arg;
    h->limits = *limits;
    dt_list_init(&h->callers);
    dt_list_init(&h->streams);
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, h,
        MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
        limits->connections + limits->streams + ACCEPTED_AT_ONCE, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_answered, h,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, REQUEST_MEMORY, MHD_OPTION_END);
    if (h->daemon)
        return h;
    close(listener);
    free(h);
    dt_err_set(err, DT_E_RUNTIME, "libmicrohttpd does not start");
    return NULL;
}

static int descriptor(struct dt_httpd *h)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}

static unsigned count_connections(struct dt_httpd *h)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? info->num_connections : 0;
}

/* Full, or out of descriptors, the library takes the listener out of its epoll set, and it puts it
 * back at the turn after the one in which somebody left: nothing else would ask for that turn. Nor
 * would anything after a stream was woken within a turn. */
static dt_ms turn(struct dt_httpd *h)
{
    MHD_UNSIGNED_LONG_LONG wait;
    unsigned before = count_connections(h);
    h->woken = false;
    MHD_run(h->daemon);
    dt_ms due = end_overdue(h);
    if (count_connections(h) < before || h->woken)
        return 0;
    bool has_wish = MHD_get_timeout(h->daemon, &wait) == MHD_YES && wait < INT32_MAX;
    return has_wish && (due == DT_FOREVER || (dt_ms)wait < due) ? (dt_ms)wait : due;
}

/* The library does not stop while a connection is asleep. */
static void close_server(struct dt_httpd *h)
{
    dt_list_each(&h->streams, n) end_stream(dt_container_of(n, struct dt_httpd_stream, in_streams));
    MHD_stop_daemon(h->daemon);
    free(h);
}

extern const struct dt_httpd_table dt_plugin;
DT_PLUGIN_EXPORT const struct dt_httpd_table dt_plugin = {
    .head = {.abi = DT_HTTPD_ABI, .size = sizeof(struct dt_httpd_table)},
    .open = open_server,
    .descriptor = descriptor,
    .turn = turn,
    .wake = wake,
    .close = close_server,
};
