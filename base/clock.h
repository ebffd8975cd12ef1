/* SPDX-License-Identifier: Apache-2.0 */
/* Time as a value. What decides takes a dt_ms as an argument and never asks a clock, so tests own
 * the time; the shells read it here, once per event. */
#ifndef DT_BASE_CLOCK_H
#define DT_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

typedef int64_t dt_ms; /* milliseconds of the monotonic clock, or a duration */

#define DT_SECOND ((dt_ms)1000)
#define DT_FOREVER INT64_MAX

dt_ms dt_clock_monotonic(void);
int64_t dt_clock_monotonic_ns(void); /* for stamps that order events, also of other processes */
int64_t dt_clock_wall_us(void);      /* since 1970, UTC */

/* NOW + WAIT without overflow; DT_FOREVER stays so. */
dt_ms dt_clock_after(dt_ms now, dt_ms wait);

/* Whole seconds for a sentence, rounded; 0 for what is over, INT_MAX for what never is. */
int dt_clock_seconds(dt_ms duration);

/* "2026-11-21T11:33:12.123456Z" */
#define DT_CLOCK_TEXT 28
void dt_clock_format(int64_t wall_us, char out[DT_CLOCK_TEXT]);
/* The same without fractions, for tables: "2026-11-21 11:33:12Z". */
void dt_clock_format_seconds(int64_t wall_s, char out[DT_CLOCK_TEXT]);

#endif
