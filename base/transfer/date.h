/* SPDX-License-Identifier: Apache-2.0 */
/* Points in time as servers of objects write them. Seconds since 1970, UTC, whatever the locale.
 * Pure. */
#ifndef DT_BASE_TRANSFER_DATE_H
#define DT_BASE_TRANSFER_DATE_H

#include <stdbool.h>
#include <stdint.h>

/* "Sun, 06 Nov 1994 08:49:37 GMT", as the headers of HTTP have it. */
bool dt_date_of_http(const char *text, int64_t *seconds);

/* "2026-11-23T02:48:00Z", with or without a fraction, which is cut off. */
bool dt_date_of_iso(const char *text, int64_t *seconds);

/* "20261123T024800Z"; its first eight characters are the day. */
#define DT_DATE_STAMP 17
void dt_date_stamp(int64_t seconds, char out[DT_DATE_STAMP]);

#endif
