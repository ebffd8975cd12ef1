/* SPDX-License-Identifier: Apache-2.0 */
/* A command of the user's: sh runs the text as it was given. What the command is about stands in
 * its environment or on its standard input, so that no name becomes a part of a command. */
#ifndef DT_BASE_COMMAND_H
#define DT_BASE_COMMAND_H

#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>

struct dt_command {
    const char *name; /* in sentences: "the upload command" */
    const char *text;
    char *const *variables; /* "NAME=value", beside the environment of this process */
    size_t variables_count;
    const int *input;        /* what it reads; NULL: nothing */
    const atomic_bool *stop; /* true: it is ended, as a process group; NULL: never */
};

/* Waits for its end. 0: its status was 0. Else *err has its status and the last line that it
 * printed; DT_E_CANCELED is the code when it was stopped. From any thread. */
int dt_command_run(const struct dt_command *c, struct dt_err *err);

#endif
