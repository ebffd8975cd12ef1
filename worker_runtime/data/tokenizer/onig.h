/* SPDX-License-Identifier: Apache-2.0 */
/* A regular expression for Oniguruma, with the tables of Unicode 16, as one that PCRE2 (UTF, UCP)
 * matches alike. Pure. */
#ifndef DT_TOKENIZER_ONIG_H
#define DT_TOKENIZER_ONIG_H

#include "base/buf.h"
#include "base/err.h"

/* Appends the pattern for PCRE2 to OUT; -1 and *err with the name of what cannot be translated. */
int dt_onig_translate(const char *pattern, struct dt_buf *out, struct dt_err *err);

#endif
