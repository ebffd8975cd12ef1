/* SPDX-License-Identifier: Apache-2.0 */
/* HOST:PORT as torchrun reads an endpoint. Pure: no name is looked up. */
#ifndef DT_LAUNCHER_PLANNING_ENDPOINT_H
#define DT_LAUNCHER_PLANNING_ENDPOINT_H

#include "base/err.h"

#define DT_ENDPOINT_PORT_REQUIRED (-1)

struct dt_rdzv_endpoint {
    char host[256]; /* without the brackets of an IPv6 address */
    int port;
};

/* Nothing but white space is localhost. DEFAULT_PORT where there is none, unless it is required. */
int dt_rdzv_endpoint_parse(const char *text, int default_port, struct dt_rdzv_endpoint *out,
                           struct dt_err *err);

#endif
