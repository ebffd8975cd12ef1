/* SPDX-License-Identifier: Apache-2.0 */
/* What the sources said about options, before any of it is parsed. Inside base/opt only. */
#ifndef DT_BASE_OPT_GIVEN_H
#define DT_BASE_OPT_GIVEN_H

#include "base/opt/opt.h"

#include <stdbool.h>
#include <stddef.h>

struct dt_opt_value {
    const struct dt_opt *opt;
    enum dt_opt_source source;
    char *text;
    char *where; /* "--listen", "DTRUN_LISTEN", "FILE:3: listen": opens an error about it */
};

/* Zeroed memory is an empty one. */
struct dt_opt_given {
    struct dt_opt_value *at;
    size_t len, size;
};

/* Copies TEXT (NULL: a flag that is on) and the formatted place. */
int dt_opt_given_add(struct dt_opt_given *g, const struct dt_opt *opt, enum dt_opt_source source,
                     const char *text, size_t text_len, struct dt_err *err, const char *where, ...)
    __attribute__((format(printf, 7, 8)));
void dt_opt_given_finish(struct dt_opt_given *g);

/* Adds the values of a repeatable option that stand in one text, between spaces or commas. */
int dt_opt_given_add_list(struct dt_opt_given *g, const struct dt_opt *opt,
                          enum dt_opt_source source, const char *list, const char *where,
                          struct dt_err *err);

/* The last value of the strongest source, or NULL. */
const struct dt_opt_value *dt_opt_given_find(const struct dt_opt_given *g,
                                             const struct dt_opt *opt);

/* Parses into OPTIONS what the strongest source of each option says, or its fallback, and notes in
 * RESULT (may be NULL) which it was. */
int dt_opt_given_apply(struct dt_opt_given *g, const struct dt_opt_program *program, void *options,
                       struct dt_opt_result *result, struct dt_err *err);

/* Whether the LEN characters at NAME spell OPT in full; _ and - are alike. */
bool dt_opt_spells(const struct dt_opt *opt, const char *name, size_t len);

/* ", did you mean ...?" with PREFIX and the most similar name, or "". */
const char *dt_opt_suggestion(const struct dt_opt_program *program, const char *name, size_t len,
                              const char *prefix, char *out, size_t size);

/* Reads the lines of a config file. */
int dt_opt_given_read_config(struct dt_opt_given *g, const struct dt_opt_program *program,
                             const char *text, size_t len, const char *file_name,
                             struct dt_err *err);

#endif
