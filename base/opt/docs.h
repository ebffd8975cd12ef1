/* SPDX-License-Identifier: Apache-2.0 */
/* The document that follows from an option table: the OPTIONS section of a man page. For
 * man/gen_docs.c at build time, and for tests. */
#ifndef DT_BASE_OPT_DOCS_H
#define DT_BASE_OPT_DOCS_H

#include "base/opt/opt.h"

#include <stdio.h>

/* mdoc: the lists, a .Ss for each group; the .Sh before it is the page's. */
void dt_opt_print_mdoc(const struct dt_opt_program *program, FILE *out);

#endif
