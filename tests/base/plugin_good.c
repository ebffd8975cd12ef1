/* SPDX-License-Identifier: Apache-2.0 */
/* A helper library as test_plugin.c wants it. */
#include "base/plugin.h"

struct table {
    struct dt_plugin_head head;
    int (*seven)(void);
};

static int seven(void)
{
    return 7;
}

extern const struct table dt_plugin;
DT_PLUGIN_EXPORT const struct table dt_plugin = {
    .head = {.abi = 3, .size = sizeof(struct table)},
    .seven = seven,
};
