/* SPDX-License-Identifier: Apache-2.0 */
/* A text of what was called, one after the other: "world 0; stop: node2 came". */
#ifndef DT_TESTS_AGENT_NOTES_H
#define DT_TESTS_AGENT_NOTES_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static inline void notes_add(char *text, size_t size,
                                                                   const char *fmt, va_list ap)
{
    size_t len = strlen(text);
    if (len + 2 >= size)
        return; /* it is full */
    if (len)
        len += (size_t)snprintf(text + len, size - len, "; ");
    vsnprintf(text + len, size - len, fmt, ap);
}

#endif
