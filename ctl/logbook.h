/* SPDX-License-Identifier: Apache-2.0 */
/* What workers print, as it comes in pages from several nodes, on its way to a terminal: whole
 * lines, each behind the name of its worker, or as an object of JSON. Pieces say which bytes of
 * which stream they hold, so what comes twice is shown once, and what is missing is said. Pure. */
#ifndef DT_CTL_LOGBOOK_H
#define DT_CTL_LOGBOOK_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_LOGBOOK_LINE (64u << 10) /* what is longer is shown in parts */

struct dt_logbook_stream;

/* The owner sets the first block and zeroes the rest; end with dt_logbook_finish(). */
struct dt_logbook {
    bool prefix; /* in front of each line */
    /* {"node":"node0","round":0,"role":"default","rank":3,"stream":"stdout","text":"..."} */
    bool json;
    bool sort; /* lines come with dt_logbook_end(), in the order of ranks; else at once */

    struct dt_logbook_stream *streams; /* by rank, stdout first */
    size_t len, room;
    int64_t round;           /* the latest; only if some page came */
    bool began;              /* a page came */
    struct dt_buf inherited; /* what was said of workers whose output nobody has */
};

/* Takes the page that PAGE is of DOC. Appends lines to OUT, and to NOTES a line for each thing that
 * people are to know beside them. -1 and *err: it makes no sense, or there is no memory. */
int dt_logbook_take(struct dt_logbook *b, const struct dt_json *doc, const struct cJSON *page,
                    struct dt_buf *out, struct dt_buf *notes, struct dt_err *err);

/* No page follows: lines without an end, and with SORT all. */
void dt_logbook_end(struct dt_logbook *b, struct dt_buf *out);

void dt_logbook_finish(struct dt_logbook *b);

#endif
