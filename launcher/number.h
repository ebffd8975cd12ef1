/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as Python's int() and float() take them: white space around, a sign, single underscores
 * between digits. torchrun reads its options so, and a command line that works there has to work
 * here. Pure. */
#ifndef DT_LAUNCHER_NUMBER_H
#define DT_LAUNCHER_NUMBER_H

#include "base/err.h"

#include <stdint.h>

/* -1 and *err (DT_E_USAGE) when TEXT is no number, or one that no 64 bits hold. */
int dt_number_int(const char *text, int64_t *out, struct dt_err *err);

/* Also "inf" and "nan". */
int dt_number_float(const char *text, double *out, struct dt_err *err);

#endif
