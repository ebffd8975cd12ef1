/* SPDX-License-Identifier: Apache-2.0 */
/* The shell completions that follow from an option table. For man/gen_docs.c at build time, and for
 * tests. */
#ifndef DT_BASE_OPT_COMPLETE_H
#define DT_BASE_OPT_COMPLETE_H

#include "base/opt/opt.h"

#include <stdio.h>

void dt_opt_print_bash(const struct dt_opt_program *program, FILE *out);
void dt_opt_print_zsh(const struct dt_opt_program *program, FILE *out);
void dt_opt_print_fish(const struct dt_opt_program *program, FILE *out);

#endif
