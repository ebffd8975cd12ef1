/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probe.h"

#include "preflight/probes/clock.h"
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
    {"host", DT_PROBE_FAST, dt_host_probe},     {"python", DT_PROBE_FULL, dt_python_probe},
    {"gpus", DT_PROBE_FAST, dt_gpus_probe},     {"xids", DT_PROBE_FAST, dt_xids_probe},
    {"infiniband", DT_PROBE_FAST, dt_ib_probe}, {"links", DT_PROBE_FAST, dt_links_probe},
    {"names", DT_PROBE_FAST, dt_names_probe},   {"firewall", DT_PROBE_FULL, dt_firewall_probe},
    {"port", DT_PROBE_ALONE, dt_port_probe},    {"memory", DT_PROBE_FAST, dt_memory_probe},
    {"shm", DT_PROBE_FAST, dt_shm_probe},       {"cpus", DT_PROBE_FAST, dt_cpus_probe},
    {"limits", DT_PROBE_FAST, dt_limits_probe}, {"kernel", DT_PROBE_FULL, dt_settings_probe},
    {"clock", DT_PROBE_FAST, dt_clock_probe},   {"folders", DT_PROBE_FAST, dt_folders_probe},
    {"files", DT_PROBE_FULL, dt_files_probe},
};

const size_t dt_probe_count = sizeof dt_probes / sizeof *dt_probes;
