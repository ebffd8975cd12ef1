/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probe.h"

#include "preflight/probes/clock.h"
#include "preflight/probes/compute.h"
#include "preflight/probes/cpus.h"
#include "preflight/probes/files.h"
#include "preflight/probes/firewall.h"
#include "preflight/probes/folders.h"
#include "preflight/probes/gpus.h"
#include "preflight/probes/host.h"
#include "preflight/probes/infiniband.h"
#include "preflight/probes/limits.h"
#include "preflight/probes/links.h"
#include "preflight/probes/memory.h"
#include "preflight/probes/names.h"
#include "preflight/probes/port.h"
#include "preflight/probes/python.h"
#include "preflight/probes/settings.h"
#include "preflight/probes/shm.h"
#include "preflight/probes/xids.h"

/* In the order of a table in which all is well. Python takes a while to start, so that is none of
 * the fast ones. */
const struct dt_probe dt_probes[] = {
    {.name = "host", .when = DT_PROBE_FAST, .run = dt_host_probe},
    {.name = "python", .when = DT_PROBE_FULL, .run = dt_python_probe},
    {.name = "gpus", .when = DT_PROBE_FAST, .run = dt_gpus_probe},
    {.name = "xids", .when = DT_PROBE_FAST, .run = dt_xids_probe},
    {.name = "compute", .when = DT_PROBE_FULL, .time = DT_COMPUTE_TIME, .run = dt_compute_probe},
    {.name = "infiniband", .when = DT_PROBE_FAST, .run = dt_ib_probe},
    {.name = "links", .when = DT_PROBE_FAST, .run = dt_links_probe},
    {.name = "names", .when = DT_PROBE_FAST, .run = dt_names_probe},
    {.name = "firewall", .when = DT_PROBE_FULL, .run = dt_firewall_probe},
    {.name = "port", .when = DT_PROBE_ALONE, .run = dt_port_probe},
    {.name = "memory", .when = DT_PROBE_FAST, .run = dt_memory_probe},
    {.name = "shm", .when = DT_PROBE_FAST, .run = dt_shm_probe},
    {.name = "cpus", .when = DT_PROBE_FAST, .run = dt_cpus_probe},
    {.name = "limits", .when = DT_PROBE_FAST, .run = dt_limits_probe},
    {.name = "kernel", .when = DT_PROBE_FULL, .run = dt_settings_probe},
    {.name = "clock", .when = DT_PROBE_FAST, .run = dt_clock_probe},
    {.name = "folders", .when = DT_PROBE_FAST, .run = dt_folders_probe},
    {.name = "files", .when = DT_PROBE_FULL, .run = dt_files_probe},
};

const size_t dt_probe_count = sizeof dt_probes / sizeof *dt_probes;
