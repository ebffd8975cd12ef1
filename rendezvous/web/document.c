/* SPDX-License-Identifier: Apache-2.0 */
/* /status.json in slices: whoever takes it slowly gets what is so by then. */
#include "rendezvous/web/inside.h"

#include "base/list.h"
#include "rendezvous/runs/status.h"

#include <stdio.h>
#include <stdlib.h>

struct document {
    struct dt_httpd_source base;
    const struct dt_web_view *view;
    struct dt_rdzv_status_walk walk;
};

/* What the status page of dtrun-ctl does not have. */
static void end(const struct document *d, struct dt_buf *out)
{
    dt_buf_put_str(out, ",\"alerts\":");
    dt_web_raised_put(d->view->raised, d->walk.run, dt_clock_monotonic(), out);
    if (*d->walk.run) {
        dt_buf_put_str(out, ",\"samples\":");
        dt_curve_put(dt_web_curves_find(d->view->curves, d->walk.run), out);
    }
    dt_buf_put_str(out, "}\n");
}

static enum dt_httpd_piece next(struct dt_httpd_source *s, struct dt_buf *out)
{
    struct document *d = dt_container_of(s, struct document, base);
    if (!d->view->server)
        return DT_HTTPD_BROKEN;
    const struct dt_rdzv_runs *runs = dt_rdzv_server_runs(d->view->server);
    if (dt_rdzv_status_next(runs, d->view->host, &d->walk, out))
        return DT_HTTPD_MORE;
    end(d, out);
    return DT_HTTPD_LAST;
}

static void gone(struct dt_httpd_source *s)
{
    free(dt_container_of(s, struct document, base));
}

struct dt_httpd_source *dt_web_document_create(const struct dt_web_view *view, const char *run)
{
    struct document *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->base = (struct dt_httpd_source){.next = next, .gone = gone};
    d->view = view;
    d->walk.started_us = view->started_us;
    snprintf(d->walk.run, sizeof d->walk.run, "%s", run);
    return &d->base;
}
