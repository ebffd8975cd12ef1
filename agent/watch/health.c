/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/health.h"

#include "base/http/http.h"
#include "base/json_write.h"
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

#define CONNECTIONS 64u
#define FILES_PER_CONNECTION 16 /* that we may have open, for each caller let in */
#define CONNECTIONS_LEAST 4u
#define PATIENCE (10 * DT_SECOND)

struct dt_health {
    const struct dt_http_table *lib;
    struct dt_http *http;
    dt_health_state_fn *state;
    void *arg;
    uv_poll_t readable;
    uv_timer_t due;
    struct dt_ending ending;
};

/* -- requests --------------------------------------------------------------------------------- */

static bool is_ours(const char *path)
{
    return strcmp(path, "/healthz") == 0 || strcmp(path, "/health") == 0 || strcmp(path, "/") == 0;
}

static void refuse(struct dt_http_answer *a, int status, const char *why)
{
    a->status = status;
    struct dt_json_writer w = {.out = &a->body};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "error", why);
    dt_json_put_end(&w);
    dt_buf_put_u8(&a->body, '\n');
}

static void answer(void *arg, const char *method, const char *path, struct dt_http_answer *a)
{
    struct dt_health *h = arg;
    a->type = "application/json";
    if (!is_ours(path)) {
        refuse(a, 404, "there is /healthz");
    } else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        a->allow = "GET, HEAD";
        refuse(a, 405, "GET it");
    } else {
        a->status = h->state(h->arg, &a->body) ? 200 : 503;
        dt_buf_put_u8(&a->body, '\n');
    }
}

/* -- the loop --------------------------------------------------------------------------------- */

static void take_turn(struct dt_health *h);

static void on_due(uv_timer_t *t)
{
    take_turn(dt_container_of(t, struct dt_health, due));
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    (void)status, (void)events;
    take_turn(dt_container_of(p, struct dt_health, readable));
}

static void take_turn(struct dt_health *h)
{
    if (h->ending.begun)
        return;
    dt_ms wait = h->lib->turn(h->http);
    if (h->ending.begun) /* by whoever was asked for the state */
        return;
    if (wait == DT_FOREVER)
        uv_timer_stop(&h->due);
    else
        uv_timer_start(&h->due, on_due, (uint64_t)wait, 0);
}

/* -- beginning and end ------------------------------------------------------------------------ */

static struct dt_addr every_address(int family, int port)
{
    struct dt_addr a = {0};
    if (family == AF_INET6) {
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        memcpy(&a.sa, &in6, a.len = sizeof in6);
    } else {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        memcpy(&a.sa, &in, a.len = sizeof in);
    }
    return a;
}

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
    if (bind(fd, (const struct sockaddr *)&addr->sa, addr->len) == 0 &&
        listen(fd, (int)CONNECTIONS) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Both families through one socket; a kernel without IPv6 has the other. */
static int listen_everywhere(int port, struct dt_addr *addr)
{
    *addr = every_address(AF_INET6, port);
    int fd = listen_at(addr);
    if (fd >= 0 || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL))
        return fd;
    *addr = every_address(AF_INET, port);
    return listen_at(addr);
}

static int open_listener(const char *address, int port, struct dt_err *err)
{
    struct dt_addr addr;
    if (address && dt_addr_parse(address, (uint16_t)port, &addr, err) < 0)
        return dt_err_wrap(err, "the address of the health port");
    int fd = address ? listen_at(&addr) : listen_everywhere(port, &addr);
    if (fd >= 0)
        return fd;
    if (errno != EADDRINUSE) {
        char at[DT_ADDR_TEXT];
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open the health port at %s",
                            dt_addr_text(&addr, at, sizeof at));
    }
    char who[300];
    return dt_err_set(err, DT_E_RUNTIME,
                      "the health port cannot be opened: %s; stop that or choose another port",
                      dt_port_owner_text(&addr, who, sizeof who));
}

/* Callers are strangers: they must not leave us without the descriptors for the next workers. */
static unsigned connections(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 ||
        files.rlim_cur / FILES_PER_CONNECTION >= CONNECTIONS)
        return CONNECTIONS;
    unsigned share = (unsigned)(files.rlim_cur / FILES_PER_CONNECTION);
    return share > CONNECTIONS_LEAST ? share : CONNECTIONS_LEAST;
}

static void health_free(void *health)
{
    struct dt_health *h = health;
    h->lib->close(h->http);
    free(h); /* the only free of one that was served */
}

static int serve(struct dt_health *h, uv_loop_t *loop, const char *address, int port,
                 struct dt_err *err)
{
    h->lib = dt_plugin_open("base/http", DT_HTTP_ABI, sizeof *h->lib, err);
    if (!h->lib)
        return dt_err_wrap(err, "the health port takes libmicrohttpd");
    int listener = open_listener(address, port, err);
    if (listener < 0)
        return -1;
    h->http = h->lib->open(listener, connections(), PATIENCE, answer, h, err);
    if (!h->http)
        return -1;
    int rc = uv_poll_init(loop, &h->readable, h->lib->descriptor(h->http));
    if (rc < 0) {
        h->lib->close(h->http);
        return dt_err_set(err, DT_E_RUNTIME, "cannot watch the health port: %s", uv_strerror(rc));
    }
    uv_timer_init(loop, &h->due);
    h->readable.data = h->due.data = h;
    uv_poll_start(&h->readable, UV_READABLE, on_readable);
    return 0;
}

struct dt_health *dt_health_open(uv_loop_t *loop, const char *address, int port,
                                 dt_health_state_fn *state, void *arg, struct dt_err *err)
{
    struct dt_health *h = calloc(1, sizeof *h);
    if (!h) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the health port");
        return NULL;
    }
    h->state = state;
    h->arg = arg;
    if (serve(h, loop, address, port, err) == 0)
        return h;
    free(h);
    return NULL;
}

void dt_health_close(struct dt_health *h, void (*on_closed)(void *arg), void *arg)
{
    if (h->ending.begun)
        return;
    dt_ending_begin(&h->ending, health_free, h, on_closed, arg);
    dt_ending_close(&h->ending, &h->readable);
    dt_ending_close(&h->ending, &h->due);
}
