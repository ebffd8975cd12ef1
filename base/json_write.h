/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON into a buffer, member by member: commas, quotes, brackets and line ends are the
 * writer's. Inside an array, and for the outermost value, NAME is NULL. A lack of memory shows as
 * OUT->bad. */
#ifndef DT_BASE_JSON_WRITE_H
#define DT_BASE_JSON_WRITE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum dt_json_style {
    DT_JSON_COMPACT, /* {"a":1,"b":[2,3]} */
    DT_JSON_SPACED,  /* {"a": 1, "b": [2, 3]}, as Python writes it */
};

#define DT_JSON_DEPTH 32

/* Set OUT and STYLE, and zero the rest. */
struct dt_json_writer {
    struct dt_buf *out;
    enum dt_json_style style;
    int lines; /* members down to this depth stand on lines of their own; 0: none does */
    /* The writer's: */
    int depth;
    uint32_t arrays; /* a bit for each depth: an array is open there */
    bool follows;    /* another value stands before the next, at this depth */
};

void dt_json_put_object(struct dt_json_writer *w, const char *name);
void dt_json_put_array(struct dt_json_writer *w, const char *name);
void dt_json_put_end(struct dt_json_writer *w); /* of the innermost object or array */

void dt_json_put_text(struct dt_json_writer *w, const char *name,
                      const char *text); /* NULL: null */
void dt_json_put_int(struct dt_json_writer *w, const char *name, int64_t value);
void dt_json_put_uint(struct dt_json_writer *w, const char *name, uint64_t value);
void dt_json_put_bool(struct dt_json_writer *w, const char *name, bool value);
void dt_json_put_null(struct dt_json_writer *w, const char *name);
/* So that reading gives VALUE again; null where it is not finite, as JSON has no word for that. */
void dt_json_put_number(struct dt_json_writer *w, const char *name, double value);
/* What the format makes is JSON already. */
void dt_json_put_raw(struct dt_json_writer *w, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
