/* SPDX-License-Identifier: Apache-2.0 */
/* NULL-ended lists of owned strings, as a plan has them. Such a list is NULL while it is empty. */
#ifndef DT_LAUNCHER_WORDS_H
#define DT_LAUNCHER_WORDS_H

#include "base/err.h"

#include <stddef.h>

/* Appends the formatted text to *WORDS. For lists of a person's size. */
int dt_words_push(char ***words, struct dt_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
size_t dt_words_count(char *const *words);
void dt_words_free(char **words);

#endif
