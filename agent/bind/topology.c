/* SPDX-License-Identifier: Apache-2.0 */
/* dt_topology.so: hwloc's tree of a machine to the flat lists that binding plans with. */
#include "agent/bind/machine.h"

#include <hwloc.h>
#include <stdlib.h>

static struct dt_cpuset set_of(hwloc_const_bitmap_t bits)
{
    struct dt_cpuset set = {0};
    for (int n = hwloc_bitmap_first(bits); n >= 0 && n < DT_CPUSET_MAX;
         n = hwloc_bitmap_next(bits, n))
        dt_cpuset_add(&set, (unsigned)n);
    return set;
}

static hwloc_obj_t package_of(hwloc_obj_t o)
{
    while (o && o->type != HWLOC_OBJ_PACKAGE)
        o = o->parent;
    return o;
}

/* Memory without processors of its own, of a GPU say, is nobody's place to run. */
static int read_nodes(hwloc_topology_t t, struct dt_machine *m)
{
    int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE);
    m->nodes = calloc(n > 0 ? (size_t)n : 1, sizeof *m->nodes);
    for (int i = 0; m->nodes && i < n; i++) {
        hwloc_obj_t o = hwloc_get_obj_by_type(t, HWLOC_OBJ_NUMANODE, (unsigned)i);
        hwloc_obj_t package = package_of(o);
        if (hwloc_bitmap_iszero(o->cpuset))
            continue;
        m->nodes[m->node_count++] = (struct dt_machine_node){
            .id = (int)o->os_index,
            .package = package ? (int)package->os_index : -1,
            .cpus = set_of(o->cpuset),
        };
    }
    return m->nodes ? 0 : -1;
}

/* Some virtual machines show processors and no cores. */
static int read_cores(hwloc_topology_t t, struct dt_machine *m)
{
    hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    int n = hwloc_get_nbobjs_by_type(t, type);
    m->cores = calloc(n > 0 ? (size_t)n : 1, sizeof *m->cores);
    for (int i = 0; m->cores && i < n; i++)
        m->cores[m->core_count++] = set_of(hwloc_get_obj_by_type(t, type, (unsigned)i)->cpuset);
    return m->cores ? 0 : -1;
}

static hwloc_obj_t highest_cache(hwloc_obj_t pu)
{
    hwloc_obj_t found = NULL;
    for (hwloc_obj_t o = pu; o; o = o->parent)
        if (hwloc_obj_type_is_dcache(o->type) || (o->type == HWLOC_OBJ_CORE && !found))
            found = o;
    return found ? found : pu;
}

/* Processors below one cache follow each other in hwloc's order. */
static int read_caches(hwloc_topology_t t, struct dt_machine *m)
{
    int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
    hwloc_obj_t last = NULL;
    m->caches = calloc(n > 0 ? (size_t)n : 1, sizeof *m->caches);
    for (int i = 0; m->caches && i < n; i++) {
        hwloc_obj_t cache = highest_cache(hwloc_get_obj_by_type(t, HWLOC_OBJ_PU, (unsigned)i));
        if (cache != last)
            m->caches[m->cache_count++] = set_of(cache->cpuset);
        last = cache;
    }
    return m->caches ? 0 : -1;
}

static int read_devices(hwloc_topology_t t, struct dt_machine *m)
{
    int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PCI_DEVICE);
    m->devices = calloc(n > 0 ? (size_t)n : 1, sizeof *m->devices);
    for (int i = 0; m->devices && i < n; i++) {
        hwloc_obj_t o = hwloc_get_obj_by_type(t, HWLOC_OBJ_PCI_DEVICE, (unsigned)i);
        const struct hwloc_pcidev_attr_s *at = &o->attr->pcidev;
        m->devices[m->device_count++] = (struct dt_machine_device){
            .at = {.domain = at->domain, .bus = at->bus, .device = at->dev},
            .nodes = set_of(hwloc_get_non_io_ancestor_obj(t, o)->nodeset),
        };
    }
    return m->devices ? 0 : -1;
}

static int load(hwloc_topology_t t, struct dt_err *err)
{
    /* "Important" are GPUs, accelerators, network and storage. */
    if (hwloc_topology_set_type_filter(t, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) <
            0 ||
        hwloc_topology_set_icache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE) < 0 ||
        hwloc_topology_load(t) < 0)
        return dt_err_set(err, DT_E_RUNTIME, "hwloc cannot describe this machine");
    return 0;
}

static int read_machine(struct dt_machine *m, struct dt_err *err)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) < 0)
        return dt_err_set(err, DT_E_MEMORY, "no memory for hwloc");
    int rc = load(t, err);
    if (rc == 0) {
        m->is_this = hwloc_topology_is_thissystem(t) != 0;
        if (read_nodes(t, m) < 0 || read_cores(t, m) < 0 || read_caches(t, m) < 0 ||
            read_devices(t, m) < 0)
            rc = dt_err_set(err, DT_E_MEMORY, "no memory to describe this machine");
    }
    hwloc_topology_destroy(t);
    return rc;
}

extern const struct dt_topology dt_plugin;
DT_PLUGIN_EXPORT const struct dt_topology dt_plugin = {
    .head = {.abi = DT_TOPOLOGY_ABI, .size = sizeof(struct dt_topology)},
    .read = read_machine,
};
