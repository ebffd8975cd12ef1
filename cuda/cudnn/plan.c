/* SPDX-License-Identifier: Apache-2.0 */
/* From the operations of a graph to a plan: cuDNN's heuristics name the engines that they think
 * fit, the best first, and the first of these that may be taken and can be had is. */
#include "cuda/cudnn/graph.h"

enum { CANDIDATES = 16 };

static bool has_failed(const struct dt_cudnn_graph *g)
{
    return g->failed.code != DT_E_NONE;
}

static void point_at(struct dt_cudnn_graph *g, void *from, enum dt_cudnn_attribute attribute,
                     void *to)
{
    dt_cudnn_set(g, from, attribute, DT_CUDNN_OF_DESCRIPTOR, 1, &to);
}

static void *close_graph(struct dt_cudnn_graph *g, const struct dt_cudnn_where *where)
{
    void *graph = dt_cudnn_make(g, DT_CUDNN_OPERATION_GRAPH);
    if (where->handle)
        dt_cudnn_set(g, graph, DT_CUDNN_GRAPH_HANDLE, DT_CUDNN_OF_HANDLE, 1, &where->handle);
    dt_cudnn_set(g, graph, DT_CUDNN_GRAPH_OPERATIONS, DT_CUDNN_OF_DESCRIPTOR, g->operation_count,
                 g->operations);
    dt_cudnn_finalize(g, graph, "the graph");
    return graph;
}

/* How many candidates there are. */
static int ask_heuristics(struct dt_cudnn_graph *g, const struct dt_cudnn_where *where, void *graph,
                          void *configs[CANDIDATES])
{
    const int mode = DT_CUDNN_HEURISTICS_A;
    int64_t count = 0;
    void *heuristics = dt_cudnn_make(g, DT_CUDNN_HEURISTICS);
    point_at(g, heuristics, DT_CUDNN_HEURISTICS_GRAPH, graph);
    dt_cudnn_set(g, heuristics, DT_CUDNN_HEURISTICS_MODE, DT_CUDNN_OF_HEURISTICS_MODE, 1, &mode);
    if (where->properties)
        point_at(g, heuristics, DT_CUDNN_HEURISTICS_PROPERTIES, where->properties);
    dt_cudnn_finalize(g, heuristics, "the heuristics");
    for (int i = 0; i < CANDIDATES; i++)
        configs[i] = dt_cudnn_make(g, DT_CUDNN_ENGINE_CONFIG);
    if (has_failed(g))
        return 0;
    int status = g->calls->get(heuristics, DT_CUDNN_HEURISTICS_RESULTS, DT_CUDNN_OF_DESCRIPTOR,
                               CANDIDATES, &count, configs);
    if (status != DT_CUDNN_SUCCESS)
        dt_cudnn_fail(g->calls, status, "asking which engine fits", &g->failed);
    return count < CANDIDATES ? (int)count : CANDIDATES;
}

/* Nothing is told of an engine that cannot be asked, so it is taken for one whose sums vary. */
static bool varies(struct dt_cudnn_graph *g, void *config)
{
    int notes[DT_CUDNN_NOTES];
    int64_t count = 0;
    void *engine = dt_cudnn_make(g, DT_CUDNN_ENGINE);
    if (!engine ||
        g->calls->get(config, DT_CUDNN_CONFIG_ENGINE, DT_CUDNN_OF_DESCRIPTOR, 1, &count, &engine) !=
            DT_CUDNN_SUCCESS ||
        g->calls->get(engine, DT_CUDNN_ENGINE_NUMERICAL_NOTES, DT_CUDNN_OF_NUMERICAL_NOTE,
                      DT_CUDNN_NOTES, &count, notes) != DT_CUDNN_SUCCESS)
        return true;
    for (int64_t i = 0; i < count && i < DT_CUDNN_NOTES; i++)
        if (notes[i] == DT_CUDNN_NOTE_NONDETERMINISTIC)
            return true;
    return false;
}

/* Whether CONFIG became the graph's plan. What an engine answers "no" with is its own affair. */
static bool take(struct dt_cudnn_graph *g, const struct dt_cudnn_where *where, void *config,
                 int *status)
{
    int64_t count = 0, bytes = 0;
    void *plan = dt_cudnn_make(g, DT_CUDNN_PLAN);
    if (where->handle)
        dt_cudnn_set(g, plan, DT_CUDNN_PLAN_HANDLE, DT_CUDNN_OF_HANDLE, 1, &where->handle);
    point_at(g, plan, DT_CUDNN_PLAN_CONFIG, config);
    if (where->properties)
        point_at(g, plan, DT_CUDNN_PLAN_PROPERTIES, where->properties);
    if (has_failed(g))
        return false;
    *status = g->calls->finalize(plan);
    if (*status == DT_CUDNN_SUCCESS)
        *status =
            g->calls->get(plan, DT_CUDNN_PLAN_WORKSPACE, DT_CUDNN_OF_INT64, 1, &count, &bytes);
    if (*status != DT_CUDNN_SUCCESS || bytes < 0 || (size_t)bytes > where->most)
        return false;
    g->plan = plan;
    g->workspace = (size_t)bytes;
    return true;
}

int dt_cudnn_graph_plan(struct dt_cudnn_graph *g, const struct dt_cudnn_where *where)
{
    void *configs[CANDIDATES];
    void *graph = close_graph(g, where);
    int count = ask_heuristics(g, where, graph, configs), allowed = 0;
    int status = DT_CUDNN_SUCCESS;
    for (int i = 0; i < count && !g->plan && !has_failed(g); i++) {
        if (where->deterministic && varies(g, configs[i]))
            continue;
        allowed++;
        take(g, where, configs[i], &status);
    }
    if (g->plan)
        return 0;
    if (has_failed(g))
        return -1;
    if (status != DT_CUDNN_SUCCESS)
        return dt_cudnn_fail(g->calls, status, "making a plan", &g->failed);
    return dt_err_set(&g->failed, DT_E_RUNTIME, "cuDNN has %s",
                      allowed ? "no engine that makes do with the workspace"
                      : count ? "no engine that repeats its bits, and train.deterministic is true"
                              : "no engine for it");
}

int dt_cudnn_graph_run(const struct dt_cudnn_graph *g, void *handle, int count, const int64_t *ids,
                       void *const *at, void *workspace, struct dt_err *err)
{
    void *pack;
    int status = g->calls->make(DT_CUDNN_VARIANT_PACK, &pack);
    if (status != DT_CUDNN_SUCCESS)
        return dt_cudnn_fail(g->calls, status, "telling where tensors are", err);
    status = g->calls->set(pack, DT_CUDNN_PACK_IDS, DT_CUDNN_OF_INT64, count, ids);
    if (status == DT_CUDNN_SUCCESS)
        status = g->calls->set(pack, DT_CUDNN_PACK_POINTERS, DT_CUDNN_OF_POINTER, count, at);
    if (status == DT_CUDNN_SUCCESS)
        status = g->calls->set(pack, DT_CUDNN_PACK_WORKSPACE, DT_CUDNN_OF_POINTER, 1, &workspace);
    if (status == DT_CUDNN_SUCCESS)
        status = g->calls->finalize(pack);
    if (status == DT_CUDNN_SUCCESS)
        status = g->calls->execute(handle, g->plan, pack);
    if (status != DT_CUDNN_SUCCESS)
        dt_cudnn_fail(g->calls, status, "running attention", err);
    g->calls->unmake(pack);
    return status == DT_CUDNN_SUCCESS ? 0 : -1;
}
