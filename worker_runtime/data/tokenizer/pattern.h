/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of tokenizer.json, by PCRE2. The files are written for Oniguruma with the tables of
 * Unicode 16: what PCRE2 reads in another way is rewritten, and what neither does alike is refused
 * by name. */
#ifndef DT_TOKENIZER_PATTERN_H
#define DT_TOKENIZER_PATTERN_H

#include "base/buf.h"
#include "base/err.h"

/* May be shared by threads. */
struct dt_pattern;

/* TEXT: a regular expression. NULL and *err: it is none, or one that cannot be had here. */
struct dt_pattern *dt_pattern_regex(const char *text, struct dt_err *err);
/* TEXT stands for itself; it is not empty. */
struct dt_pattern *dt_pattern_literal(const char *text, struct dt_err *err);
void dt_pattern_destroy(struct dt_pattern *p); /* NULL is fine */

/* One thread's use of a pattern, which has to outlive it. */
struct dt_matcher;

struct dt_matcher *dt_matcher_create(const struct dt_pattern *p, struct dt_err *err);
void dt_matcher_destroy(struct dt_matcher *m); /* NULL is fine */

enum dt_match {
    DT_MATCH_FOUND,
    DT_MATCH_NONE,   /* from here to the end of what is there nothing matches or begins to */
    DT_MATCH_MORE,   /* what matches from FIRST on may change with what follows */
    DT_MATCH_FAILED, /* *err */
};

/* The first match in TEXT, which is UTF-8, from byte FROM on: bytes FIRST to BEHIND, at least one.
 * END: nothing follows, and the answer is never MORE. */
enum dt_match dt_matcher_find(struct dt_matcher *m, struct dt_bytes text, size_t from, bool end,
                              size_t *first, size_t *behind, struct dt_err *err);

#endif
