/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/bind/machine.h"

#include <stdlib.h>

int dt_machine_read(struct dt_machine *m, struct dt_err *err)
{
    *m = (struct dt_machine){0};
    const struct dt_topology *topology =
        dt_plugin_open("agent/topology", DT_TOPOLOGY_ABI, sizeof *topology, err);
    if (!topology)
        return dt_err_wrap(err, "binding takes hwloc");
    if (topology->read(m, err) == 0)
        return 0;
    dt_machine_finish(m);
    return -1;
}

void dt_machine_finish(struct dt_machine *m)
{
    free(m->nodes);
    free(m->cores);
    free(m->caches);
    free(m->devices);
    *m = (struct dt_machine){0};
}
