/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/since.h"

#include "base/str.h"

#include <string.h>
#include <time.h>

#define NUMBER_MOST ((int64_t)1 << 53) /* a number of JSON keeps so many */
#define AGO_MOST (DT_SECOND * 3600 * 24 * 365 * 100)

static int read_number(const char *text, struct dt_ctl_since *out, struct dt_err *err)
{
    return dt_str_to_int(text, 1, NUMBER_MOST, &out->number, err);
}

/* False: TEXT is no moment. */
static bool read_moment(const char *text, struct dt_ctl_since *out)
{
    static const char *const shapes[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S",
                                         "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *end = strptime(text, shapes[i], &tm);
        bool utc = end && strcmp(end, "Z") == 0;
        if (!end || (*end && !utc))
            continue;
        time_t at = utc ? timegm(&tm) : mktime(&tm);
        out->at_us = at < NUMBER_MOST / 1000000 ? (int64_t)at * 1000000 : NUMBER_MOST;
        return at > 0;
    }
    return false;
}

int dt_ctl_since_read(const char *text, struct dt_ctl_since *out, struct dt_err *err)
{
    *out = (struct dt_ctl_since){0};
    if (*text && strspn(text, "0123456789") == strlen(text))
        return read_number(text, out, err);
    if (read_moment(text, out) || dt_str_to_duration(text, 1, AGO_MOST, &out->ago, NULL) == 0)
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "\"%s\" is no number of an event, and no time; give 120, 10m, "
                      "2026-11-23T07:00 or 2026-11-23T07:00:00Z",
                      text);
}
