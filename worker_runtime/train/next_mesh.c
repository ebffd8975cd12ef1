/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/next_mesh.h"

#include "base/cgroup.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/inside.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/train/mfu.h"

#include <string.h>
#include <unistd.h>

#define TERA 1e12

/* What ranks of one team sum, they sum several times a block: over a network that is most of a
 * step. */
int dt_next_mesh_fits(const struct dt_config_parallel *p, int ranks, int local, struct dt_err *err)
{
    int tensor = p->tensor, pipeline = p->pipeline, context = p->context, expert = p->expert;
    const char *left =
        tensor > 1 ? "what parallel.tensor leaves of the ranks" : "the number of ranks";
    if (ranks % tensor)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.tensor: %d does not divide the number of ranks, %d: give "
                          "another --nproc-per-node, or another parallel.tensor",
                          tensor, ranks);
    if (local % tensor)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.tensor: %d does not divide the number of this host's ranks, "
                          "%d: those who share tensors are to be on one host; give another "
                          "parallel.tensor",
                          tensor, local);
    if (ranks / tensor % expert || local / tensor % expert)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.expert: %d does not divide %s, %d, and of "
                          "this host's, %d: those who share experts are to be on one host; give "
                          "another --nproc-per-node, or another parallel.expert",
                          expert, left, ranks / tensor, local / tensor);
    if (ranks / tensor % pipeline)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.pipeline: %d does not divide %s, %d: give another "
                          "--nproc-per-node, or another parallel.pipeline",
                          pipeline, left, ranks / tensor);
    if (ranks / tensor / pipeline % context)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.context: %d does not divide %s, %d: give another "
                          "--nproc-per-node, or another parallel.context",
                          context, dt_config_left(p), ranks / tensor / pipeline);
    if (ranks / tensor / pipeline / context % expert)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.expert: %d does not divide what %sparallel.pipeline and "
                          "parallel.context leave of the ranks, %d: give another "
                          "--nproc-per-node, or another parallel.expert",
                          expert, tensor > 1 ? "parallel.tensor, " : "",
                          ranks / tensor / pipeline / context);
    return 0;
}

void dt_next_mesh_machine(const struct dt_next_world *w, const struct dt_gpu_memory *gpu,
                          struct dt_machine *out)
{
    int local = w->least_local == w->most_local ? w->least_local : 1;
    dt_machine_init(out, local, w->threads, w->memory * (size_t)local);
    if (gpu)
        dt_machine_see(out, local, gpu);
    if (out->tera == 0)
        out->tera = dt_mfu_peak("A100", DT_BF16) / TERA;
    out->hosts = w->ranks / local;
}

/* Samples of a step; 0: only numbers of each rank are known, and the world that multiplied them is
 * not. */
static int64_t batch_of(const struct dt_config *c, int64_t before)
{
    return c->batch.train_batch > 0 ? c->batch.train_batch : before;
}

int dt_next_mesh_choose(const struct dt_config *c, const struct dt_machine *m, int64_t batch,
                        struct dt_plan *out, struct dt_err *err)
{
    struct dt_config known = *c;
    struct dt_suggestions s;
    known.batch.train_batch = batch_of(c, batch);
    int rc = dt_suggest_as_written(&known, m, &s, err);
    if (rc == 0 && !s.best)
        rc = dt_err_set(err, DT_E_USAGE, "none of the meshes that fit runs in this version");
    if (rc == 0)
        *out = s.best->plan;
    dt_suggest_finish(&s);
    return rc;
}

int dt_next_mesh_put(const struct dt_config *c, const struct dt_plan *p, int64_t batch,
                     struct dt_config *out, struct dt_err *err)
{
    const int *size = p->mesh.size;
    *out = *c;
    out->parallel = (struct dt_config_parallel){.tensor = size[DT_MESH_TP],
                                                .sequence = p->sequence,
                                                .pipeline = size[DT_MESH_PP],
                                                .schedule = DT_PIPE_1F1B,
                                                .chunks = 1,
                                                .context = size[DT_MESH_CP],
                                                .context_by = DT_BY_KEYS,
                                                .expert = size[DT_MESH_EP],
                                                .elastic = c->parallel.elastic};
    if (batch_of(c, batch) > 0)
        out->batch = (struct dt_config_batch){batch_of(c, batch), p->micro, p->accumulation};
    return dt_config_check_parallel(out, err);
}

/* What of a configured mesh is more than 1. */
static void say_shared(const struct dt_config_parallel *p, struct dt_buf *out)
{
    const struct {
        const char *what;
        int by;
    } rows[] = {{"tensors", p->tensor},
                {"layers", p->pipeline},
                {"samples", p->context},
                {"experts", p->expert}};
    int said = 0, all = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        all += rows[i].by > 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].by > 1 && ++said)
            dt_buf_printf(out, "%s%s by %d",
                          said == 1     ? ""
                          : said == all ? " and "
                                        : ", ",
                          rows[i].what, rows[i].by);
}

static void say_taken(const struct dt_plan *p, struct dt_buf *out)
{
    static const struct {
        const char *name;
        enum dt_mesh_dim dim;
    } rows[] = {{"tensor", DT_MESH_TP},
                {"pipeline", DT_MESH_PP},
                {"context", DT_MESH_CP},
                {"expert", DT_MESH_EP}};
    int shared = 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int size = p->mesh.size[rows[i].dim];
        if (size > 1)
            dt_buf_printf(out, "%s%s %d", shared > 1 ? ", " : "", rows[i].name, size);
        shared *= size;
    }
    if (p->mesh.size[DT_MESH_DP] > 1 || shared == 1)
        dt_buf_printf(out, "%sdata %d", shared > 1 ? ", " : "", p->mesh.size[DT_MESH_DP]);
}

void dt_next_mesh_say(const struct dt_config *c, const struct dt_plan *p, struct dt_buf *out)
{
    struct dt_buf shared = {0}, taken = {0};
    int ranks = 1;
    for (int dim = 0; dim < DT_MESH_DIMS; dim++)
        ranks *= p->mesh.size[dim];
    say_shared(&c->parallel, &shared);
    say_taken(p, &taken);
    dt_buf_printf(out, "this world has %d rank%s, which cannot share %s: %s from here on", ranks,
                  ranks == 1 ? "" : "s", dt_buf_cstr(&shared), dt_buf_cstr(&taken));
    dt_buf_finish(&shared);
    dt_buf_finish(&taken);
}

/* -- what ranks know -------------------------------------------------------------------------- */

/* Of this host, or of the group that its ranks are limited to. */
static size_t host_memory(void)
{
    struct dt_cgroup group;
    size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    dt_cgroup_find(&group, "memory", "");
    int64_t limit = dt_cgroup_memory_limit(&group);
    return limit > 0 && (uint64_t)limit < all ? (size_t)limit : all;
}

/* The newest checkpoint, if this job has saved it. */
static bool peek_at_own(const struct dt_trainer *t, struct dt_ckpt_state *s)
{
    const char *dir = t->config->train.save_dir;
    char path[PATH_MAX];
    return dir && dt_context_epoch(t->context) > 0 &&
           dt_ckpt_find(dir, path, sizeof path, NULL, NULL) == 0 && *path &&
           dt_ckpt_peek(path, s, NULL) == 0 && dt_keeper_is_of_job(t, s);
}

/* What this rank knows, into W; whether it knows of a world before. */
static bool look_back(const struct dt_trainer *t, struct dt_next_world *w)
{
    int local = dt_context_local_world(t->context);
    struct dt_ckpt_state saved = {0};
    *w = (struct dt_next_world){.ranks = t->ranks,
                                .least_local = local,
                                .most_local = local,
                                .threads = dt_context_threads(t->context),
                                .memory = host_memory() / (size_t)local,
                                .batch = *t->options->batch_before};
    bool follows = w->batch > 0 || dt_vault_has_earlier(dt_context_epoch(t->context));
    if (t->rank != 0 || !peek_at_own(t, &saved))
        return follows;
    if (w->batch == 0)
        w->batch = saved.train_batch;
    return true;
}

/* What all know, into W. Collective. */
static int look_together(const struct dt_trainer *t, struct dt_next_world *w, bool *follows,
                         struct dt_err *err)
{
    bool own = look_back(t, w);
    int64_t most[] = {own, w->batch, w->most_local};
    int64_t least[] = {w->least_local, w->threads, (int64_t)w->memory};
    if (dt_coll_all_reduce(t->world, most, 3, DT_I64, DT_MAX, err) < 0 ||
        dt_coll_all_reduce(t->world, least, 3, DT_I64, DT_MIN, err) < 0)
        return -1;
    *follows = most[0] > 0;
    w->batch = most[1];
    w->most_local = (int)most[2];
    w->least_local = (int)least[0];
    w->threads = (int)least[1];
    w->memory = (size_t)least[2];
    return 0;
}

/* -- taking it -------------------------------------------------------------------------------- */

/* Rank 0's own GPU stands for all: it is the first of its host. */
static int choose(const struct dt_trainer *t, const struct dt_next_world *w, struct dt_plan *out,
                  struct dt_err *err)
{
    bool on_gpu = strcmp(t->device->name, "cpu") != 0;
    struct dt_gpu_memory gpu;
    struct dt_machine m;
    if (on_gpu && dt_device_gpu_memory(1, &gpu, err) < 0)
        return -1;
    dt_next_mesh_machine(w, on_gpu ? &gpu : NULL, &m);
    return dt_next_mesh_choose(t->config, &m, w->batch, out, err);
}

/* What rank 0 chose, on all; if it could choose none, that is said behind WHY. */
static int choose_together(struct dt_trainer *t, const struct dt_next_world *w, struct dt_plan *p,
                           struct dt_err *why)
{
    struct dt_err none = {0};
    int rc = t->rank == 0 ? choose(t, w, p, &none) : 0;
    if (rc < 0)
        dt_err_wrap(&none, "%.200s; and no other mesh is taken", why->text);
    if (dt_agree(t->world, rc, &none) == 0)
        return dt_coll_broadcast(t->world, p, sizeof *p, DT_U8, 0, why);
    *why = none;
    return -1;
}

int dt_next_mesh_take(struct dt_trainer *t, struct dt_err *why)
{
    const struct dt_config *c = t->config;
    struct dt_next_world w;
    struct dt_plan plan = {0};
    struct dt_err other = {0};
    bool follows;
    if (look_together(t, &w, &follows, &other) < 0) {
        *why = other;
        return -1;
    }
    if (!follows || choose_together(t, &w, &plan, why) < 0)
        return -1;
    int rc = dt_agree(t->world, dt_next_mesh_put(c, &plan, w.batch, &t->other, &other), &other);
    if (rc < 0) {
        *why = other;
        return -1;
    }
    t->config = &t->other;
    if (t->rank == 0) {
        dt_next_mesh_say(c, &plan, &t->warnings);
        dt_buf_put_str(&t->warnings, "\n");
    }
    return 0;
}
