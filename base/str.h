/* SPDX-License-Identifier: Apache-2.0 */
/* Text from people to numbers, sizes and durations, strictly: the whole text must make sense, and
 * the error says what would. Pure. */
#ifndef DT_BASE_STR_H
#define DT_BASE_STR_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A macro's number as a literal: for strings put together at compile time. */
#define DT_STR_OF(number) DT_STR_OF_(number)
#define DT_STR_OF_(token) #token

/* Decimal; MIN and MAX are inclusive and named in the error. */
int dt_str_to_int(const char *s, int64_t min, int64_t max, int64_t *out, struct dt_err *err);

/* "512", "64K", "8MiB", "1.5G": powers of 1024, with or without "B" or "iB". */
int dt_str_to_size(const char *s, uint64_t min, uint64_t max, uint64_t *out, struct dt_err *err);

/* "250ms", "1.5s", "5m", "2h", "1d"; a bare number is seconds. */
int dt_str_to_duration(const char *s, dt_ms min, dt_ms max, dt_ms *out, struct dt_err *err);

/* "yes", "true", "on", "1" and their opposites. */
int dt_str_to_bool(const char *s, bool *out, struct dt_err *err);

/* As people write them: "8 MiB", "1.5 GiB", "512 B"; "250 ms", "1.5 s", "2 h". Cut to SIZE. */
const char *dt_str_from_size(uint64_t bytes, char *out, size_t size);
const char *dt_str_from_duration(dt_ms t, char *out, size_t size);

/* For log lines: printable ASCII stays, all else becomes \xNN, what does not fit ends in "...". */
const char *dt_str_printable(struct dt_bytes b, char *out, size_t size);

/* How many letters to add, drop or change to make B of A: Levenshtein's distance. Names of more
 * than DT_STR_DISTANCE_MAX letters are SIZE_MAX apart. */
#define DT_STR_DISTANCE_MAX 48
size_t dt_str_distance(const char *a, const char *b);
/* How far another name may be from NAME to be offered as the one that was perhaps meant: beyond
 * that it is another word. */
size_t dt_str_guess(const char *name);
/* ... and to be taken for the one that was meant, so that NAME is a mistake and not something new.
 */
size_t dt_str_slip(const char *name);

/* Cuts leading and trailing white space in place; returns the first character left. */
char *dt_str_trim(char *s);

#endif
