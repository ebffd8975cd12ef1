/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/bind/bind.h"

#include "agent/bind/placement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dt_bind {
    struct dt_gpus gpus; /* the visible ones */
    int count;
    struct dt_placement at[]; /* by local rank */
};

/* Of a machine out of a file all may be used. */
static int read_allowed(const struct dt_machine *m, struct dt_cpuset *out, struct dt_err *err)
{
    *out = (struct dt_cpuset){0};
    if (!m->is_this)
        dt_cpuset_fill(out);
    else if (sched_getaffinity(0, sizeof out->words, (cpu_set_t *)out->words) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot tell which processors are allowed");
    return 0;
}

static int read_gpus(const char *devices, struct dt_gpus *visible, struct dt_err *err)
{
    struct dt_gpus all = {0};
    if (dt_gpus_read(&all, err) < 0)
        return -1;
    int rc = dt_gpus_select(&all, devices, visible, err);
    dt_gpus_finish(&all);
    return rc;
}

struct dt_bind *dt_bind_create(const struct dt_plan *plan, const char *devices, struct dt_err *err)
{
    struct dt_machine machine = {0};
    struct dt_cpuset allowed;
    struct dt_bind *b = calloc(1, sizeof *b + (size_t)plan->nproc * sizeof *b->at);
    if (!b) {
        dt_err_set(err, DT_E_MEMORY, "no memory to bind %d workers", plan->nproc);
        return NULL;
    }
    b->count = plan->nproc;
    int rc = dt_machine_read(&machine, err);
    if (rc == 0)
        rc = read_allowed(&machine, &allowed, err);
    if (rc == 0)
        rc = read_gpus(devices, &b->gpus, err);
    if (rc == 0)
        rc = dt_placement_plan(plan->bind, &machine, &allowed, &b->gpus, b->count, b->at, err);
    dt_machine_finish(&machine);
    if (rc == 0)
        return b;
    dt_bind_destroy(b);
    dt_err_wrap(err, "--numa-binding");
    return NULL;
}

void dt_bind_destroy(struct dt_bind *b)
{
    if (b)
        dt_gpus_finish(&b->gpus);
    free(b);
}

struct dt_spawn_place dt_bind_place(const struct dt_bind *b, int local_rank)
{
    const struct dt_placement *at = &b->at[local_rank];
    return (struct dt_spawn_place){
        .cpus = (const cpu_set_t *)at->cpus.words,
        .cpus_size = sizeof at->cpus.words,
        .nodes = at->nodes.words,
        .nodes_bits = DT_CPUSET_MAX,
    };
}

void dt_bind_describe(const struct dt_bind *b, int local_rank, struct dt_buf *out)
{
    const struct dt_placement *at = &b->at[local_rank];
    dt_buf_printf(out, "local rank %d: ", local_rank);
    if (at->gpu >= 0) {
        const struct dt_machine_bus *bus = &b->gpus.at[at->gpu].at;
        dt_buf_printf(out, "GPU %d (%04x:%02x:%02x.0), ", at->gpu, bus->domain, bus->bus,
                      bus->device);
    }
    dt_buf_put_str(out, dt_cpuset_count(&at->nodes) == 1 ? "NUMA node " : "NUMA nodes ");
    dt_cpuset_put(&at->nodes, out);
    dt_buf_put_str(out, ", cpus ");
    dt_cpuset_put(&at->cpus, out);
}
