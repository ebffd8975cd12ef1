/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a struct as rows of a table: where each lies, and its limits. One table drives both
 * ways, so what is written is what is asked for, with the same limits. A struct goes as the members
 * of a JSON object, over a wire, or as bytes without names, into a journal. Pure.
 *
 * In JSON, numbers of 64 bits go as hexadecimal strings, since a JSON number keeps 53; times are
 * milliseconds. Members that no row names are passed over, so a later version may add some. */
#ifndef DT_RENDEZVOUS_PROTOCOL_FIELDS_H
#define DT_RENDEZVOUS_PROTOCOL_FIELDS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dt_field_kind {
    DT_FIELD_INT,
    DT_FIELD_INT64,
    DT_FIELD_TIME, /* dt_ms; DT_FOREVER is written as DT_FIELD_FOREVER */
    DT_FIELD_BOOL,
    DT_FIELD_HEX64,  /* uint64_t */
    DT_FIELD_BYTES,  /* MAX of them, at most DT_FIELD_BYTES_MAX, in place */
    DT_FIELD_STRING, /* const char *; NULL is written as "" */
    DT_FIELD_TEXT,   /* char[MAX + 1], in place */
    DT_FIELD_ENUM,   /* its values are 0 to MAX - 1 */
    DT_FIELD_OBJECT,
};

#define DT_FIELD_WHOLE_MAX ((int64_t)1 << 53) /* beyond, a double loses ones */
#define DT_FIELD_FOREVER ((int64_t)1 << 52)
#define DT_FIELD_BYTES_MAX 32

struct dt_field {
    const char *name; /* NULL ends a table */
    enum dt_field_kind kind;
    /* Left out where it is 0, false or "", and then read as that; of an OBJECT, where the number in
     * its first row is 0. */
    bool optional;
    size_t at;                            /* in the struct */
    int64_t min, max;                     /* of a number; how many bytes of a string */
    const char *(*value_name)(int value); /* of an ENUM */
    const struct dt_field *fields;        /* of an OBJECT, a struct that lies at AT */
};

/* Of a number, a truth or an ENUM: its value in FROM, and whether that is within the row's limits.
 */
int64_t dt_field_number(const struct dt_field *f, const void *from);
bool dt_field_fits(const struct dt_field *f, const void *from);

/* Whether all rows have the same values in A and B; a text that is NULL is "". No row is an OBJECT.
 */
bool dt_fields_equal(const void *a, const void *b, const struct dt_field *fields);

/* Appends `"name":value` of each row, with a comma in front where the content of OUT does not end
 * in '{'. Strings are cut. A number beyond its limits is a bug: it is reported, and goes as it is.
 */
void dt_fields_put(struct dt_buf *out, const void *from, const struct dt_field *fields);

/* Reads OBJECT (NULL: the root) of DOC into TO, whose strings then are DOC's. -1 and *err with the
 * path of the first member that is missing or wrong. */
int dt_fields_get(const struct dt_json *doc, const struct cJSON *object,
                  const struct dt_field *fields, void *to, struct dt_err *err);

/* Appends the values of the rows: 8 bytes of a number or a truth, a text behind its length. There
 * are no other kinds among them. */
void dt_fields_pack(struct dt_buf *out, const void *from, const struct dt_field *fields);

/* Reads the first COUNT rows into TO, or all if they are fewer; the others, and optional ones that
 * IN ends in front of, become 0, false or "". What is not within its row's limits makes IN bad. */
void dt_fields_unpack(struct dt_reader *in, void *to, const struct dt_field *fields, size_t count);

#endif
