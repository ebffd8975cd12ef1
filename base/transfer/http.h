/* SPDX-License-Identifier: Apache-2.0 */
/* One request of HTTP and its answer: what dt_curl.so does with libcurl, and what is read of it.
 * The library is opened when something is to go to a server, so that nobody else pays for it. */
#ifndef DT_BASE_TRANSFER_HTTP_H
#define DT_BASE_TRANSFER_HTTP_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/plugin.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a request ended, as far as a retry depends on it. */
enum dt_http_end {
    DT_HTTP_ANSWERED,
    DT_HTTP_UNREACHED, /* no such name, nobody listens there, no route, no proxy */
    DT_HTTP_LOST,      /* the connection broke, or moved nothing for too long */
    DT_HTTP_UNTRUSTED, /* the certificate, or TLS altogether */
    DT_HTTP_STOPPED,   /* the caller's flag */
    DT_HTTP_REFUSED,   /* .take() did not want the bytes, or the answer is too large */
    DT_HTTP_LOCAL,     /* no memory, or the request itself cannot be */
};

/* Bytes of an answer's headers; more of them end the request. */
#define DT_HTTP_HEADERS ((size_t)32 << 10)
/* Bytes of the body of an error; what is behind them is passed over. */
#define DT_HTTP_COMPLAINT ((size_t)64 << 10)

struct dt_http_answer {
    int status;            /* 200 */
    struct dt_buf headers; /* "Name: value\n" each; of the last answer, not of "100 Continue" */
    struct dt_buf body;
    char why[256]; /* a sentence about an end that is no answer */
};

void dt_http_answer_finish(struct dt_http_answer *a);

/* The value of the header NAME, whatever its case, without blanks around it; "" if it is missing,
 * too long, or has control characters. */
const char *dt_http_header(const struct dt_http_answer *a, const char *name, char *out,
                           size_t size);
/* The same as a number; -1 if it is none. */
int64_t dt_http_header_number(const struct dt_http_answer *a, const char *name);

struct dt_http_request {
    const char *method;         /* GET, HEAD, PUT, POST, DELETE */
    const char *url;            /* sent as it is */
    const char *const *headers; /* "Name: value"; NULL ends them */
    struct dt_bytes body;       /* of PUT and POST */
    size_t body_max;            /* an answer with more is refused; without .take */
    /* Gets the body of an answer of 2xx, piece by piece, instead of the answer. Not 0: no more. */
    int (*take)(void *arg, const struct dt_http_answer *a, struct dt_bytes piece);
    /* How much of the body has been sent so far; NULL: nobody asks. */
    void (*on_sent)(void *arg, uint64_t sent);
    void *arg;
    const char *ca_file;     /* NULL: libcurl's */
    uint64_t bandwidth;      /* bytes a second, each way; 0: no limit. What is sent at the same time
                              * by the same connections shares it */
    dt_ms connect_patience;  /* for a connection; 0: libcurl's, minutes */
    dt_ms patience;          /* while nothing moves; whole seconds */
    bool no_proxy;           /* whatever the environment says */
    const atomic_bool *stop; /* NULL: nobody does */
};

/* One that is under way: the caller's memory, which stays where it is until it is over. */
struct dt_http_exchange {
    struct dt_http_request request;
    struct dt_http_answer answer; /* zeroed, or an old one, whose memory is used again */
    enum dt_http_end end;         /* once it is over */
    void *inner;                  /* dt_curl.so's */
};

enum dt_digest { DT_SHA256, DT_MD5 };
#define DT_SHA256_SIZE 32
#define DT_MD5_SIZE 16

/* The table of dt_curl.so. Digests are in it, as they are in a library that libcurl brings. All
 * may be called from any thread, those of one open() from one at a time, but for wake(). */
#define DT_CURL_ABI 2
struct dt_curl_table {
    struct dt_plugin_head head;
    int (*start)(void);  /* before anything else, as often as one likes */
    void *(*open)(void); /* keeps connections for the requests that follow; NULL: no memory */
    void (*close)(void *connections); /* nothing is under way */

    /* One request, from its beginning to its end. Fills ANSWER, a zeroed one or an old one, whose
     * memory is used again. Nothing else is under way. */
    enum dt_http_end (*exchange)(void *connections, const struct dt_http_request *request,
                                 struct dt_http_answer *answer);

    /* Several at once: each gets a connection of its own. -1: no memory. */
    int (*begin)(void *connections, struct dt_http_exchange *x);
    /* Moves what is under way. One that is over; NULL: none is yet, and TIMEOUT has passed, or
     * something has moved, or somebody called wake(). */
    struct dt_http_exchange *(*wait)(void *connections, dt_ms timeout);
    void (*wake)(void *connections); /* from any thread */
    void (*call_off)(void *connections, struct dt_http_exchange *x);

    int (*digest)(enum dt_digest kind, struct dt_bytes text, uint8_t *out); /* -1: cannot be had */
    int (*hmac_sha256)(struct dt_bytes key, struct dt_bytes text, uint8_t out[DT_SHA256_SIZE]);
};

/* Good until the process ends. NULL and *err. */
const struct dt_curl_table *dt_http_open(struct dt_err *err);

#endif
