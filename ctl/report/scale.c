/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/scale.h"

#include <math.h>
#include <stdio.h>

#define MINUTE 60.0
#define HOUR 3600.0
#define DAY 86400.0

/* 1, 2 or 5 times a power of ten, at least LEAST. */
static double round_step(double least)
{
    double power = pow(10, floor(log10(least)));
    double part = least / power;
    return power * (part <= 1.0000001 ? 1 : part <= 2.0000001 ? 2 : part <= 5.0000001 ? 5 : 10);
}

struct dt_scale dt_scale_linear(double low, double high, int ticks)
{
    if (!isfinite(low) || !isfinite(high))
        low = 0, high = 1;
    double least = fmax(fabs(low), fabs(high)) * 1e-9;
    if (!(high - low > least)) {
        double room = high != 0 ? fabs(high) * 0.1 : 1;
        low -= room;
        high += room;
    }
    double every = round_step((high - low) / ticks);
    return (struct dt_scale){.kind = DT_SCALE_LINEAR,
                             .low = floor(low / every + 1e-9) * every,
                             .high = ceil(high / every - 1e-9) * every,
                             .every = every};
}

struct dt_scale dt_scale_log(double low, double high, int ticks)
{
    if (!(low > 0) || !isfinite(low) || !isfinite(high) || high <= low)
        return dt_scale_linear(low, high, ticks);
    double first = floor(log10(low) + 1e-9), last = ceil(log10(high) - 1e-9);
    if (last <= first)
        last = first + 1;
    return (struct dt_scale){.kind = DT_SCALE_LOG,
                             .low = pow(10, first),
                             .high = pow(10, last),
                             .every = pow(10, ceil((last - first) / ticks))};
}

struct dt_scale dt_scale_time(double seconds, int ticks)
{
    static const double steps[] = {1,           2,           5,          10,         15,
                                   30,          MINUTE,      2 * MINUTE, 5 * MINUTE, 10 * MINUTE,
                                   15 * MINUTE, 30 * MINUTE, HOUR,       2 * HOUR,   3 * HOUR,
                                   6 * HOUR,    12 * HOUR,   DAY};
    struct dt_scale s = {.kind = DT_SCALE_TIME, .high = seconds > 1e-6 ? seconds : 1};
    double least = s.high / ticks;
    if (!isfinite(s.high))
        least = s.high = 1;
    s.every = least < 1 ? round_step(least) : round_step(least / DAY) * DAY;
    for (size_t i = 0; least >= 1 && i < sizeof steps / sizeof *steps; i++)
        if (steps[i] >= least) {
            s.every = steps[i];
            break;
        }
    return s;
}

double dt_scale_place(const struct dt_scale *s, double value)
{
    if (s->kind == DT_SCALE_LOG)
        return value > 0 ? log(value / s->low) / log(s->high / s->low) : NAN;
    return (value - s->low) / (s->high - s->low);
}

size_t dt_scale_ticks(const struct dt_scale *s, double out[DT_SCALE_TICKS])
{
    double end = s->high + (s->kind == DT_SCALE_LOG ? s->high : s->every) * 1e-6;
    size_t n = 0;
    for (int i = 0; n < DT_SCALE_TICKS; i++) {
        double v = s->kind == DT_SCALE_LOG ? s->low * pow(s->every, i) : s->low + i * s->every;
        if (!(v <= end))
            break;
        out[n++] = fabs(v) < s->every * 1e-6 && s->kind != DT_SCALE_LOG ? 0 : v;
    }
    return n;
}

/* -- words ------------------------------------------------------------------------------------ */

/* Behind the point, so that multiples of EVERY differ. */
static int digits_for(double every)
{
    int digits = (int)-floor(log10(every) + 1e-9);
    return digits < 0 ? 0 : digits > 9 ? 9 : digits;
}

static void put_number(double v, double every, char out[DT_SCALE_LABEL])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    double size = fabs(v);
    if (v == 0)
        every = 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (size >= units[i].unit * 0.9999999 && size < 1e15) {
            snprintf(out, DT_SCALE_LABEL, "%.*f%s", digits_for(every / units[i].unit),
                     v / units[i].unit, units[i].name);
            return;
        }
    if (size != 0 && (every < 0.00099 || size >= 1e15))
        snprintf(out, DT_SCALE_LABEL, "%.3g", v);
    else
        snprintf(out, DT_SCALE_LABEL, "%.*f", digits_for(every), v);
}

/* The unit is that of the largest part that the tick has. */
static void put_time(double v, double every, char out[DT_SCALE_LABEL])
{
    long s = lround(v), d = s / (long)DAY, h = s / (long)HOUR, m = s / (long)MINUTE;
    if (v == 0)
        snprintf(out, DT_SCALE_LABEL, "0");
    else if (every < 1)
        snprintf(out, DT_SCALE_LABEL, "%.*f s", digits_for(every), v);
    else if (s < 60)
        snprintf(out, DT_SCALE_LABEL, "%ld s", s);
    else if (s < 3600 && every >= MINUTE)
        snprintf(out, DT_SCALE_LABEL, "%ld min", m);
    else if (s < 3600)
        snprintf(out, DT_SCALE_LABEL, "%ld:%02ld min", m, s % 60);
    else if (d > 0 && every >= HOUR && h % 24 == 0)
        snprintf(out, DT_SCALE_LABEL, "%ld d", d);
    else if (d > 0 && every >= HOUR)
        snprintf(out, DT_SCALE_LABEL, "%ld d %ld h", d, h % 24);
    else if (every >= HOUR)
        snprintf(out, DT_SCALE_LABEL, "%ld h", h);
    else
        snprintf(out, DT_SCALE_LABEL, "%ld:%02ld h", h, m % 60);
}

const char *dt_scale_label(const struct dt_scale *s, double value, char out[DT_SCALE_LABEL])
{
    if (!isfinite(value) || fabs(value) > 1e18)
        snprintf(out, DT_SCALE_LABEL, "%.3g", value);
    else if (s->kind == DT_SCALE_TIME)
        put_time(value, s->every, out);
    else if (s->kind == DT_SCALE_LOG)
        put_number(value, value, out);
    else
        put_number(value, s->every, out);
    return out;
}
