/* SPDX-License-Identifier: Apache-2.0 */
/* Which instructions this processor has, in the steps of the x86-64 psABI. Elsewhere: the base. */
#ifndef DT_WORKER_RUNTIME_OPS_CPU_CPU_LEVEL_H
#define DT_WORKER_RUNTIME_OPS_CPU_CPU_LEVEL_H

enum dt_cpu_level {
    DT_CPU_BASE,
    DT_CPU_V3, /* AVX2 and FMA: vectors of 8 floats */
    DT_CPU_V4, /* AVX-512 F, BW, CD, DQ, VL: 16 floats */
    DT_CPU_LEVELS,
};

enum dt_cpu_level dt_cpu_level(void);

#endif
