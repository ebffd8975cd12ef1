/* SPDX-License-Identifier: Apache-2.0 */
/* The little that every user of libuv here needs. This folder is a library of its own, since what
 * workers link stands on base without libuv. */
#ifndef DT_BASE_LOOP_UVX_H
#define DT_BASE_LOOP_UVX_H

#include "base/addr.h"
#include "base/err.h"

#include <uv.h>

/* One stream, whichever kind of socket is under it. */
union dt_uvx_stream {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

/* As dt_err_set(), with ": " and libuv's words for STATUS behind the message. */
int dt_uvx_err(struct dt_err *err, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prepares S for a socket of that address family. Cannot fail for families that dt_addr knows. */
void dt_uvx_stream_init(uv_loop_t *loop, union dt_uvx_stream *s, int family);

/* Binds and listens; a unix path left by a daemon that is no longer there is taken over. S must be
 * initialised and is to be closed by the caller also on failure. */
int dt_uvx_listen(union dt_uvx_stream *s, const struct dt_addr *addr,
                  uv_connection_cb on_connection, struct dt_err *err);

/* The same for a socket that listens already, as handed over by systemd. */
int dt_uvx_listen_fd(union dt_uvx_stream *s, int fd, uv_connection_cb on_connection,
                     struct dt_err *err);

/* Where S is bound, or who is at its other end. -1 when the kernel does not say. */
int dt_uvx_local(const union dt_uvx_stream *s, struct dt_addr *out);
int dt_uvx_remote(const union dt_uvx_stream *s, struct dt_addr *out);
/* The user who connected over a unix socket; -1: it is none, or the kernel does not say. */
int64_t dt_uvx_remote_user(const union dt_uvx_stream *s);

#endif
