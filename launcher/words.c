/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int dt_words_push(char ***words, struct dt_err *err, const char *fmt, ...)
{
    size_t n = dt_words_count(*words);
    char **at = realloc(*words, (n + 2) * sizeof *at), *text = NULL;
    if (at)
        *words = at;
    va_list ap;
    va_start(ap, fmt);
    if (at && vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    if (!at)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a list");
    at[n] = text;
    at[n + 1] = NULL;
    return text ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for a list");
}

size_t dt_words_count(char *const *words)
{
    size_t n = 0;
    while (words && words[n])
        n++;
    return n;
}

void dt_words_free(char **words)
{
    for (char **w = words; w && *w; w++)
        free(*w);
    free(words);
}
