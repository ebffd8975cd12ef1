/* SPDX-License-Identifier: Apache-2.0 */
/* What the runtime itself needs of a context and a program that uses it does not. */
#ifndef DT_WORKER_RUNTIME_INSIDE_H
#define DT_WORKER_RUNTIME_INSIDE_H

#include <dtrun/context.h>

struct dt_device;

/* Where this rank computes; owned by the context. */
struct dt_device *dt_context_device(const struct dt_context *c);
/* Of the CPU, that are this rank's. */
int dt_context_threads(const struct dt_context *c);

#endif
