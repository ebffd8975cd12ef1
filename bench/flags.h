/* SPDX-License-Identifier: Apache-2.0 */
/* Command line of the benchmark programs: options are rows of a table, from which parsing and
 * --help are made. An option is "--name value" or "--name=value"; one positional word may be. */
#ifndef BENCH_FLAGS_H
#define BENCH_FLAGS_H

#include <stddef.h>

#include "bench/fail.h"

enum flag_kind {
    FLAG_WORD,   /* const char *, any text */
    FLAG_CHOICE, /* int, an index into choices */
    FLAG_COUNT,  /* unsigned long, within min..max */
    FLAG_TIME,   /* double, seconds within min..max */
};

struct flag {
    const char *name; /* NULL ends the table */
    enum flag_kind kind;
    size_t at; /* offset in the options struct */
    unsigned long min, max;
    const char *const *choices; /* NULL-terminated */
    const char *help;
};

/* Fills OPTIONS (which holds the defaults) from the command line; *positional is the word without
 * a name, or NULL. Returns 1 when --help was printed, 0 when parsed, -1 with *f. */
int flags_parse(const struct flag *table, int argc, char **argv, void *options,
                const char **positional, const char *usage, struct fail *f);

#endif
