/* SPDX-License-Identifier: Apache-2.0 */
/* Between the agent and its helper: packets over a socket pair, both of one program. When one of
 * the two is gone the other ends. */
#ifndef DT_AGENT_UPLOAD_WIRE_H
#define DT_AGENT_UPLOAD_WIRE_H

#include "base/clock.h"

#include <stdbool.h>

enum dt_upload_order_kind {
    DT_UPLOAD_FIRST, /* VALUE: whether this node is the one that uploads what all nodes see */
    DT_UPLOAD_END,   /* the workers are gone: upload what is left, for VALUE milliseconds at most */
};

struct dt_upload_order {
    enum dt_upload_order_kind kind;
    bool cut_off; /* of END: workers failed or were killed, maybe in the middle of a file */
    dt_ms value;
};

/* A line of the log, and how far uploads are. */
struct dt_upload_news {
    int level;         /* an enum dt_log_level */
    dt_ms waits_since; /* the oldest of what is complete and not uploaded has; 0: nothing waits */
    char text[1000];   /* "": there is no line */
};

#endif
