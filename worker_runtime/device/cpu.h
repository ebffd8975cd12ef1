/* SPDX-License-Identifier: Apache-2.0 */
/* What the choice of a device asks of the CPU alone. */
#ifndef DT_WORKER_RUNTIME_DEVICE_CPU_H
#define DT_WORKER_RUNTIME_DEVICE_CPU_H

#include <stdbool.h>

struct dt_device;

/* Why D, a CPU, was taken for a GPU. SAY: in its description, too. */
void dt_device_cpu_no_gpu(struct dt_device *d, const char *why, bool say);

#endif
