/* SPDX-License-Identifier: Apache-2.0 */
/* What runs below the program: dtrun, the kernel, NVIDIA's driver. */
#ifndef DT_PREFLIGHT_PROBES_HOST_H
#define DT_PREFLIGHT_PROBES_HOST_H

#include "preflight/probes/inside.h"

/* The version in /proc/driver/nvidia/version; "": there is none. */
void dt_host_read_driver(const char *root, char out[32]);

void dt_host_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
