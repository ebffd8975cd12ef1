/* SPDX-License-Identifier: Apache-2.0 */
/* What a look at this host found (--preflight), until a rendezvous hears of it. Each is told once.
 * Pure; zeroed memory has none. */
#ifndef DT_AGENT_BACKEND_ELASTIC_REMARKS_H
#define DT_AGENT_BACKEND_ELASTIC_REMARKS_H

#include "rendezvous/protocol/messages.h"

struct dt_remarks {
    size_t count, told;
    struct {
        bool failed;
        char words[DT_WHY_MAX];
    } at[DT_REMARKS_MOST];
};

void dt_remarks_add(struct dt_remarks *r, bool failed, const char *words);

/* The next one that was not told, into M, whose head and node stay as they are; M is good as long
 * as R is. False: there is none. */
bool dt_remarks_take(struct dt_remarks *r, struct dt_message *m);

#endif
