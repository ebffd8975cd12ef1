/* SPDX-License-Identifier: Apache-2.0 */
/* A rendezvous' status, put together from its pages. */
#ifndef DT_CTL_PAGES_H
#define DT_CTL_PAGES_H

#include "rendezvous/protocol/status.h"
#include "rendezvous/protocol/sync_control.h"

#include <stddef.h>

struct dt_ctl_rows {
    void *at;
    size_t len;
};

struct dt_ctl_pages {
    struct dt_status_server server;
    struct dt_ctl_rows runs;     /* struct dt_status_run */
    struct dt_ctl_rows nodes;    /* struct dt_status_node, sorted by run and name, each once */
    struct dt_ctl_rows excluded; /* struct dt_status_excluded */
    struct dt_ctl_rows history;  /* struct dt_status_past, oldest first; only where it is fetched */
    struct dt_ctl_rows answers;  /* struct dt_message: the strings of all these */
};

/* RUN "": of all. PAGES is to be finished, also after a failure. */
int dt_ctl_pages_fetch(struct dt_sync_control *c, const char *run, struct dt_ctl_pages *pages,
                       struct dt_err *err);
/* All runs, and only the first of their nodes: one page. */
int dt_ctl_pages_fetch_runs(struct dt_sync_control *c, struct dt_ctl_pages *pages,
                            struct dt_err *err);
/* RUN with its rounds that are over, and without nodes. */
int dt_ctl_pages_fetch_history(struct dt_sync_control *c, const char *run,
                               struct dt_ctl_pages *pages, struct dt_err *err);
void dt_ctl_pages_finish(struct dt_ctl_pages *pages);

/* Appends `"NAME":[{...},...]`, with a comma in front where something stands before it; SIZE is
 * a row's. */
void dt_ctl_put_rows(struct dt_buf *out, const char *name, const struct dt_field *fields,
                     const struct dt_ctl_rows *rows, size_t size);

#endif
