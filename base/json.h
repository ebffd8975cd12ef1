/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, typed, over cJSON. Errors name the path of the value: `workers[3].rank: expected a whole
 * number, found "x"`. A document is bounded before it is parsed. */
#ifndef DT_BASE_JSON_H
#define DT_BASE_JSON_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;

struct dt_json {
    struct cJSON *root;
};

/* NULL root and *err (line and column) when TEXT is no JSON, is followed by more than white space,
 * or is longer than MAX bytes. End it with dt_json_finish(). */
int dt_json_parse(struct dt_json *doc, const char *text, size_t len, size_t max,
                  struct dt_err *err);
void dt_json_finish(struct dt_json *doc);

/* Required members of OBJECT (NULL: the root). Strings stay owned by DOC. */
int dt_json_string(const struct dt_json *doc, const struct cJSON *object, const char *name,
                   const char **out, struct dt_err *err);
int dt_json_int(const struct dt_json *doc, const struct cJSON *object, const char *name,
                int64_t min, int64_t max, int64_t *out, struct dt_err *err);
int dt_json_number(const struct dt_json *doc, const struct cJSON *object, const char *name,
                   double *out, struct dt_err *err);
int dt_json_bool(const struct dt_json *doc, const struct cJSON *object, const char *name, bool *out,
                 struct dt_err *err);
int dt_json_object(const struct dt_json *doc, const struct cJSON *object, const char *name,
                   const struct cJSON **out, struct dt_err *err);
int dt_json_array(const struct dt_json *doc, const struct cJSON *object, const char *name,
                  const struct cJSON **out, struct dt_err *err);

/* The elements of an array in their order; NULL ends them. */
const struct cJSON *dt_json_first(const struct cJSON *array);
const struct cJSON *dt_json_next(const struct cJSON *element);

/* Whether the member is there (and not null): for optional ones ask first. */
bool dt_json_has(const struct cJSON *object, const char *name);

/* Fails on the first member of OBJECT that is not in the NULL-ended list NAMES, naming its path. */
int dt_json_only(const struct dt_json *doc, const struct cJSON *object, const char *const *names,
                 struct dt_err *err);

/* Fails on a name that an object anywhere in DOC has twice, naming its path: cJSON takes both, and
 * finds the first. */
int dt_json_no_duplicates(const struct dt_json *doc, struct dt_err *err);

/* Where NODE stands in DOC: "a.b[2]"; "the document" for the root. */
const char *dt_json_path(const struct dt_json *doc, const struct cJSON *node, char *out,
                         size_t size);

/* Appends TEXT as a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD, so the result is
 * always JSON; what would steer a terminal is escaped, as people look at JSON too. */
void dt_json_quote(struct dt_buf *out, const char *text, size_t len);
/* The same, cut in front of the first character with which it would be read as over MOST bytes. */
void dt_json_quote_most(struct dt_buf *out, const char *text, size_t len, size_t most);

/* VALUE as JSON without white space, for the caller to free; what would steer a terminal is
 * escaped. NULL: no memory. */
char *dt_json_text(const struct cJSON *value);

#endif
