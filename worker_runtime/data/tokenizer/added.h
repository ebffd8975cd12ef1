/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that are looked for in the text itself, before anything else cuts it: of those that begin
 * at the first place where one does, the longest. */
#ifndef DT_TOKENIZER_ADDED_H
#define DT_TOKENIZER_ADDED_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

struct dt_added_token {
    uint32_t id;
    bool eats_before, eats_behind; /* white space on that side goes with it */
    bool special;                  /* text where the flow is plain */
};

struct dt_added; /* may be shared by threads once all are in it */

struct dt_added *dt_added_create(struct dt_err *err);
void dt_added_destroy(struct dt_added *a); /* NULL is fine */
/* TEXT is not empty; one that is there already gets this token. */
int dt_added_put(struct dt_added *a, struct dt_bytes text, struct dt_added_token token,
                 struct dt_err *err);
bool dt_added_is_empty(const struct dt_added *a);
/* The token with that id; NULL: it is none of these. */
const struct dt_added_token *dt_added_find(const struct dt_added *a, uint32_t id);

/* TEXT without the white space, as added tokens eat it, at its start or end. */
struct dt_bytes dt_added_trim_start(struct dt_bytes text);
struct dt_bytes dt_added_trim_end(struct dt_bytes text);

#endif
