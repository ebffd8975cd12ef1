/* SPDX-License-Identifier: Apache-2.0 */
/* A wire without any library. */
#ifndef DT_WORKER_RUNTIME_COLL_WIRE_TCP_TCP_H
#define DT_WORKER_RUNTIME_COLL_WIRE_TCP_TCP_H

#include "worker_runtime/coll/wire/wire.h"

extern const struct dt_wire_ops dt_wire_tcp;

#endif
