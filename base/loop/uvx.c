/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop/uvx.h"

#include "base/auto.h"

#include <errno.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 4096 /* the kernel cuts it to net.core.somaxconn */

int dt_uvx_err(struct dt_err *err, int status, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dt_err_set(err, DT_E_RUNTIME, "%s: %s", text, uv_strerror(status));
}

void dt_uvx_stream_init(uv_loop_t *loop, union dt_uvx_stream *s, int family)
{
    if (family == AF_UNIX)
        uv_pipe_init(loop, &s->pipe, 0);
    else
        uv_tcp_init(loop, &s->tcp);
}

static const char *socket_path(const struct dt_addr *addr)
{
    return ((const struct sockaddr_un *)&addr->sa)->sun_path;
}

/* A socket file nobody answers on is what a killed daemon leaves behind. connect() says the same
 * of a file that is no socket at all; callers have looked at that. */
static void remove_stale_socket(const struct dt_addr *addr)
{
    DT_AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        connect(fd, (const struct sockaddr *)&addr->sa, sizeof(struct sockaddr_un)) < 0 &&
        errno == ECONNREFUSED)
        unlink(socket_path(addr));
}

/* Whether something other than a socket has the path. A symbolic link is not followed: unlink()
 * would remove the link. */
static bool holds_other_file(const struct dt_addr *addr)
{
    struct stat st;
    return addr->sa.ss_family == AF_UNIX && lstat(socket_path(addr), &st) == 0 &&
           !S_ISSOCK(st.st_mode);
}

/* libuv calls a missing folder a lack of permission. */
static bool folder_exists(const struct dt_addr *addr)
{
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    strcpy(path, socket_path(addr));
    return access(dirname(path), F_OK) == 0;
}

static int bind_stream(union dt_uvx_stream *s, const struct dt_addr *addr)
{
    if (s->handle.type == UV_TCP)
        return uv_tcp_bind(&s->tcp, (const struct sockaddr *)&addr->sa, 0);
    remove_stale_socket(addr);
    return uv_pipe_bind(&s->pipe, socket_path(addr));
}

int dt_uvx_listen(union dt_uvx_stream *s, const struct dt_addr *addr,
                  uv_connection_cb on_connection, struct dt_err *err)
{
    char text[DT_ADDR_TEXT];
    if (holds_other_file(addr))
        return dt_err_set(err, DT_E_RUNTIME,
                          "cannot listen on %s: a file that is no socket has that path; remove it "
                          "or choose another path",
                          dt_addr_text(addr, text, sizeof text));
    int rc = bind_stream(s, addr);
    if (rc == 0)
        rc = uv_listen(&s->stream, BACKLOG, on_connection);
    if (rc == UV_EADDRINUSE)
        return dt_err_set(
            err, DT_E_RUNTIME,
            "cannot listen on %s: another program has that address; stop it or choose another port",
            dt_addr_text(addr, text, sizeof text));
    if (rc == UV_EADDRNOTAVAIL)
        return dt_err_set(
            err, DT_E_RUNTIME,
            "cannot listen on %s: this machine has no such address (see `ip address`)",
            dt_addr_text(addr, text, sizeof text));
    if (rc == UV_EACCES && addr->sa.ss_family == AF_UNIX && !folder_exists(addr))
        return dt_err_set(err, DT_E_RUNTIME, "cannot listen on %s: there is no such folder",
                          dt_addr_text(addr, text, sizeof text));
    if (rc < 0)
        return dt_uvx_err(err, rc, "cannot listen on %s", dt_addr_text(addr, text, sizeof text));
    return 0;
}

int dt_uvx_listen_fd(union dt_uvx_stream *s, int fd, uv_connection_cb on_connection,
                     struct dt_err *err)
{
    int rc = s->handle.type == UV_TCP ? uv_tcp_open(&s->tcp, fd) : uv_pipe_open(&s->pipe, fd);
    if (rc == 0)
        rc = uv_listen(&s->stream, BACKLOG, on_connection);
    return rc < 0 ? dt_uvx_err(err, rc, "cannot listen on inherited descriptor %d", fd) : 0;
}

typedef int name_fn(int, struct sockaddr *restrict, socklen_t *restrict);

static int ask_name(name_fn *ask, const union dt_uvx_stream *s, struct dt_addr *out)
{
    uv_os_fd_t fd;
    *out = (struct dt_addr){.len = sizeof out->sa};
    return uv_fileno(&s->handle, &fd) < 0 ? -1 : ask(fd, (struct sockaddr *)&out->sa, &out->len);
}

int dt_uvx_local(const union dt_uvx_stream *s, struct dt_addr *out)
{
    return ask_name(getsockname, s, out);
}

int dt_uvx_remote(const union dt_uvx_stream *s, struct dt_addr *out)
{
    return ask_name(getpeername, s, out);
}

int64_t dt_uvx_remote_user(const union dt_uvx_stream *s)
{
    uv_os_fd_t fd;
    struct ucred who;
    socklen_t len = sizeof who;
    if (s->handle.type != UV_NAMED_PIPE || uv_fileno(&s->handle, &fd) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
        return -1;
    return who.uid;
}
