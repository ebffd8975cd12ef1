/* SPDX-License-Identifier: Apache-2.0 */
/* `dtrun-train generate`: a prompt from somewhere, a text to standard output as it comes. */
#ifndef DT_WORKER_RUNTIME_GENERATE_COMMAND_H
#define DT_WORKER_RUNTIME_GENERATE_COMMAND_H

#include "worker_runtime/generate/generation.h"

/* The text of PATH, "-" or NULL for standard input, without the newline that ends a file. */
int dt_generate_read_prompt(const char *path, struct dt_buf *out, struct dt_err *err);

/* Until the text has ended, or *O->stop is not 0, which is looked at from when READY has been
 * called: then the model is there. A line on standard error says how it went. */
int dt_generate(const struct dt_generation_options *o, struct dt_device *device,
                void (*ready)(void), struct dt_err *err);

#endif
