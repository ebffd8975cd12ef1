/* SPDX-License-Identifier: Apache-2.0 */
/* Long lines on a narrow screen. Pure. */
#ifndef DT_CTL_TOP_WRAP_H
#define DT_CTL_TOP_WRAP_H

#include <stddef.h>

/* How many characters of TEXT, which is not empty, go onto the next row of WIDTH columns: up to the
 * end of its line, else up to the last blank that fits. *NEXT: where the row below begins. */
size_t dt_wrap_row(const char *text, int width, const char **next);

/* How many rows TEXT takes. */
size_t dt_wrap_count(const char *text, int width);

#endif
