/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a look, for a terminal of 80 columns or as JSON. */
#ifndef DT_AGENT_LOOK_PRINT_H
#define DT_AGENT_LOOK_PRINT_H

#include "agent/look/look.h"
#include "base/json_write.h"

/* Processes with the same name and equal stacks are shown together, with the threads of the first
 * one. Control characters in names of files and functions are shown as text. */
void dt_look_print(const struct dt_look *look, struct dt_buf *out);

/* As an object with every process and thread. */
void dt_look_put_json(const struct dt_look *look, struct dt_json_writer *w);

#endif
