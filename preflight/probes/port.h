/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the port that this host is to listen on is free. */
#ifndef DT_PREFLIGHT_PROBES_PORT_H
#define DT_PREFLIGHT_PROBES_PORT_H

#include "preflight/probes/inside.h"

void dt_port_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
