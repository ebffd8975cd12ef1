/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int dt_str_to_int(const char *s, int64_t min, int64_t max, int64_t *out, struct dt_err *err)
{
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end == s || *end != '\0' || isspace((unsigned char)*s) || errno || v < min || v > max)
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" is not a whole number from %" PRId64 " to %" PRId64, s, min, max);
    *out = v;
    return 0;
}

struct unit {
    const char *name;
    double factor;
};

/* "12.5unit" to 12.5 * factor of the unit; -1 when it is not of that form. */
static int read_with_unit(const char *s, const struct unit *units, double *out)
{
    if (!isdigit((unsigned char)*s) && *s != '.')
        return -1; /* no sign, no space, no "inf" */
    char *end;
    double v = strtod(s, &end);
    if (end == s || !isfinite(v) || memchr(s, 'x', (size_t)(end - s)) ||
        memchr(s, 'X', (size_t)(end - s)))
        return -1;
    while (*end == ' ')
        end++;
    for (const struct unit *u = units; u->name; u++)
        if (strcasecmp(end, u->name) == 0) {
            *out = v * u->factor;
            return 0;
        }
    return -1;
}

static const struct unit size_units[] = {
    {"", 1},         {"b", 1},       {"k", 0x1p10},   {"kb", 0x1p10},  {"kib", 0x1p10},
    {"m", 0x1p20},   {"mb", 0x1p20}, {"mib", 0x1p20}, {"g", 0x1p30},   {"gb", 0x1p30},
    {"gib", 0x1p30}, {"t", 0x1p40},  {"tb", 0x1p40},  {"tib", 0x1p40}, {0},
};

int dt_str_to_size(const char *s, uint64_t min, uint64_t max, uint64_t *out, struct dt_err *err)
{
    char lo[32], hi[32];
    double v;
    if (read_with_unit(s, size_units, &v) < 0)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is not a size; write it as 512, 64K, 8M or 1G",
                          s);
    if (v < (double)min || v > (double)max)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is out of range; give %s to %s", s,
                          dt_str_from_size(min, lo, sizeof lo),
                          dt_str_from_size(max, hi, sizeof hi));
    /* (double)UINT64_MAX rounds up to 2^64, which no uint64_t holds. */
    *out = v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
    return 0;
}

static const struct unit time_units[] = {
    {"", 1e3},     {"s", 1e3},    {"sec", 1e3},   {"ms", 1}, {"m", 60e3},
    {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3}, {0},
};

int dt_str_to_duration(const char *s, dt_ms min, dt_ms max, dt_ms *out, struct dt_err *err)
{
    char lo[32], hi[32];
    double v;
    if (read_with_unit(s, time_units, &v) < 0)
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" is not a duration; write it as 250ms, 1.5s, 5m, 2h or 1d", s);
    if (v < (double)min || v > (double)max)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is out of range; give %s to %s", s,
                          dt_str_from_duration(min, lo, sizeof lo),
                          dt_str_from_duration(max, hi, sizeof hi));
    *out = v >= 0x1p63 ? DT_FOREVER : (dt_ms)v;
    return 0;
}

int dt_str_to_bool(const char *s, bool *out, struct dt_err *err)
{
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false",
                                                                                "off", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcasecmp(s, yes[i]) == 0 || strcasecmp(s, no[i]) == 0) {
            *out = strcasecmp(s, yes[i]) == 0;
            return 0;
        }
    }
    return dt_err_set(err, DT_E_USAGE, "\"%s\" is neither yes nor no", s);
}

/* Prints V in the largest unit it reaches, with one decimal where that says more. */
static const char *in_unit(double v, const struct unit *u, char *out, size_t size)
{
    while (u[1].name && v >= u[1].factor)
        u++;
    double n = v / u->factor;
    snprintf(out, size, n == floor(n) || n >= 100 ? "%.0f %s" : "%.1f %s", n, u->name);
    return out;
}

const char *dt_str_from_size(uint64_t bytes, char *out, size_t size)
{
    static const struct unit shown[] = {{"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                        {"GiB", 0x1p30}, {"TiB", 0x1p40}, {0}};
    return in_unit((double)bytes, shown, out, size);
}

const char *dt_str_from_duration(dt_ms t, char *out, size_t size)
{
    static const struct unit shown[] = {{"ms", 1},     {"s", 1e3},     {"min", 60e3},
                                        {"h", 3600e3}, {"d", 86400e3}, {0}};
    return in_unit((double)t, t == 0 ? shown + 1 : shown, out, size);
}

const char *dt_str_printable(struct dt_bytes b, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < b.len; i++) {
        if (n + 4 + sizeof "..." > size) { /* the longest form and the sign of a cut must fit */
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        uint8_t c = b.at[i];
        if (c >= 0x20 && c < 0x7f && c != '\\')
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, size - n, "\\x%02x", c);
    }
    out[n] = '\0';
    return out;
}

size_t dt_str_distance(const char *a, const char *b)
{
    size_t row[DT_STR_DISTANCE_MAX + 1], a_len = strlen(a), b_len = strlen(b);
    if (a_len > DT_STR_DISTANCE_MAX || b_len > DT_STR_DISTANCE_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < other ? change : other;
        }
    }
    return row[b_len];
}

size_t dt_str_guess(const char *name)
{
    return 1 + strlen(name) / 3;
}

size_t dt_str_slip(const char *name)
{
    return 1 + strlen(name) / 6;
}

char *dt_str_trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    size_t n = strlen(s);
    while (n && isspace((unsigned char)s[n - 1]))
        s[--n] = '\0';
    return s;
}
