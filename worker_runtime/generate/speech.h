/* SPDX-License-Identifier: Apache-2.0 */
/* Text that is shown while it comes. Only whole characters are; what may become a stop waits; and
 * for a person's terminal, what would steer it is made visible, as a model may have been taught to
 * say anything. Writes nothing itself. */
#ifndef DT_WORKER_RUNTIME_GENERATE_SPEECH_H
#define DT_WORKER_RUNTIME_GENERATE_SPEECH_H

#include "worker_runtime/data/tokenizer/lossy.h"
#include "worker_runtime/generate/stops.h"

struct dt_speech { /* with .stops and .visible set and the rest zeroed: at the beginning */
    struct dt_stops stops;
    bool visible;
    struct dt_lossy utf8;
    struct dt_buf waiting;
    bool stopped; /* a stop has come: nothing is said any more */
};

void dt_speech_finish(struct dt_speech *s);

/* Appends to OUT what PART brings of text to show; END: nothing follows. */
void dt_speech_put(struct dt_speech *s, struct dt_bytes part, bool end, struct dt_buf *out);

#endif
