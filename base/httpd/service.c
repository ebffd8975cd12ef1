/* SPDX-License-Identifier: Apache-2.0 */
#include "base/httpd/service.h"

#include "base/list.h"
#include "base/loop/ending.h"
#include "base/port_owner.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 64
#define FILES_PER_CONNECTION 16 /* that we may have open, for each caller let in */
#define CONNECTIONS_LEAST 4u

struct dt_httpd_service {
    const struct dt_httpd_table *lib;
    struct dt_httpd *http;
    uv_poll_t readable;
    uv_timer_t due;
    uv_idle_t soon; /* the next turn is wanted at once: behind all that others have to do by now */
    struct dt_ending ending;
};

/* -- turns ------------------------------------------------------------------------------------ */

static void take_turn(struct dt_httpd_service *s);

static void on_due(uv_timer_t *t)
{
    take_turn(dt_container_of(t, struct dt_httpd_service, due));
}

/* A timer of no time at all would go off again before the loop looks at anything else. */
static void on_soon(uv_idle_t *i)
{
    take_turn(dt_container_of(i, struct dt_httpd_service, soon));
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    (void)status, (void)events;
    take_turn(dt_container_of(p, struct dt_httpd_service, readable));
}

static void take_turn(struct dt_httpd_service *s)
{
    if (s->ending.begun)
        return;
    dt_ms wait = s->lib->turn(s->http);
    if (s->ending.begun) /* by whoever was asked for an answer */
        return;
    uv_timer_stop(&s->due);
    uv_idle_stop(&s->soon);
    if (wait == 0)
        uv_idle_start(&s->soon, on_soon);
    else if (wait != DT_FOREVER)
        uv_timer_start(&s->due, on_due, (uint64_t)wait, 0);
}

void dt_httpd_service_wake(struct dt_httpd_service *s, struct dt_httpd_source *source)
{
    if (s->ending.begun || !source->stream)
        return;
    s->lib->wake(source->stream);
    uv_idle_start(&s->soon, on_soon);
}

/* -- listening -------------------------------------------------------------------------------- */

/* A socket listening on ADDR, or -1 and errno. */
static int listen_at(const struct dt_addr *addr)
{
    const int on = 1, off = 0;
    int fd = socket(addr->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (addr->sa.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (const struct sockaddr *)&addr->sa, addr->len) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static bool is_everywhere(const struct dt_addr *a)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->sa;
    return a->sa.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

static void make_ipv4(struct dt_addr *a)
{
    in_port_t port = ((const struct sockaddr_in6 *)&a->sa)->sin6_port;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};
    *a = (struct dt_addr){.len = sizeof in};
    memcpy(&a->sa, &in, sizeof in);
}

/* Both families through one socket; a kernel without IPv6 has the other. *ADDR becomes what was
 * tried last. */
static int listen_on(struct dt_addr *addr)
{
    int fd = listen_at(addr);
    if (fd >= 0 || !is_everywhere(addr) || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL))
        return fd;
    make_ipv4(addr);
    return listen_at(addr);
}

static int open_listener(const struct dt_addr *at, const char *what, struct dt_addr *bound,
                         struct dt_err *err)
{
    *bound = *at;
    int fd = listen_on(bound);
    if (fd >= 0) {
        bound->len = sizeof bound->sa;
        getsockname(fd, (struct sockaddr *)&bound->sa, &bound->len);
        return fd;
    }
    if (errno != EADDRINUSE) {
        char text[DT_ADDR_TEXT];
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s at %s", what,
                            dt_addr_text(bound, text, sizeof text));
    }
    char who[300];
    return dt_err_set(err, DT_E_RUNTIME,
                      "%s cannot be opened: %s; stop that or choose another port", what,
                      dt_port_owner_text(bound, who, sizeof who));
}

/* Callers are strangers: they must not leave us without the descriptors for our own work. */
static unsigned within_files(unsigned wanted)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / FILES_PER_CONNECTION >= wanted)
        return wanted;
    unsigned share = (unsigned)(files.rlim_cur / FILES_PER_CONNECTION);
    return share > CONNECTIONS_LEAST ? share : CONNECTIONS_LEAST;
}

/* -- beginning and end ------------------------------------------------------------------------ */

static void service_free(void *service)
{
    struct dt_httpd_service *s = service;
    s->lib->close(s->http);
    free(s); /* the only free of one that was served */
}

static int serve(struct dt_httpd_service *s, uv_loop_t *loop, const struct dt_addr *at,
                 const struct dt_httpd_service_config *config, struct dt_addr *bound,
                 struct dt_err *err)
{
    s->lib = dt_plugin_open("base/httpd", DT_HTTPD_ABI, sizeof *s->lib, err);
    if (!s->lib)
        return dt_err_wrap(err, "%s takes libmicrohttpd", config->what);
    int listener = open_listener(at, config->what, bound, err);
    if (listener < 0)
        return -1;
    struct dt_httpd_limits limits = config->limits;
    limits.connections = within_files(limits.connections);
    limits.streams = within_files(limits.streams);
    s->http = s->lib->open(listener, &limits, config->answer, config->arg, err);
    if (!s->http)
        return -1;
    int rc = uv_poll_init(loop, &s->readable, s->lib->descriptor(s->http));
    if (rc < 0) {
        s->lib->close(s->http);
        return dt_err_set(err, DT_E_RUNTIME, "cannot watch %s: %s", config->what, uv_strerror(rc));
    }
    uv_timer_init(loop, &s->due);
    uv_idle_init(loop, &s->soon);
    uv_poll_start(&s->readable, UV_READABLE, on_readable);
    return 0;
}

struct dt_httpd_service *dt_httpd_service_open(uv_loop_t *loop, const struct dt_addr *at,
                                               const struct dt_httpd_service_config *config,
                                               struct dt_addr *bound, struct dt_err *err)
{
    struct dt_addr where;
    struct dt_httpd_service *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for %s", config->what);
        return NULL;
    }
    if (serve(s, loop, at, config, bound ? bound : &where, err) == 0)
        return s;
    free(s);
    return NULL;
}

void dt_httpd_service_close(struct dt_httpd_service *s, void (*on_closed)(void *arg), void *arg)
{
    if (s->ending.begun)
        return;
    dt_ending_begin(&s->ending, service_free, s, on_closed, arg);
    dt_ending_close(&s->ending, &s->readable);
    dt_ending_close(&s->ending, &s->due);
    dt_ending_close(&s->ending, &s->soon);
}
