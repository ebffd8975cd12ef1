/* SPDX-License-Identifier: Apache-2.0 */
/* A library that chooses as an OpenBLAS does that is older than its processor: the most basic
 * kernels, unless $OPENBLAS_CORETYPE says others as it is loaded. With $BASIC_OPENBLAS_STUBBORN it
 * does not listen. It computes nothing. */
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void cblas_sgemm(void);
EXPORT const char *openblas_get_corename(void);
EXPORT const char *openblas_get_config(void);
EXPORT void openblas_set_num_threads(int threads);

static char core[32];

__attribute__((constructor)) static void choose(void)
{
    const char *wanted = getenv("OPENBLAS_CORETYPE");
    if (getenv("BASIC_OPENBLAS_STUBBORN"))
        wanted = NULL;
    snprintf(core, sizeof core, "%s", wanted ? wanted : "Prescott");
}

void cblas_sgemm(void)
{
}

const char *openblas_get_corename(void)
{
    return core;
}

const char *openblas_get_config(void)
{
    return "OpenBLAS 0.1.2 DYNAMIC_ARCH";
}

void openblas_set_num_threads(int threads)
{
    (void)threads;
}
