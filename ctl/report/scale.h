/* SPDX-License-Identifier: Apache-2.0 */
/* Axes: where a value stands between two ends, at which round values there are ticks, and how
 * people write those. Pure. */
#ifndef DT_CTL_REPORT_SCALE_H
#define DT_CTL_REPORT_SCALE_H

#include <stddef.h>

enum dt_scale_kind { DT_SCALE_LINEAR, DT_SCALE_LOG, DT_SCALE_TIME };

#define DT_SCALE_TICKS 16 /* at most */
#define DT_SCALE_LABEL 56

struct dt_scale {
    enum dt_scale_kind kind;
    double low, high; /* low < high */
    double every;     /* from tick to tick; of LOG the factor */
};

/* From a round value at or below LOW to one at or above HIGH, with about TICKS ticks. Ends that are
 * equal, or no numbers, come apart. */
struct dt_scale dt_scale_linear(double low, double high, int ticks);
/* The same by powers of ten; linear where LOW is not above 0. */
struct dt_scale dt_scale_log(double low, double high, int ticks);
/* From 0 to SECONDS exactly, with ticks as clocks have them. */
struct dt_scale dt_scale_time(double seconds, int ticks);

/* 0 at the low end, 1 at the high one; not held inside. NaN stays NaN. */
double dt_scale_place(const struct dt_scale *s, double value);

/* The values of the ticks, rising; returns how many. */
size_t dt_scale_ticks(const struct dt_scale *s, double out[DT_SCALE_TICKS]);

/* "2.5", "15k", "1e-4", "90 s", "1:30 h", with as many digits as tell one tick from the next. */
const char *dt_scale_label(const struct dt_scale *s, double value, char out[DT_SCALE_LABEL]);

#endif
