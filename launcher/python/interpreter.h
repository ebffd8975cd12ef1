/* SPDX-License-Identifier: Apache-2.0 */
/* Programs by name, and which Python runs the workers. torchrun runs them with the one that it runs
 * in itself: that of the environment it is installed in. We are no Python, so the same one is
 * looked for: where this program lies in an environment, called so or linked there, it is that
 * one's. Else it is the one that is active. */
#ifndef DT_LAUNCHER_PYTHON_INTERPRETER_H
#define DT_LAUNCHER_PYTHON_INTERPRETER_H

#include "base/err.h"
#include "launcher/facts.h"

#include <stdbool.h>

/* The path by which NAME can be executed: itself when it has a slash, else by $PATH. Allocated;
 * NULL and *err: what was looked for, and where. */
char *dt_interpreter_resolve(const struct dt_facts *facts, const char *name, struct dt_err *err);

/* Whether NAME, a file that is there or else a command in $PATH, is machine code (ELF) that can be
 * executed. */
bool dt_interpreter_is_program(const struct dt_facts *facts, const char *name);

/* Texts without another owner are static. */
struct dt_interpreter {
    char *path;         /* owned; NULL: there is none */
    const char *origin; /* what named it: "PYTHON_EXEC", "VIRTUAL_ENV", "PATH", ... */
    const char *dead;   /* a variable that would have been stronger, and names an environment in
                           which there is no Python; NULL: none */
};

/* What torchrun would call its own: the python of the environment that this program was called in,
 * of the active virtual or conda environment, else python3, else python by $PATH. -1 and *err:
 * there is none. End with dt_interpreter_finish(), which is fine after a failure, too. */
int dt_interpreter_own(const struct dt_facts *facts, struct dt_interpreter *out,
                       struct dt_err *err);

/* The same for $PYTHON_EXEC, else our own. */
int dt_interpreter_find(const struct dt_facts *facts, struct dt_interpreter *out,
                        struct dt_err *err);

void dt_interpreter_finish(struct dt_interpreter *i);

#endif
