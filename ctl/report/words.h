/* SPDX-License-Identifier: Apache-2.0 */
/* Times and counts as people write them on a page. Pure. */
#ifndef DT_CTL_REPORT_WORDS_H
#define DT_CTL_REPORT_WORDS_H

#include "base/clock.h"

#include <stddef.h>
#include <stdint.h>

const char *dt_words_plural(int64_t n); /* "" or "s" */

/* "87.2 ms", "6.5 s", "2.1 h" */
const char *dt_words_time(double seconds, char out[32]);

/* "2026-11-23 00:06:45" */
const char *dt_words_moment(int64_t us, char out[DT_CLOCK_TEXT]);

/* Of COUNT values, which are put into order; COUNT is not 0. */
double dt_words_median(double *values, size_t count);

#endif
