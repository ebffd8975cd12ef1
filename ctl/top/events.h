/* SPDX-License-Identifier: Apache-2.0 */
/* The last events of a rendezvous, as a page of them says. Pure. */
#ifndef DT_CTL_TOP_EVENTS_H
#define DT_CTL_TOP_EVENTS_H

#include "base/err.h"
#include "base/json.h"
#include "rendezvous/protocol/messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_TOP_EVENTS_MAX 4096 /* as many as a rendezvous keeps */

struct dt_top_event {
    char time[16];     /* "07:00:00Z" */
    char weight[8];    /* "info", "warning", "error" */
    char *run, *words; /* RUN "": it is of none */
};

struct dt_top_events {
    struct dt_top_event *at; /* oldest first */
    size_t len;
};

void dt_top_events_finish(struct dt_top_events *e);

/* Appends those of a page. *AFTER: the last that was looked at; *MORE: others are there. */
int dt_top_events_read(struct dt_top_events *e, const struct dt_json *doc, int64_t *after,
                       bool *more, struct dt_err *err);

/* Moves MORE's behind those of E; what is too much leaves at the front. */
void dt_top_events_append(struct dt_top_events *e, struct dt_top_events *more);

#endif
