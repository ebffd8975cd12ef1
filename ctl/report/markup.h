/* SPDX-License-Identifier: Apache-2.0 */
/* Text and numbers as HTML and SVG that is well-formed XML too. Whatever came from a file goes
 * through dt_markup_text(). Pure. */
#ifndef DT_CTL_REPORT_MARKUP_H
#define DT_CTL_REPORT_MARKUP_H

#include "base/buf.h"

/* TEXT between tags, or in an attribute's quotes: & < > " ' become entities, and what steers a
 * terminal or a line's direction, or is no character, is shown as \x1b. NULL is "". More than MOST
 * bytes are cut, not inside a character, and end in an ellipsis. */
void dt_markup_text(struct dt_buf *out, const char *text, size_t most);

/* "1.25", with DIGITS behind the point at most; zeros at the end are left out. What is not finite
 * is 0. */
void dt_markup_number(struct dt_buf *out, double v, int digits);

#endif
