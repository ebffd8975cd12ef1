/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef DT_RENDEZVOUS_WEB_INSIDE_H
#define DT_RENDEZVOUS_WEB_INSIDE_H

#include "base/httpd/service.h"
#include "rendezvous/web/curves.h"
#include "rendezvous/web/raised.h"
#include "rendezvous/web/web.h"

/* What is shown. The server is NULL once it is about to end. */
struct dt_web_view {
    const char *host;
    const struct dt_rdzv_server *server;
    const struct dt_store_server *store;
    int64_t started_us; /* since 1970 */
    const struct dt_web_curves *curves;
    struct dt_web_raised *raised;
};

/* The body of /status.json: of RUN, or of all where that is "". VIEW outlives it. NULL: no memory.
 */
struct dt_httpd_source *dt_web_document_create(const struct dt_web_view *view, const char *run);

#endif
