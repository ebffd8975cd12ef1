/* SPDX-License-Identifier: Apache-2.0 */
/* Where a Python program stands, short enough to be compared once a second: which line of the
 * user's own code, and what it has called there. Pure. */
#ifndef DT_AGENT_HANG_PLACE_H
#define DT_AGENT_HANG_PLACE_H

#include "agent/look/python_stack.h"

enum dt_place_kind {
    DT_PLACE_UNKNOWN, /* no Python, or it could not be read */
    DT_PLACE_OWN,     /* in the user's code itself, or in C code that it has called */
    DT_PLACE_LIBRARY, /* in Python code of others */
    DT_PLACE_WAIT,    /* ... where it waits for other workers */
    DT_PLACE_SLOW,    /* ... that takes its time: compiles, saves */
    DT_PLACE_IMPORT,  /* imports a module */
};

struct dt_place {
    enum dt_place_kind kind;
    uint64_t
        function; /* which one of the user's code is the innermost; of any where there is none */
    int line;     /* in it */
    bool polls;   /* it wakes up again and again to see whether its wait is over */
};

/* MAIN, one of STACKS, stands for all of them unless it waits for another thread. It may be NULL.
 * ASLEEP: the kernel has it wait. */
struct dt_place dt_place_of(const struct dt_python_stacks *stacks,
                            const struct dt_python_thread *main, bool asleep);

#endif
