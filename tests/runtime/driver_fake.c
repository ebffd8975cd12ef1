/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers for test_plugin.c, as far as anybody asks them before the plugin is loaded: ANSWER is
 * what cuInit() says, and without one there is no cuInit(). */
#include "worker_runtime/include/dtrun/api.h"

#ifdef ANSWER
DT_API int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    return flags == 0 ? ANSWER : 1;
}
#else
DT_API int cu_something_else(void);
int cu_something_else(void)
{
    return 0;
}
#endif
