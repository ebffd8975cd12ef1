/* SPDX-License-Identifier: Apache-2.0 */
/* The part of YAML in which people write settings, as JSON: mappings of keys, each on a line of its
 * own and nested by blanks; scalars, plain or in quotes; lists, as [a, b] or as lines that begin
 * with "- "; {a: b} on one line; comments. All else (anchors, tags, texts of several lines, several
 * documents) is refused with the line in which it stands. Pure.
 *
 * A plain scalar is what YAML 1.1 makes of it, so "no" is false, but that 1e-4 is a number there
 * only with a point in it, and here always. */
#ifndef DT_WORKER_RUNTIME_CONFIG_YAML_H
#define DT_WORKER_RUNTIME_CONFIG_YAML_H

#include "base/json.h"

#define DT_YAML_MAX ((size_t)1 << 20) /* bytes */

/* DOC is an object, an empty one of an empty text. End it with dt_json_finish(); on failure nothing
 * is to be ended, and *err begins with "line N: ". */
int dt_yaml_parse(struct dt_json *doc, const char *text, size_t len, struct dt_err *err);

#endif
