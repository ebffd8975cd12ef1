/* SPDX-License-Identifier: Apache-2.0 */
/* The table of dt_http.so: an HTTP server without a thread or a loop of its own. Who opened it
 * polls one descriptor and gives it turns. */
#ifndef DT_BASE_HTTP_HTTP_H
#define DT_BASE_HTTP_HTTP_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/plugin.h"

struct dt_http;

struct dt_http_answer {
    int status;
    const char *type;  /* of the body */
    const char *allow; /* NULL, or the methods of an Allow header */
    struct dt_buf body;
};

/* Answers one request; no body of a request is looked at. */
typedef void dt_http_answer_fn(void *arg, const char *method, const char *path,
                               struct dt_http_answer *answer);

#define DT_HTTP_ABI 2
struct dt_http_table {
    struct dt_plugin_head head;

    /* Serves on LISTENER, which it owns from then on, failing or not. A connection has PATIENCE for
     * each request, from its beginning or the answer before to the end of the answer. When
     * CONNECTIONS are open and another comes, the one is closed that was answered longest ago. */
    struct dt_http *(*open)(int listener, unsigned connections, dt_ms patience,
                            dt_http_answer_fn *answer, void *arg, struct dt_err *err);
    int (*descriptor)(struct dt_http *h); /* readable: it wants a turn */
    /* Does what there is to do; returns after how long it wants the next turn, or DT_FOREVER. */
    dt_ms (*turn)(struct dt_http *h);
    void (*close)(struct dt_http *h);
};

#endif
