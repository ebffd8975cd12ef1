/* SPDX-License-Identifier: Apache-2.0 */
#include <dtrun/api.h>

const char *dt_version(void)
{
    return DT_VERSION;
}
