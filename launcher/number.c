/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Longer than any number worth writing. */
#define DIGITS_MAX 64

/* TEXT without white space around and underscores between digits, or -1. */
static int normalise(const char *text, char out[DIGITS_MAX])
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text), n = 0;
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    if (len == 0 || len >= DIGITS_MAX)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '_')
            out[n++] = text[i];
        else if (i == 0 || i + 1 == len || !isdigit((unsigned char)text[i - 1]) ||
                 !isdigit((unsigned char)text[i + 1]))
            return -1;
    }
    out[n] = '\0';
    return 0;
}

int dt_number_int(const char *text, int64_t *out, struct dt_err *err)
{
    char digits[DIGITS_MAX], *end = NULL;
    errno = 0;
    long long v = normalise(text, digits) == 0 ? strtoll(digits, &end, 10) : 0;
    if (!end || end == digits || *end != '\0' || errno || isspace((unsigned char)digits[0]))
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is not a whole number", text);
    *out = v;
    return 0;
}

/* strtod() takes more than Python does: hexadecimal, "nan(...)". */
static bool is_decimal(const char *s)
{
    s += strspn(s, "+-");
    if (isdigit((unsigned char)*s) || *s == '.')
        return strpbrk(s, "xXpP") == NULL;
    return strchr(s, '(') == NULL;
}

int dt_number_float(const char *text, double *out, struct dt_err *err)
{
    char digits[DIGITS_MAX], *end = NULL;
    bool fits = normalise(text, digits) == 0 && is_decimal(digits);
    double v = fits ? strtod(digits, &end) : 0;
    if (!end || end == digits || *end != '\0')
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is not a number", text);
    *out = v;
    return 0;
}
