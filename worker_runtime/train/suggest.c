/* SPDX-License-Identifier: Apache-2.0 */
/* Every mesh is tried: of each, the ways to run it are put in the order of what they cost, and the
 * first that fits is the one. Memory is the estimate's. */
#include "worker_runtime/train/suggest.h"

#include "base/str.h"
#include "worker_runtime/model/packed.h"
#include "worker_runtime/train/estimate.h"

#include <stdlib.h>
#include <string.h>

#define STAGES 4
#define MICROS_MOST 24
#define WAYS_MOST (2 * STAGES * MICROS_MOST)
/* Products of so many rows are as fast as they get. */
#define GPU_ROWS 32768
#define CORE_ROWS 2048
/* Fewer positions on a rank are not worth cutting a sample for. */
#define LEAST_POSITIONS 2048

struct search {
    const struct dt_config *c;
    const struct dt_machine *m;
    struct dt_suggestions *out;
    size_t elem, room_for;      /* suggestions that OUT has memory for */
    struct dt_suggestion least; /* of what did not fit, that with the least memory */
    double adapters, frozen;    /* as in struct dt_step_work */
    bool as_written;            /* stage and recomputing are the configuration's */
};

struct way {
    struct dt_plan plan;
    struct dt_cost cost;
};

static int size(const struct dt_plan *p, enum dt_mesh_dim dim)
{
    return p->mesh.size[dim];
}

/* -- what a way to run it takes --------------------------------------------------------------- */

/* A configuration of that plan; it owns nothing. */
static struct dt_config trial_of(const struct search *s, const struct dt_plan *p)
{
    struct dt_config trial = *s->c;
    trial.parallel.tensor = size(p, DT_MESH_TP);
    trial.parallel.pipeline = size(p, DT_MESH_PP);
    trial.parallel.sequence = p->sequence;
    trial.parallel.schedule = DT_PIPE_1F1B;
    trial.parallel.context = size(p, DT_MESH_CP);
    trial.parallel.context_by = DT_BY_KEYS;
    trial.parallel.expert = size(p, DT_MESH_EP);
    trial.model.recompute = p->recompute;
    if (!s->as_written)
        trial.model.recompute_every = 1;
    trial.batch =
        (struct dt_config_batch){.micro_batch = p->micro, .accumulation = p->accumulation};
    return trial;
}

static int memory_of(const struct search *s, const struct dt_plan *p, size_t *bytes,
                     struct dt_err *err)
{
    const struct dt_machine *m = s->m;
    struct dt_config trial = trial_of(s, p);
    struct dt_estimate_place at = {.world = m->hosts * m->local,
                                   .local = m->local,
                                   .on_gpu = m->gpus,
                                   .gpus = m->gpus ? m->local : 0};
    struct dt_estimate e;
    at.gpu.scratch = m->scratch;
    if (dt_estimate(&trial, &at, p->stage, &e, err) < 0)
        return -1;
    *bytes = e.total;
    return 0;
}

/* What is there today: all of it on processors, and on GPUs what a configuration may ask of them.
 */
static bool runs_today(const struct search *s, const struct dt_plan *p)
{
    struct dt_config trial = trial_of(s, p);
    return !s->m->gpus || dt_config_check_gpu(&trial, NULL) == 0;
}

/* -- the ways to run one mesh ----------------------------------------------------------------- */

/* Those worth trying of the micro-batches that SAMPLES are cut into: a larger one than that with
 * ENOUGH samples takes memory and gains nothing. What is written is tried in any case. */
static size_t put_micros(int64_t samples, int64_t written, int64_t enough, int64_t out[MICROS_MOST])
{
    size_t count = 0;
    bool told = false;
    for (int64_t n = 1; samples % n == 0 && (n == 1 || n <= enough) && count < MICROS_MOST - 1;
         n *= 2) {
        out[count++] = n;
        told = told || n == written;
    }
    if (written > 0 && !told && samples % written == 0)
        out[count++] = written;
    return count;
}

static int compare_ways(const void *one, const void *other)
{
    const struct way *a = one, *b = other;
    if (a->cost.seconds != b->cost.seconds)
        return a->cost.seconds < b->cost.seconds ? -1 : 1;
    if (a->plan.stage != b->plan.stage)
        return a->plan.stage - b->plan.stage;
    return a->plan.micro < b->plan.micro ? -1 : a->plan.micro > b->plan.micro;
}

/* As the configuration wants it, where it can be. */
static bool shares_rows(const struct search *s, const struct dt_mesh_shape *mesh)
{
    const struct dt_config_parallel p = {.tensor = mesh->size[DT_MESH_TP],
                                         .context = mesh->size[DT_MESH_CP]};
    return s->c->parallel.sequence && p.tensor > 1 &&
           dt_config_shares_rows(&p, s->c->data.positions);
}

/* Stages that spread gradients and parameters go with no pipeline: each of its micro-batches would
 * sum and gather them anew. A configuration may have its gradients spread there nevertheless. */
static bool is_wanted(const struct search *s, const struct dt_plan *p)
{
    int ranks = size(p, DT_MESH_DP) * size(p, DT_MESH_CP);
    bool stages = size(p, DT_MESH_PP) > 1;
    if (s->as_written)
        return p->stage == s->c->zero.stage && p->recompute == s->c->model.recompute &&
               (!stages || p->stage < 3);
    return p->stage < (ranks == 1 ? 1 : stages ? 2 : STAGES);
}

static size_t put_ways(const struct search *s, const struct dt_mesh_shape *mesh,
                       const struct dt_shape *part, struct way out[WAYS_MOST])
{
    int64_t micros[MICROS_MOST], learners = mesh->size[DT_MESH_DP] * mesh->size[DT_MESH_EP];
    int64_t samples = s->out->batch / learners;
    int64_t rows = (int64_t)s->c->data.positions / mesh->size[DT_MESH_CP];
    int64_t enough = (s->m->gpus ? GPU_ROWS : CORE_ROWS) / rows;
    const struct dt_step_work work = {.shape = &s->c->model.shape,
                                      .part = part,
                                      .positions = s->c->data.positions,
                                      .elem = s->elem,
                                      .float_sums = s->c->zero.float_sums,
                                      .adapters = s->adapters,
                                      .frozen = s->frozen};
    size_t count = 0, micro_count = put_micros(samples, s->c->batch.micro_batch, enough, micros);
    for (size_t i = 0; i < micro_count; i++) {
        if (mesh->size[DT_MESH_PP] > 1 && samples / micros[i] > DT_PIPE_MICROS_MOST)
            continue;
        for (int way = 0; way < 2 * STAGES; way++) {
            const struct dt_plan plan = {.mesh = *mesh,
                                         .stage = way / 2,
                                         .recompute = way % 2 == 1,
                                         .sequence = shares_rows(s, mesh),
                                         .micro = micros[i],
                                         .accumulation = samples / micros[i]};
            if (is_wanted(s, &plan))
                out[count++] = (struct way){plan, dt_plan_cost(&work, &plan, s->m)};
        }
    }
    qsort(out, count, sizeof *out, compare_ways);
    return count;
}

static int append(struct search *s, const struct dt_suggestion *one, struct dt_err *err)
{
    if (s->out->count == s->room_for) {
        size_t more = s->room_for ? 2 * s->room_for : 64;
        struct dt_suggestion *grown = realloc(s->out->at, more * sizeof *grown);
        if (!grown)
            return dt_err_set(err, DT_E_MEMORY, "no memory for %zu suggestions", more);
        s->out->at = grown;
        s->room_for = more;
    }
    s->out->at[s->out->count++] = *one;
    return 0;
}

/* A larger micro-batch than one that does not fit does not fit either. */
static bool known_to_fail(int64_t least[STAGES][2], const struct dt_plan *p)
{
    int64_t failed = least[p->stage][p->recompute];
    return failed > 0 && p->micro >= failed;
}

static int try_mesh(struct search *s, const struct dt_mesh_shape *mesh, const struct dt_shape *part,
                    struct dt_err *err)
{
    struct way ways[WAYS_MOST];
    int64_t failed[STAGES][2] = {{0}};
    size_t count = put_ways(s, mesh, part, ways);
    for (size_t i = 0; i < count; i++) {
        struct dt_suggestion one = {.plan = ways[i].plan, .cost = ways[i].cost};
        if (known_to_fail(failed, &one.plan))
            continue;
        if (memory_of(s, &one.plan, &one.memory, err) < 0)
            return -1;
        one.today = runs_today(s, &one.plan);
        if (one.memory <= s->out->room)
            return append(s, &one, err);
        failed[one.plan.stage][one.plan.recompute] = one.plan.micro;
        if (s->least.memory == 0 || one.memory < s->least.memory)
            s->least = one;
    }
    return 0;
}

/* -- all meshes ------------------------------------------------------------------------------- */

/* As the configuration would be refused else. */
static bool may_cut_tensors(const struct dt_config *c, int ranks)
{
    return ranks == 1 || (!c->lora.dora && !c->lora_nf4);
}

static bool may_cut_positions(const struct search *s, int ranks)
{
    size_t positions = s->c->data.positions;
    return ranks == 1 ||
           (positions % (2 * (size_t)ranks) == 0 && positions / (size_t)ranks >= LEAST_POSITIONS);
}

static bool may_cut_layers(const struct search *s, int stages)
{
    bool may = s->c->train.balance == DT_BALANCE_OFF;
    return stages == 1 || (may && (size_t)stages <= s->c->model.shape.layers);
}

/* Those who share experts are on one host, and have as much to do. */
static bool may_share_experts(const struct search *s, int tensor, int ranks)
{
    const struct dt_config *c = s->c;
    struct dt_shape part;
    return ranks == 1 || (c->model.shape.experts > 0 && c->train.balance == DT_BALANCE_OFF &&
                          s->m->local / tensor % ranks == 0 &&
                          dt_shape_share_experts(&c->model.shape, (size_t)ranks, &part, NULL) == 0);
}

/* RANKS are left for experts and data. */
static int try_experts(struct search *s, const struct dt_mesh_shape *of, int ranks,
                       const struct dt_shape *part, struct dt_err *err)
{
    for (int experts = 1; experts <= ranks; experts++) {
        struct dt_mesh_shape mesh = *of;
        mesh.size[DT_MESH_EP] = experts;
        mesh.size[DT_MESH_DP] = ranks / experts;
        if (ranks % experts || !may_share_experts(s, of->size[DT_MESH_TP], experts))
            continue;
        if (try_mesh(s, &mesh, part, err) < 0)
            return -1;
    }
    return 0;
}

/* RANKS are left for pipeline, experts and data. */
static int try_stages(struct search *s, int tensor, int context, int ranks,
                      const struct dt_shape *part, struct dt_err *err)
{
    for (int stages = 1; stages <= ranks; stages++) {
        const struct dt_mesh_shape mesh = {
            {[DT_MESH_PP] = stages, [DT_MESH_CP] = context, [DT_MESH_TP] = tensor}};
        if (ranks % stages || !may_cut_layers(s, stages) || s->out->batch % (ranks / stages))
            continue;
        if (try_experts(s, &mesh, ranks / stages, part, err) < 0)
            return -1;
    }
    return 0;
}

static int try_all(struct search *s, struct dt_err *err)
{
    int world = s->m->hosts * s->m->local;
    for (int tensor = 1; tensor <= s->m->local; tensor++) {
        struct dt_shape part;
        if (s->m->local % tensor || !may_cut_tensors(s->c, tensor) ||
            dt_shape_cut(&s->c->model.shape, (size_t)tensor, &part, NULL) < 0)
            continue;
        for (int context = 1; context <= world / tensor; context *= 2)
            if (world / tensor % context == 0 && may_cut_positions(s, context) &&
                try_stages(s, tensor, context, world / tensor / context, &part, err) < 0)
                return -1;
    }
    return 0;
}

static int compare(const void *one, const void *other)
{
    const struct dt_suggestion *a = one, *b = other;
    if (a->cost.seconds != b->cost.seconds)
        return a->cost.seconds < b->cost.seconds ? -1 : 1;
    return memcmp(&a->plan.mesh, &b->plan.mesh, sizeof a->plan.mesh);
}

/* The step is the configuration's, whatever the mesh: what it says of all ranks, each of which has
 * samples of its own unless it says otherwise. */
static int settle_batch(const struct search *s, struct dt_err *err)
{
    struct dt_batch b;
    const struct dt_config_parallel *p = &s->c->parallel;
    int64_t shared = (int64_t)p->tensor * p->context * p->pipeline;
    int world = s->m->hosts * s->m->local;
    if (s->c->batch.train_batch > 0) {
        s->out->batch = s->c->batch.train_batch;
        return 0;
    }
    if (dt_batch_resolve(&b, &s->c->batch, world % shared ? world : (int)(world / shared), err) < 0)
        return -1;
    s->out->batch = b.train;
    return 0;
}

/* No mesh of these ranks has an even share of the batch; or none has the memory. */
static int nothing_fits(const struct search *s, struct dt_err *err)
{
    char memory[24], room[24], missing[24], mesh[80];
    const struct dt_suggestion *one = &s->least;
    if (one->memory == 0)
        return dt_err_set(err, DT_E_USAGE,
                          "train_batch_size: %lld samples cannot be shared evenly by %d ranks, in "
                          "whatever mesh; give a multiple of %d",
                          (long long)s->out->batch, s->m->hosts * s->m->local,
                          s->m->hosts * s->m->local);
    dt_plan_say(&one->plan, mesh, sizeof mesh);
    return dt_err_set(
        err, DT_E_RUNTIME,
        "nothing fits: least is taken by %s, %s of each rank, which has %s, so %s are "
        "missing; more hosts, ranks with more memory or shorter samples would help",
        mesh, dt_str_from_size(one->memory, memory, sizeof memory),
        dt_str_from_size(s->out->room, room, sizeof room),
        dt_str_from_size(one->memory - s->out->room, missing, sizeof missing));
}

/* Where the configuration would compute. Of what is offloaded neither the host's memory nor the
 * time of an update there is in the model of costs. */
static int check_hosts(const struct dt_config *c, const struct dt_machine *m, struct dt_err *err)
{
    if (dt_machine_check(m, err) < 0)
        return -1;
    if (!m->gpus && strcmp(c->train.device, "cuda") == 0)
        return dt_err_set(err, DT_E_USAGE,
                          "train.device is \"cuda\", and there is no GPU on these hosts; describe "
                          "hosts that have some, as --machine gpus=8,gpu=H100, or set "
                          "train.device=auto");
    if (m->gpus && (c->zero.offload || c->zero.offload_params))
        return dt_err_set(err, DT_E_USAGE,
                          "what zero_optimization.offload_optimizer and offload_param cost on GPUs "
                          "is not modelled yet; drop them to see what fits without, or ask "
                          "--estimate what they take");
    return 0;
}

static double count_of(const struct dt_tensor *tensors, size_t count)
{
    double all = 0;
    for (size_t i = 0; i < count; i++)
        all += (double)tensors[i].count;
    return all;
}

/* A model in NF4 is gathered as the words that it is packed in. */
static int count_adapters(struct search *s, struct dt_err *err)
{
    const struct dt_config *c = s->c;
    const struct dt_shape *shape = &c->model.shape;
    size_t count;
    if (c->lora.r == 0)
        return 0;
    struct dt_tensor *own = dt_lora_tensors(&c->lora, shape, &count, err);
    if (!own)
        return -1;
    s->adapters = count_of(own, count);
    free(own);
    s->frozen = (double)dt_shape_params(shape) * (double)s->elem;
    if (!c->lora_nf4)
        return 0;
    struct dt_tensor *words =
        dt_packed_tensors(shape, s->elem == sizeof(float) ? DT_F32 : DT_BF16, err);
    if (!words)
        return -1;
    s->frozen = count_of(words, dt_shape_tensor_count(shape)) * sizeof(uint32_t);
    free(words);
    return 0;
}

static int search(struct search *s, struct dt_err *err)
{
    const struct dt_config *c = s->c;
    const struct dt_machine *m = s->m;
    struct dt_suggestions *out = s->out;
    *out = (struct dt_suggestions){.room = dt_machine_room(m)};
    if (!c->has_model)
        return dt_err_set(err, DT_E_USAGE,
                          "there is neither model.config nor model.weights to share");
    if (check_hosts(c, m, err) < 0)
        return -1;
    s->elem = m->gpus ? dt_dtype_size(dt_config_gpu_elem(c)) : sizeof(float);
    if (settle_batch(s, err) < 0 || count_adapters(s, err) < 0 || try_all(s, err) < 0)
        return -1;
    if (out->count == 0)
        return nothing_fits(s, err);
    qsort(out->at, out->count, sizeof *out->at, compare);
    out->fastest = out->at;
    for (size_t i = 0; i < out->count && !out->best; i++)
        out->best = out->at[i].today ? &out->at[i] : NULL;
    return 0;
}

int dt_suggest(const struct dt_config *c, const struct dt_machine *m, struct dt_suggestions *out,
               struct dt_err *err)
{
    struct search s = {.c = c, .m = m, .out = out};
    return search(&s, err);
}

int dt_suggest_as_written(const struct dt_config *c, const struct dt_machine *m,
                          struct dt_suggestions *out, struct dt_err *err)
{
    struct search s = {.c = c, .m = m, .out = out, .as_written = true};
    return search(&s, err);
}

void dt_suggest_finish(struct dt_suggestions *s)
{
    free(s->at);
    *s = (struct dt_suggestions){0};
}
