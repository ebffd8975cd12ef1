/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Puts BEHIND behind the formatted text. */
__attribute__((format(printf, 2, 0))) static void fill(struct dt_err *err, const char *fmt,
                                                       va_list ap, const char *behind)
{
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    size_t used = strlen(err->text);
    if (behind)
        snprintf(err->text + used, sizeof err->text - used, ": %s", behind);
}

int dt_err_set(struct dt_err *err, enum dt_err_code code, const char *fmt, ...)
{
    if (!err)
        return -1;
    err->code = code;
    va_list ap;
    va_start(ap, fmt);
    fill(err, fmt, ap, NULL);
    va_end(ap);
    return -1;
}

int dt_err_errno(struct dt_err *err, enum dt_err_code code, int errnum, const char *fmt, ...)
{
    if (!err)
        return -1;
    err->code = code;
    va_list ap;
    va_start(ap, fmt);
    fill(err, fmt, ap, strerror(errnum));
    va_end(ap);
    return -1;
}

int dt_err_wrap(struct dt_err *err, const char *fmt, ...)
{
    if (!err)
        return -1;
    char inner[sizeof err->text];
    memcpy(inner, err->text, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    fill(err, fmt, ap, inner);
    va_end(ap);
    return -1;
}

int dt_err_exit_status(const struct dt_err *err)
{
    return err->code == DT_E_USAGE ? 2 : 1;
}
