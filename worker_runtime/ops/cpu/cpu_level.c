/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ops/cpu/cpu_level.h"

/* The compiler's own question asks the kernel too, whether it saves these registers. */
enum dt_cpu_level dt_cpu_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi2"))
        return DT_CPU_BASE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return DT_CPU_V3;
    return DT_CPU_V4;
#else
    return DT_CPU_BASE;
#endif
}
