/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/date.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

static bool is_day(const struct tm *t)
{
    return t->tm_year >= 70 && t->tm_year < 1000 && t->tm_mon >= 0 && t->tm_mon < 12 &&
           t->tm_mday >= 1 && t->tm_mday <= 31 && t->tm_hour >= 0 && t->tm_hour < 24 &&
           t->tm_min >= 0 && t->tm_min < 60 && t->tm_sec >= 0 && t->tm_sec <= 60;
}

static bool seconds_of(struct tm *t, int64_t *seconds)
{
    t->tm_year -= 1900;
    if (!is_day(t))
        return false;
    *seconds = timegm(t);
    return true;
}

bool dt_date_of_http(const char *text, int64_t *seconds)
{
    struct tm t = {0};
    char month[4];
    int end = 0;
    if (sscanf(text, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT%n", &t.tm_mday, month,
               &t.tm_year, &t.tm_hour, &t.tm_min, &t.tm_sec, &end) != 6 ||
        end == 0)
        return false;
    const char *found = strstr(months, month);
    t.tm_mon = found && (found - months) % 3 == 0 ? (int)(found - months) / 3 : -1;
    return seconds_of(&t, seconds);
}

bool dt_date_of_iso(const char *text, int64_t *seconds)
{
    struct tm t = {0};
    int end = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
               &t.tm_min, &t.tm_sec, &end) != 6)
        return false;
    const char *rest = text + end;
    if (*rest == '.')
        rest += 1 + strspn(rest + 1, "0123456789");
    if (strcmp(rest, "Z") != 0)
        return false;
    t.tm_mon--;
    return seconds_of(&t, seconds);
}

void dt_date_stamp(int64_t seconds, char out[DT_DATE_STAMP])
{
    struct tm t;
    time_t at = (time_t)seconds;
    if (!gmtime_r(&at, &t) || strftime(out, DT_DATE_STAMP, "%Y%m%dT%H%M%SZ", &t) == 0)
        strcpy(out, "19700101T000000Z"); /* a year with five digits */
}
