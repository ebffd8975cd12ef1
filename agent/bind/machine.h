/* SPDX-License-Identifier: Apache-2.0 */
/* What binding has to know of a machine: which processors are near which memory, near each other,
 * and near which device. Plain data; a helper library fills it with hwloc, so that dtrun itself
 * loads no topology. With HWLOC_XMLFILE set hwloc describes the machine in that file instead. */
#ifndef DT_AGENT_BIND_MACHINE_H
#define DT_AGENT_BIND_MACHINE_H

#include "agent/bind/cpuset.h"
#include "base/err.h"
#include "base/plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_machine_node {
    int id;      /* as the system numbers NUMA nodes */
    int package; /* as the system numbers sockets; -1: in none, or in several */
    struct dt_cpuset cpus;
};

/* "0000:9b:00.0" without its function: cards are bound, not functions. */
struct dt_machine_bus {
    uint32_t domain;
    uint8_t bus, device;
};

struct dt_machine_device {
    struct dt_machine_bus at;
    struct dt_cpuset nodes; /* the nearest; all of the machine's where nothing is known */
};

/* Nodes stand in the order of locality: those of one package side by side. Cores hold the threads
 * of one core each; caches the processors below one highest-level cache each, or a core where there
 * is none. Zeroed memory is no machine. */
struct dt_machine {
    bool is_this; /* else it was read from a file */
    struct dt_machine_node *nodes;
    size_t node_count;
    struct dt_cpuset *cores;
    size_t core_count;
    struct dt_cpuset *caches;
    size_t cache_count;
    struct dt_machine_device *devices;
    size_t device_count;
};

/* The table of dt_topology.so. */
#define DT_TOPOLOGY_ABI 1
struct dt_topology {
    struct dt_plugin_head head;
    int (*read)(struct dt_machine *m, struct dt_err *err);
};

/* Loads the helper and describes this machine; -1 and one sentence when there is no hwloc. */
int dt_machine_read(struct dt_machine *m, struct dt_err *err);
void dt_machine_finish(struct dt_machine *m);

#endif
