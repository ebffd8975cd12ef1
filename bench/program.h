/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmark programs begin and end with: options by base/opt, numbers within bounds, and
 * one sentence when something failed. */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include "base/clock.h"
#include "base/opt/opt.h"

/* Fills OPTIONS from the command line. 0; 1 when help was printed; -1 and *err. */
int program_read(const struct dt_opt_program *p, int argc, char **argv, void *options,
                 struct dt_err *err);

/* RC < 0: says *err. Returns the exit status: 0, 1 when the run failed, 2 for a bad command line.
 */
int program_end(const struct dt_opt_program *p, int rc, const struct dt_err *err);

int program_number(const char *value, unsigned long min, unsigned long max, unsigned long *out,
                   struct dt_err *err);
int program_seconds(const char *value, dt_ms min, dt_ms max, double *out, struct dt_err *err);
/* *OUT: the index of VALUE in CHOICES, which end with NULL. */
int program_choice(const char *value, const char *const *choices, int *out, struct dt_err *err);

/* Parsers NAME for rows of a table. */
#define PROGRAM_NUMBER(name, min, max)                                                             \
    static int name(const char *value, void *target, struct dt_err *err)                           \
    {                                                                                              \
        return program_number(value, min, max, target, err);                                       \
    }
#define PROGRAM_SECONDS(name, min, max)                                                            \
    static int name(const char *value, void *target, struct dt_err *err)                           \
    {                                                                                              \
        return program_seconds(value, (min)*DT_SECOND, (max)*DT_SECOND, target, err);              \
    }
#define PROGRAM_CHOICE(name, choices)                                                              \
    static int name(const char *value, void *target, struct dt_err *err)                           \
    {                                                                                              \
        return program_choice(value, choices, target, err);                                        \
    }

#endif
