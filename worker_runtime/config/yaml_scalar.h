/* SPDX-License-Identifier: Apache-2.0 */
/* What stands on one line of YAML: keys, and scalars, plain or in quotes. Each takes its piece off
 * the front of a line, whose characters are whole UTF-8 without controls, and gives NULL, or what
 * is wrong with it. Pure. */
#ifndef DT_WORKER_RUNTIME_CONFIG_YAML_SCALAR_H
#define DT_WORKER_RUNTIME_CONFIG_YAML_SCALAR_H

#include "base/buf.h"

struct cJSON;

/* A part of a line, which somebody else owns. */
struct dt_yaml_piece {
    const char *at, *end;
};

/* White space in front goes. */
void dt_yaml_skip(struct dt_yaml_piece *p);

/* It begins with a quote. */
const char *dt_yaml_quoted(struct dt_yaml_piece *p, struct dt_buf *text);
/* A key, and the colon behind it. IN_FLOW: between { and }. */
const char *dt_yaml_key(struct dt_yaml_piece *p, struct dt_buf *key, bool in_flow);
/* Without the white space and the comment behind it. */
const char *dt_yaml_plain(struct dt_yaml_piece *p, bool in_flow, struct dt_yaml_piece *plain);

/* The null, flag, number or text that a plain scalar is. NULL: no memory. */
struct cJSON *dt_yaml_resolve(struct dt_yaml_piece plain);

#endif
