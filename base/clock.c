/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

int64_t dt_clock_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

dt_ms dt_clock_monotonic(void)
{
    return dt_clock_monotonic_ns() / 1000000;
}

int64_t dt_clock_wall_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

dt_ms dt_clock_after(dt_ms now, dt_ms wait)
{
    return wait > DT_FOREVER - now ? DT_FOREVER : now + wait;
}

int dt_clock_seconds(dt_ms duration)
{
    if (duration <= 0)
        return 0;
    return duration < INT_MAX * DT_SECOND ? (int)((duration + DT_SECOND / 2) / DT_SECOND) : INT_MAX;
}

void dt_clock_format(int64_t wall_us, char out[DT_CLOCK_TEXT])
{
    time_t sec = (time_t)(wall_us / 1000000);
    struct tm tm;
    gmtime_r(&sec, &tm);
    size_t n = strftime(out, DT_CLOCK_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, DT_CLOCK_TEXT - n, ".%06uZ", (unsigned)(wall_us % 1000000) % 1000000u);
}

void dt_clock_format_seconds(int64_t wall_s, char out[DT_CLOCK_TEXT])
{
    time_t sec = (time_t)wall_s;
    struct tm tm;
    if (!gmtime_r(&sec, &tm) || strftime(out, DT_CLOCK_TEXT, "%Y-%m-%d %H:%M:%SZ", &tm) == 0)
        snprintf(out, DT_CLOCK_TEXT, "-");
}
