/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP at one address, on a libuv loop: opens dt_httpd.so, listens, and gives the library its
 * turns. All calls belong to the loop's thread. */
#ifndef DT_BASE_HTTPD_SERVICE_H
#define DT_BASE_HTTPD_SERVICE_H

#include "base/addr.h"
#include "base/httpd/httpd.h"

#include <uv.h>

struct dt_httpd_service;

struct dt_httpd_service_config {
    const char *what; /* in sentences: "the health port" */
    struct dt_httpd_limits limits;
    dt_httpd_answer_fn *answer;
    void *arg;
};

/* Serves at AT; where that is every address, of both families. *BOUND (may be NULL): with the port
 * taken for port 0. Fewer connections and streams are taken than the limits say where this process
 * may open only few files. */
struct dt_httpd_service *dt_httpd_service_open(uv_loop_t *loop, const struct dt_addr *at,
                                               const struct dt_httpd_service_config *config,
                                               struct dt_addr *bound, struct dt_err *err);

/* SOURCE, that this service asked for pieces and that said LATER, has one. */
void dt_httpd_service_wake(struct dt_httpd_service *s, struct dt_httpd_source *source);

/* Nothing is answered from here on. */
void dt_httpd_service_close(struct dt_httpd_service *s, void (*on_closed)(void *arg), void *arg);

#endif
