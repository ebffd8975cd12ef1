/* SPDX-License-Identifier: Apache-2.0 */
/* Programs by name, and which Python runs the workers. torchrun runs them with the one that it runs
 * in itself; we are no Python, so the one that is active in the environment is taken. */
#ifndef DT_LAUNCHER_INTERPRETER_H
#define DT_LAUNCHER_INTERPRETER_H

#include "base/err.h"
#include "launcher/facts.h"

#include <stdbool.h>

/* The path by which NAME can be executed: itself when it has a slash, else by $PATH. Allocated;
 * NULL and *err: what was looked for, and where. */
char *dt_interpreter_resolve(const struct dt_facts *facts, const char *name, struct dt_err *err);

/* Whether NAME, a file that is there or else a command in $PATH, is machine code (ELF) that can be
 * executed. */
bool dt_interpreter_is_program(const struct dt_facts *facts, const char *name);

/* The active virtual or conda environment's python, else python3, else python by $PATH. What
 * torchrun would call its own. Allocated; NULL and *err. */
char *dt_interpreter_own(const struct dt_facts *facts, struct dt_err *err);

/* $PYTHON_EXEC, else our own. Allocated; NULL and *err. */
char *dt_interpreter_find(const struct dt_facts *facts, struct dt_err *err);

#endif
