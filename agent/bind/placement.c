/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/bind/placement.h"

#include <stdlib.h>

struct planner {
    const struct dt_machine *m;
    const struct dt_cpuset *allowed;
    const struct dt_gpus *gpus;
};

/* What can be given away: a node, a socket, a core, a cache group; its allowed processors. */
struct piece {
    struct dt_cpuset cpus;
    size_t count;
    int first;
    size_t node; /* by its place in the machine, which is the order of locality */
};

struct pieces {
    struct piece *at;
    size_t count;
};

/* -- pieces ----------------------------------------------------------------------------------- */

static size_t node_of_cpu(const struct dt_machine *m, int cpu)
{
    size_t i = 0;
    while (i < m->node_count && !dt_cpuset_has(&m->nodes[i].cpus, (unsigned)cpu))
        i++;
    return i;
}

static void add_piece(struct pieces *p, const struct dt_machine *m, struct dt_cpuset cpus)
{
    int first = dt_cpuset_next(&cpus, 0);
    if (first < 0)
        return;
    p->at[p->count++] = (struct piece){
        .cpus = cpus,
        .count = dt_cpuset_count(&cpus),
        .first = first,
        .node = node_of_cpu(m, first),
    };
}

static int by_place(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

static int by_size(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* What of each of SETS lies WITHIN, in the order of place. */
static int cut_pieces(const struct dt_machine *m, const struct dt_cpuset *sets, size_t count,
                      const struct dt_cpuset *within, struct pieces *out, struct dt_err *err)
{
    *out = (struct pieces){.at = calloc(count + 1, sizeof *out->at)};
    if (!out->at)
        return dt_err_set(err, DT_E_MEMORY, "no memory to plan who runs where");
    for (size_t i = 0; i < count; i++)
        add_piece(out, m, dt_cpuset_and(&sets[i], within));
    qsort(out->at, out->count, sizeof *out->at, by_place);
    return 0;
}

/* All nodes of NODE's socket. One that is in no socket stands for itself. */
static struct dt_cpuset socket_cpus(const struct dt_machine *m, const struct dt_machine_node *node)
{
    struct dt_cpuset cpus = node->cpus;
    for (size_t i = 0; i < m->node_count; i++)
        if (node->package >= 0 && m->nodes[i].package == node->package)
            dt_cpuset_join(&cpus, &m->nodes[i].cpus);
    return cpus;
}

/* Nodes, or sockets, with what is allowed of each; two with the same processors count once, as
 * where fast and slow memory sit beside the same cores. */
static int cut_regions(const struct planner *p, enum dt_plan_bind mode, struct pieces *out,
                       struct dt_err *err)
{
    const struct dt_machine *m = p->m;
    *out = (struct pieces){.at = calloc(m->node_count + 1, sizeof *out->at)};
    if (!out->at)
        return dt_err_set(err, DT_E_MEMORY, "no memory to plan who runs where");
    for (size_t i = 0; i < m->node_count; i++) {
        struct dt_cpuset cpus =
            mode == DT_BIND_SOCKET ? socket_cpus(m, &m->nodes[i]) : m->nodes[i].cpus;
        cpus = dt_cpuset_and(&cpus, p->allowed);
        bool seen = false;
        for (size_t j = 0; j < out->count; j++)
            seen = seen || dt_cpuset_equal(&out->at[j].cpus, &cpus);
        if (!seen)
            add_piece(out, m, cpus);
    }
    return 0;
}

/* The share of the Kth of COUNT: cores side by side, the first ones get what does not divide. */
static struct dt_cpuset share(const struct pieces *cores, size_t k, size_t count)
{
    struct dt_cpuset cpus = {0};
    size_t each = cores->count / count, more = cores->count % count;
    size_t first = k * each + (k < more ? k : more);
    size_t end = first + each + (k < more);
    for (size_t i = first; i < end; i++)
        dt_cpuset_join(&cpus, &cores->at[i].cpus);
    return cpus;
}

/* -- with GPUs -------------------------------------------------------------------------------- */

/* Where nothing is known of a device, or several nodes are equally near, it is the lowest. */
static const struct dt_machine_node *node_of_gpu(const struct dt_machine *m,
                                                 const struct dt_gpu *gpu)
{
    const struct dt_machine_node *lowest = NULL;
    for (size_t i = 0; i < m->device_count; i++) {
        const struct dt_machine_device *d = &m->devices[i];
        if (d->at.domain != gpu->at.domain || d->at.bus != gpu->at.bus ||
            d->at.device != gpu->at.device)
            continue;
        for (size_t j = 0; j < m->node_count; j++)
            if (dt_cpuset_has(&d->nodes, (unsigned)m->nodes[j].id) &&
                (!lowest || m->nodes[j].id < lowest->id))
                lowest = &m->nodes[j];
        break; /* further functions of the same card */
    }
    return lowest;
}

/* Which of NODE's visible GPUs RANK's is, and how many they are. */
static void count_neighbours(const struct planner *p, const struct dt_machine_node *node, int rank,
                             size_t *k, size_t *count)
{
    *k = *count = 0;
    for (size_t i = 0; i < p->gpus->count; i++) {
        if (node_of_gpu(p->m, &p->gpus->at[i]) != node)
            continue;
        *k += i < (size_t)rank;
        ++*count;
    }
}

static int place_exclusive(const struct planner *p, const struct dt_machine_node *node, int rank,
                           struct dt_cpuset *cpus, struct dt_err *err)
{
    struct pieces cores;
    size_t k, count;
    count_neighbours(p, node, rank, &k, &count);
    if (cut_pieces(p->m, p->m->cores, p->m->core_count, cpus, &cores, err) < 0)
        return -1;
    int rc = 0;
    if (cores.count < count)
        rc = dt_err_set(err, DT_E_RUNTIME,
                        "NUMA node %d has %zu GPUs and %zu cores that we may use, less than one "
                        "for each; bind by node, or allow more",
                        node->id, count, cores.count);
    else
        *cpus = share(&cores, k, count);
    free(cores.at);
    return rc;
}

static int place_complex(const struct planner *p, const struct dt_machine_node *node, int rank,
                         struct dt_cpuset *cpus, struct dt_err *err)
{
    struct pieces groups;
    size_t k, count;
    count_neighbours(p, node, rank, &k, &count);
    if (cut_pieces(p->m, p->m->caches, p->m->cache_count, cpus, &groups, err) < 0)
        return -1;
    qsort(groups.at, groups.count, sizeof *groups.at, by_size);
    if (groups.count)
        *cpus = groups.at[k % groups.count].cpus;
    free(groups.at);
    return 0;
}

static int place_by_gpu(const struct planner *p, enum dt_plan_bind mode, int rank,
                        struct dt_placement *out, struct dt_err *err)
{
    const struct dt_gpu *gpu = &p->gpus->at[rank];
    const struct dt_machine_node *node = node_of_gpu(p->m, gpu);
    out->gpu = rank;
    if (!node)
        return dt_err_set(err, DT_E_RUNTIME,
                          "GPU %d (%04x:%02x:%02x.0) is not among the devices that hwloc sees",
                          rank, gpu->at.domain, gpu->at.bus, gpu->at.device);
    struct dt_cpuset near = mode == DT_BIND_SOCKET ? socket_cpus(p->m, node) : node->cpus;
    out->cpus = dt_cpuset_and(&near, p->allowed);
    if (dt_cpuset_empty(&out->cpus))
        return dt_err_set(err, DT_E_RUNTIME,
                          "GPU %d (%04x:%02x:%02x.0) is at NUMA node %d, and we may use none of "
                          "that node's processors (see Cpus_allowed_list in /proc/self/status)",
                          rank, gpu->at.domain, gpu->at.bus, gpu->at.device, node->id);
    if (mode == DT_BIND_EXCLUSIVE)
        return place_exclusive(p, node, rank, &out->cpus, err);
    return mode == DT_BIND_COMPLEX ? place_complex(p, node, rank, &out->cpus, err) : 0;
}

/* -- without ---------------------------------------------------------------------------------- */

static int cut_all(const struct planner *p, enum dt_plan_bind mode, struct pieces *out,
                   struct dt_err *err)
{
    const struct dt_machine *m = p->m;
    if (mode == DT_BIND_EXCLUSIVE)
        return cut_pieces(m, m->cores, m->core_count, p->allowed, out, err);
    if (mode == DT_BIND_COMPLEX)
        return cut_pieces(m, m->caches, m->cache_count, p->allowed, out, err);
    return cut_regions(p, mode, out, err);
}

static int spread(const struct planner *p, enum dt_plan_bind mode, int nproc,
                  struct dt_placement *out, struct dt_err *err)
{
    struct pieces all;
    size_t n = (size_t)nproc;
    if (cut_all(p, mode, &all, err) < 0)
        return -1;
    int rc = 0;
    if (all.count == 0)
        rc = dt_err_set(err, DT_E_RUNTIME,
                        "hwloc shows no processor that we may use, so nothing can be bound");
    else if (mode == DT_BIND_EXCLUSIVE && all.count < n)
        rc = dt_err_set(err, DT_E_RUNTIME,
                        "%d workers want cores of their own and %zu may be used; start fewer, or "
                        "bind by node",
                        nproc, all.count);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        out[i].gpu = -1;
        out[i].cpus =
            mode == DT_BIND_EXCLUSIVE ? share(&all, i, n) : all.at[i * all.count / n].cpus;
    }
    free(all.at);
    return rc;
}

/* -- both ------------------------------------------------------------------------------------- */

static void find_nodes(const struct dt_machine *m, struct dt_placement *at)
{
    at->nodes = (struct dt_cpuset){0};
    for (int cpu = dt_cpuset_next(&at->cpus, 0); cpu >= 0;
         cpu = dt_cpuset_next(&at->cpus, cpu + 1)) {
        size_t i = node_of_cpu(m, cpu);
        if (i < m->node_count)
            dt_cpuset_add(&at->nodes, (unsigned)m->nodes[i].id);
    }
}

int dt_placement_plan(enum dt_plan_bind mode, const struct dt_machine *m,
                      const struct dt_cpuset *allowed, const struct dt_gpus *gpus, int nproc,
                      struct dt_placement *out, struct dt_err *err)
{
    const struct planner p = {.m = m, .allowed = allowed, .gpus = gpus};
    int rc = 0;
    if (gpus->count && gpus->count < (size_t)nproc)
        return dt_err_set(err, DT_E_RUNTIME,
                          "local rank %zu has no GPU: %zu are visible to %d workers; start at most "
                          "%zu, or hide all GPUs with CUDA_VISIBLE_DEVICES= to bind by cores alone",
                          gpus->count, gpus->count, nproc, gpus->count);
    if (gpus->count == 0)
        rc = spread(&p, mode, nproc, out, err);
    for (int i = 0; rc == 0 && gpus->count && i < nproc; i++)
        rc = place_by_gpu(&p, mode, i, &out[i], err);
    for (int i = 0; rc == 0 && i < nproc; i++)
        find_nodes(m, &out[i]);
    return rc;
}
