/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/words.h"

#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *dt_words_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

const char *dt_words_time(double seconds, char out[32])
{
    if (seconds > 0 && seconds < 0.9995)
        snprintf(out, 32, seconds < 0.0995 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
    else
        dt_str_from_duration(seconds > 0 && seconds < 1e12 ? llround(seconds * 1e3) : 0, out, 32);
    return out;
}

const char *dt_words_moment(int64_t us, char out[DT_CLOCK_TEXT])
{
    dt_clock_format(us, out);
    out[strcspn(out, ".")] = '\0';
    out[strcspn(out, "T")] = ' ';
    return out;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double dt_words_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return values[count / 2];
}
