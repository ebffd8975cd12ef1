/* SPDX-License-Identifier: Apache-2.0 */
/* The table of dt_httpd.so: an HTTP server without a thread or a loop of its own. Whoever opened it
 * polls one descriptor and gives it turns, which service.h does. An answer is whole, or its body is
 * made while the client takes it, so that a client that takes nothing costs no memory. */
#ifndef DT_BASE_HTTPD_HTTPD_H
#define DT_BASE_HTTPD_HTTPD_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/plugin.h"

#include <stdbool.h>
#include <stddef.h>

struct dt_httpd;
struct dt_httpd_stream;

/* One request, while it is answered; its texts are the server's. No body of a request is looked at.
 */
struct dt_httpd_request {
    const char *method, *path;
    /* The value of a header, or of an argument behind the path's "?"; NULL: there is none. */
    const char *(*header)(const struct dt_httpd_request *q, const char *name);
    const char *(*argument)(const struct dt_httpd_request *q, const char *name);
};

enum dt_httpd_piece {
    DT_HTTPD_MORE,  /* was appended, and there is more */
    DT_HTTPD_LAST,  /* the body ends behind what was appended */
    DT_HTTPD_LATER, /* there is nothing yet: wake() asks again. Only of an endless body */
    DT_HTTPD_BROKEN,
};

/* A body in pieces. It belongs to whoever gave it with an answer, until GONE is called for it,
 * once, whatever becomes of the answer. */
struct dt_httpd_source {
    /* Appends the next piece, some 16 KiB at most. The client has taken the one before. */
    enum dt_httpd_piece (*next)(struct dt_httpd_source *s, struct dt_buf *out);
    void (*gone)(struct dt_httpd_source *s);
    bool endless;                   /* the client may take it for as long as it likes */
    struct dt_httpd_stream *stream; /* for wake(); the server's, NULL before it asked for a piece */
};

#define DT_HTTPD_HEADERS 6
struct dt_httpd_answer {
    int status;
    const char *type; /* of the body */
    struct {
        const char *name, *value;
    } headers[DT_HTTPD_HEADERS]; /* good until the answer function returns; further ones */
    size_t headers_len;
    struct dt_buf body;
    struct dt_httpd_source *source; /* NULL, or what makes the body instead */
};

/* Answers one request. */
typedef void dt_httpd_answer_fn(void *arg, const struct dt_httpd_request *q,
                                struct dt_httpd_answer *answer);

/* NAME and VALUE are kept. */
void dt_httpd_answer_header(struct dt_httpd_answer *a, const char *name, const char *value);
/* STATUS, and WHY as the "error" of a JSON object. */
void dt_httpd_answer_refuse(struct dt_httpd_answer *a, int status, const char *why);
/* Whether Q only reads, with GET or HEAD; else it is refused. */
bool dt_httpd_answer_reads(const struct dt_httpd_request *q, struct dt_httpd_answer *a);

/* How much clients may take together. */
struct dt_httpd_limits {
    unsigned connections; /* beyond, the one is closed that was answered longest ago */
    unsigned streams;     /* endless answers, beside them; beyond, the oldest one is closed */
    /* A connection has so long for each request, from its beginning or the answer before to the end
     * of the answer, unless that is endless. */
    dt_ms patience;
};

#define DT_HTTPD_ABI 3
struct dt_httpd_table {
    struct dt_plugin_head head;

    /* Serves on LISTENER, which it owns from then on, failing or not. */
    struct dt_httpd *(*open)(int listener, const struct dt_httpd_limits *limits,
                             dt_httpd_answer_fn *answer, void *arg, struct dt_err *err);
    int (*descriptor)(struct dt_httpd *h); /* readable: it wants a turn */
    /* Does what there is to do; returns after how long it wants the next turn, or DT_FOREVER. */
    dt_ms (*turn)(struct dt_httpd *h);
    /* In the next turn, which is wanted at once, the source is asked for a piece if it said LATER.
     */
    void (*wake)(struct dt_httpd_stream *s);
    void (*close)(struct dt_httpd *h);
};

#endif
