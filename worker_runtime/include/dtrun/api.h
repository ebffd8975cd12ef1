/* SPDX-License-Identifier: Apache-2.0 */
/* What every public header of libdtrun begins with. Functions give 0, or -1 with *err (which may be
 * NULL); those that make something give NULL then. Nothing here prints, exits, or handles signals.
 * Objects are used by one thread at a time unless a header says otherwise. */
#ifndef DTRUN_API_H
#define DTRUN_API_H

#include <dtrun/err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Around all declarations, for programs in C++. DT_API, in front of each function, is err.h's. */
#ifdef __cplusplus
#define DT_BEGIN_C extern "C" {
#define DT_END_C }
#else
#define DT_BEGIN_C
#define DT_END_C
#endif

/* Grows when something is added; the first number when something a program relies on changes. */
#define DTRUN_API_VERSION_MAJOR 0
#define DTRUN_API_VERSION_MINOR 1

DT_BEGIN_C

/* "0.1.0", of the library that runs, whatever the headers were. */
DT_API const char *dt_version(void);

DT_END_C

#endif
