/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of fast ops that were built; v3 and v4 only for x86-64. */
#ifndef DT_WORKER_RUNTIME_OPS_CPU_TABLES_H
#define DT_WORKER_RUNTIME_OPS_CPU_TABLES_H

#include "worker_runtime/ops/ops.h"

extern const struct dt_ops dt_cpu_ops_base, dt_cpu_ops_v3, dt_cpu_ops_v4;

#endif
