/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of this world share the work, as the configuration wants it or next_mesh.h says. */
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/coll/backend.h"
#include "worker_runtime/inside.h"
#include "worker_runtime/model/lora_cut.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/train/next_mesh.h"
#include "worker_runtime/zero/update.h"

#include <stdlib.h>

/* What all ranks have to have the same; TOLD: the value says something to a person. */
struct alike {
    const char *what;
    int64_t value;
    bool told;
};

#define ALIKE_MOST 8

static int refuse_other(const struct alike *own, int64_t first, struct dt_err *err)
{
    if (own->told)
        return dt_err_set(err, DT_E_USAGE,
                          "%s is %lld here, and %lld where rank 0 is; give all hosts the same "
                          "configuration",
                          own->what, (long long)own->value, (long long)first);
    return dt_err_set(err, DT_E_USAGE,
                      "%s is not what it is where rank 0 is; give all hosts the same configuration",
                      own->what);
}

/* Collective. */
static int check_alike(struct dt_trainer *t, const struct alike *own, size_t count,
                       struct dt_err *err)
{
    int64_t first[ALIKE_MOST];
    int rc = 0;
    for (size_t i = 0; i < count; i++)
        first[i] = own[i].value;
    if (dt_coll_broadcast(t->world, first, count * sizeof *first, DT_U8, 0, err) < 0)
        return -1;
    for (size_t i = 0; i < count && rc == 0; i++)
        if (own[i].value != first[i])
            rc = refuse_other(&own[i], first[i], err);
    return dt_agree(t->world, rc, err);
}

/* Ranks of other meshes would wait for each other in groups that only some of them open. */
static int check_mesh(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_config_parallel *p = &t->config->parallel;
    const struct alike own[] = {
        {"parallel.tensor", p->tensor, true},          {"parallel.sequence", p->sequence, false},
        {"parallel.pipeline", p->pipeline, true},      {"parallel.context", p->context, true},
        {"parallel.context_by", p->context_by, false}, {"parallel.expert", p->expert, true},
        {"parallel.elastic", p->elastic, false}};
    return check_alike(t, own, sizeof own / sizeof *own, err);
}

/* Of ranks that share experts each picks for itself what all have to pick. The bits of a product
 * hang on how many threads it is cut for. Collective. */
static int check_threads(const struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_mesh_axis *axis = dt_trainer_tensor(t);
    int32_t own = dt_context_threads(t->context), most = own;
    int rc = 0;
    if (axis->size == 1 || t->config->model.shape.experts == 0)
        return 0;
    if (dt_coll_all_reduce(axis->group, &most, 1, DT_I32, DT_MAX, err) < 0)
        return -1;
    if (own < most)
        rc = dt_err_set(err, DT_E_USAGE,
                        "parallel.tensor: this rank computes with %d thread%s, and another one "
                        "that shares its experts with %d, whose router may so pick others; set "
                        "train.threads, or OMP_NUM_THREADS alike for all ranks of a host",
                        own, own == 1 ? "" : "s", most);
    return dt_agree(t->world, rc, err);
}

int dt_parallel_check(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_config *c = t->config;
    const struct alike own[] = {
        {"train_micro_batch_size_per_gpu", t->batch.micro, true},
        {"gradient_accumulation_steps", t->batch.accumulation, true},
        {"data.sequence_length", (int64_t)c->data.positions, true},
        {"activation_checkpointing", c->model.recompute, false},
        {"parallel.schedule", c->parallel.schedule, false},
        {"parallel.chunks", c->parallel.chunks, true},
        {"the model, whose blocks the stages have,", (int64_t)dt_stages_mark(c), false}};
    bool stages = c->parallel.pipeline > 1;
    if (check_threads(t, err) < 0)
        return -1;
    return check_alike(t, own, stages ? sizeof own / sizeof *own : 3, err);
}

/* Where the head is tied, the first and the last stage have the words, and so has each of those
 * that share experts there. Beside adapters they are frozen. */
static int open_ends(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_mesh_axis *axis = dt_trainer_pipeline(t);
    struct dt_mesh_place place = dt_mesh_place(&t->recut.mesh, t->rank);
    bool end = axis->index == 0 || axis->index == axis->size - 1;
    if (axis->size == 1 || !t->config->model.shape.tied || t->config->lora.r > 0)
        return 0;
    int key = axis->index * dt_trainer_experts(t)->size + dt_trainer_experts(t)->index;
    place.index[DT_MESH_PP] = place.index[DT_MESH_EP] = 0;
    return dt_coll_split(t->world, end ? dt_mesh_rank(&t->recut.mesh, &place) : -1, key, &t->ends,
                         err);
}

static void open_context(struct dt_trainer *t)
{
    const struct dt_mesh_axis *axis = dt_trainer_context(t);
    t->context_team = (struct dt_team){.group = axis->group, .index = axis->index};
    t->pieces = (struct dt_pieces){.ranks = (size_t)axis->size,
                                   .rank = (size_t)axis->index,
                                   .positions = t->config->data.positions,
                                   .by = t->config->parallel.context_by};
}

/* The mesh of T's configuration, be it another one by now: each rank looks at its own host. */
static int check_ranks(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_config_parallel *p = &t->config->parallel;
    if (p->tensor == 1 && p->pipeline == 1 && p->context == 1 && p->expert == 1)
        return 0;
    int rc = dt_next_mesh_fits(p, t->ranks, dt_context_local_world(t->context), err);
    return dt_agree(t->world, rc, err);
}

static int settle_mesh(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_err why = {0};
    if (check_mesh(t, err) < 0)
        return -1;
    if (check_ranks(t, &why) == 0)
        return 0;
    if (t->config->parallel.elastic && !dt_agree_is_lost(&why) && dt_next_mesh_take(t, &why) == 0)
        return check_ranks(t, err);
    *err = why;
    return -1;
}

int dt_parallel_open(struct dt_trainer *t, struct dt_err *err)
{
    if (settle_mesh(t, err) < 0)
        return -1;
    const struct dt_config_parallel *p = &t->config->parallel;
    int tensor = p->tensor, pipeline = p->pipeline, context = p->context, expert = p->expert;
    const struct dt_mesh_shape shape = {
        {[DT_MESH_PP] = pipeline,
         [DT_MESH_DP] = t->ranks / tensor / pipeline / context / expert,
         [DT_MESH_CP] = context,
         [DT_MESH_EP] = expert,
         [DT_MESH_TP] = tensor}};
    if (dt_mesh_open(&t->mesh, &shape, t->world, err) < 0)
        return -1;
    const struct dt_mesh_axis *axis = dt_trainer_tensor(t);
    t->team =
        (struct dt_team){.group = axis->group, .index = axis->index, .shares_rows = p->sequence};
    open_context(t);
    axis = dt_trainer_experts(t);
    t->experts = (struct dt_team){.group = axis->group, .index = axis->index};
    /* Who shares a sample shares the optimizer, as if it had one of its own. */
    t->recut = (struct dt_recut){.mesh = shape, .world = t->world};
    t->recut.mesh.size[DT_MESH_DP] *= context;
    t->recut.mesh.size[DT_MESH_CP] = 1;
    return open_ends(t, err);
}

/* What is trained beside the blocks of STAGE. */
static struct dt_tensor *adapters_of(const struct dt_lora *l, const struct dt_shape *whole,
                                     const struct dt_stage *stage, struct dt_err *err)
{
    size_t count;
    struct dt_tensor *tensors = dt_lora_tensors(l, whole, &count, err);
    if (tensors)
        dt_lora_keep(l, whole, stage, tensors, count);
    return tensors;
}

/* What a rank of STAGE has that has part number EXPERTS of a model's experts; WHOLE: what all
 * stages of all such ranks have. */
static struct dt_tensor *part_of(const struct dt_trainer *t, const struct dt_shape *whole,
                                 const struct dt_stage *stage, size_t experts, struct dt_err *err)
{
    size_t parts = (size_t)t->config->parallel.expert;
    if (t->saved.lora)
        return adapters_of(t->saved.lora, whole, stage, err);
    struct dt_tensor *tensors = dt_shape_tensors(whole, err);
    if (tensors && parts > 1)
        dt_shape_keep_experts(whole, parts, experts, tensors);
    if (tensors)
        dt_stage_keep(whole, stage, tensors);
    return tensors;
}

/* Each rank knows what all have: it takes a place in files, and no message. */
static int cut_parts(struct dt_trainer *t, const struct dt_shape *whole,
                     const struct dt_stage *stages, struct dt_err *err)
{
    const struct dt_config_parallel *p = &t->config->parallel;
    size_t experts = (size_t)p->expert, count = (size_t)p->pipeline * experts;
    size_t stage = (size_t)dt_trainer_pipeline(t)->index;
    t->all_parts = calloc(count, sizeof *t->all_parts);
    if (!t->all_parts)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu parts", count);
    for (size_t i = 0; i < count; i++) {
        t->all_parts[i] = part_of(t, whole, &stages[i / experts], i % experts, err);
        if (!t->all_parts[i])
            return -1;
    }
    t->stage = stages[stage];
    t->parts = t->all_parts[stage * experts + (size_t)dt_trainer_experts(t)->index];
    t->recut.parts = t->all_parts;
    t->saved.recut = &t->recut;
    return 0;
}

int dt_parallel_cut(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_config_parallel *p = &t->config->parallel;
    const struct dt_shape *shape = &t->config->model.shape;
    struct dt_shape whole = *shape;
    struct dt_stage *stages;
    t->part = *shape;
    if (p->tensor == 1 && p->pipeline == 1 && p->expert == 1)
        return 0;
    if (p->tensor > 1 && dt_shape_cut(shape, (size_t)p->tensor, &whole, err) < 0)
        return -1;
    t->part = whole;
    if (p->expert > 1 && dt_shape_share_experts(&whole, (size_t)p->expert, &t->part, err) < 0)
        return -1;
    if (dt_stages_split(t->config, &stages, err) < 0)
        return -1;
    int rc = cut_parts(t, &whole, stages, err);
    free(stages);
    return rc;
}

/* Of what is the same on each rank: a norm of queries or keys serves all heads, a router and a
 * shared expert's weight all of the inner width of experts, and the last norm all words, of which
 * each rank has some. Where rows are shared each norm serves a rank's own; a bias behind a row
 * layer still all rows. Of an adapter A serves outputs, or B inputs, of which each rank has some.
 */
static bool has_parts_of_gradients(const struct dt_trainer *t, const struct dt_tensor *one)
{
    const struct dt_shape *s = &t->config->model.shape;
    bool block = one->unit > 0 && one->unit <= s->layers;
    if (t->saved.lora)
        return true;
    bool row_bias = s->family == DT_GPT2 &&
                    (one->which == DT_GPT2_ATTN_PROJ_BIAS || one->which == DT_GPT2_MLP_PROJ_BIAS);
    if (one->unit > s->layers)
        return true;
    bool head_norm = one->which == DT_LLAMA_Q_NORM || one->which == DT_LLAMA_K_NORM;
    bool weighs = one->which == DT_LLAMA_ROUTER || one->which == DT_LLAMA_SHARED_SWITCH;
    if (t->config->parallel.sequence)
        return block && !row_bias;
    return s->family != DT_GPT2 && block && (head_norm || weighs);
}

/* What ranks compute together is in the memory of their devices. HOST NULL: nothing. */
static int open_there(struct dt_trainer *t, struct dt_coll *host, struct dt_coll **out,
                      struct dt_err *err)
{
    if (!t->device->coll || !host)
        return 0;
    *out = dt_coll_beside(host, t->device->coll, t->device, err);
    return *out ? 0 : dt_err_wrap(err, "parallel");
}

static int open_team_there(struct dt_trainer *t, const struct dt_mesh_axis *axis,
                           struct dt_team *team, struct dt_coll **out, struct dt_err *err)
{
    if (axis->size > 1 && open_there(t, axis->group, out, err) < 0)
        return -1;
    if (*out)
        team->group = *out;
    return 0;
}

static int open_all_there(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_mesh_axis *context = dt_trainer_context(t), *experts = dt_trainer_experts(t);
    if (open_team_there(t, dt_trainer_tensor(t), &t->team, &t->team_there, err) < 0 ||
        open_team_there(t, context, &t->context_team, &t->context_there, err) < 0 ||
        open_team_there(t, experts, &t->experts, &t->experts_there, err) < 0)
        return -1;
    return open_there(t, t->ends, &t->ends_there, err);
}

/* By which ranks sum up what each has of gradients: where these are when a step ends. THERE NULL:
 * the host's memory. */
static struct dt_coll *group_of_gradients(const struct dt_trainer *t, struct dt_coll *host,
                                          struct dt_coll *there)
{
    return there && !dt_trainer_offloads(t) ? there : host;
}

static struct dt_coll *team_of_gradients(const struct dt_trainer *t)
{
    return group_of_gradients(t, dt_trainer_tensor(t)->group, t->team_there);
}

/* Ranks that have one key/value head each know what their own query heads mean for it. */
static int open_kv_team(struct dt_trainer *t, struct dt_err *err)
{
    int heads = (int)t->config->model.shape.kv_heads;
    const struct dt_mesh_axis *axis = dt_trainer_tensor(t);
    if (axis->size <= heads)
        return 0;
    return dt_coll_split(team_of_gradients(t), axis->index / (axis->size / heads), axis->index,
                         &t->kv_team, err);
}

/* The words of a tied head are on both ends: each has a part of their gradients, the first counts
 * them, and both update them alike. */
static void count_words(struct dt_trainer *t)
{
    struct dt_param p;
    for (size_t i = 0; t->ends && i < t->units[0].param_count; i++) {
        p = t->units[0].params[i];
        if (p.count == 0)
            continue;
        dt_zero_sum_over(t->zero, 0, i, group_of_gradients(t, t->ends, t->ends_there));
        if (dt_trainer_pipeline(t)->index > 0 || dt_trainer_experts(t)->index > 0)
            dt_zero_count_elsewhere(t->zero, 0, i);
    }
}

/* What is no expert all of a team have, and each learns it from its own samples; words of both ends
 * are counted above. */
static void count_experts(struct dt_trainer *t)
{
    struct dt_coll *team = group_of_gradients(t, dt_trainer_experts(t)->group, t->experts_there);
    for (size_t i = 0; i < t->saved.count; i++) {
        const struct dt_tensor *one = &t->parts[i];
        bool at_ends = t->ends && one->unit == 0;
        if (one->count == 0 || at_ends || dt_shape_is_of_expert(&t->config->model.shape, one))
            continue;
        dt_zero_sum_over(t->zero, one->unit, one->index, team);
        if (dt_trainer_experts(t)->index > 0)
            dt_zero_count_elsewhere(t->zero, one->unit, one->index);
    }
}

#define CHANCES_OF_PART ((uint64_t)1 << 40) /* more than a model has elements */

/* By its place in the whole model, as one rank that has all stages counts. What is cut has other
 * numbers in each part; what several ranks have stays the same on all. */
static void number_chances(struct dt_trainer *t)
{
    const struct dt_mesh_axis *axis = dt_trainer_tensor(t);
    uint64_t at = 0;
    for (size_t i = 0; t->parts && i < t->saved.count; at += t->saved.tensors[i++].count) {
        struct dt_tensor_part p;
        const struct dt_tensor *one = &t->saved.tensors[i];
        dt_recut_part(&t->saved, one, (size_t)axis->size, (size_t)axis->index, &p);
        uint64_t part = p.whole ? 0 : (size_t)axis->index / p.copies;
        dt_zero_set_chance(t->zero, one->unit, one->index, at + part * CHANCES_OF_PART);
    }
}

int dt_parallel_count(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_mesh_axis *axis = dt_trainer_tensor(t);
    if (open_all_there(t, err) < 0 || open_kv_team(t, err) < 0)
        return -1;
    count_words(t);
    number_chances(t);
    for (size_t i = 0; axis->size > 1 && i < t->saved.count; i++) {
        struct dt_tensor_part p;
        const struct dt_tensor *one = &t->saved.tensors[i];
        dt_recut_part(&t->saved, one, (size_t)axis->size, (size_t)axis->index, &p);
        if ((size_t)axis->index % p.copies > 0)
            dt_zero_count_elsewhere(t->zero, one->unit, one->index);
        if (p.whole && has_parts_of_gradients(t, one))
            dt_zero_sum_over(t->zero, one->unit, one->index, team_of_gradients(t));
        else if (!p.whole && p.copies > 1)
            dt_zero_sum_over(t->zero, one->unit, one->index, t->kv_team);
    }
    if (dt_trainer_experts(t)->size > 1)
        count_experts(t);
    return 0;
}

struct dt_team *dt_parallel_team(struct dt_trainer *t)
{
    return dt_trainer_tensor(t)->size > 1 ? &t->team : NULL;
}

struct dt_team *dt_parallel_experts(struct dt_trainer *t)
{
    return dt_trainer_experts(t)->size > 1 ? &t->experts : NULL;
}

struct dt_words dt_parallel_words(const struct dt_trainer *t)
{
    const struct dt_mesh_axis *axis = dt_trainer_tensor(t);
    return dt_shape_words(&t->config->model.shape, (size_t)axis->size, (size_t)axis->index);
}

static int add_square_of(struct dt_trainer *t, const struct dt_chunk *chunk, double *square,
                         struct dt_err *err)
{
    const struct dt_mesh_axis *axis = dt_trainer_pipeline(t);
    const struct dt_shape *s = &t->part;
    int before = (axis->index + axis->size - 1) % axis->size, next = (axis->index + 1) % axis->size;
    struct dt_chunk units =
        t->saved.lora ? dt_lora_units(t->saved.lora, s, chunk) : dt_chunk_units(s, chunk);
    *square = 0;
    if (!dt_chunk_is_first(chunk) && dt_coll_recv(axis->group, square, 1, DT_F64, before, err) < 0)
        return -1;
    if (dt_zero_add_square(t->zero, units.first, units.end, square, err) < 0)
        return -1;
    if (dt_chunk_is_last(s, chunk))
        return 0;
    return dt_coll_send(axis->group, square, 1, DT_F64, next, err);
}

/* What is before a section in the order of units is added up first, then its own: to the bit as one
 * rank that has all stages adds it up. So it goes from section to section, and the last one's is
 * all. */
static int add_square(struct dt_trainer *t, double *square, struct dt_err *err)
{
    const struct dt_mesh_axis *axis = dt_trainer_pipeline(t);
    struct dt_stage own = dt_stage_of(&t->part, &t->stage);
    for (size_t i = 0; i < own.chunks; i++)
        if (add_square_of(t, &own.chunk[i], square, err) < 0)
            return -1;
    if (axis->index + 1 < axis->size)
        return 0;
    return dt_coll_all_reduce(dt_trainer_learners(t), square, 1, DT_F64, DT_SUM, err);
}

static int norm_of_all(struct dt_trainer *t, double *square, struct dt_err *err)
{
    const struct dt_mesh_axis *axis = dt_trainer_pipeline(t), *tensor = dt_trainer_tensor(t);
    bool last = axis->index == axis->size - 1;
    if (dt_zero_settle(t->zero, err) < 0 || add_square(t, square, err) < 0)
        return -1;
    if (last && tensor->size > 1 &&
        dt_coll_all_reduce(tensor->group, square, 1, DT_F64, DT_SUM, err) < 0)
        return -1;
    if (axis->size == 1)
        return 0;
    return dt_coll_broadcast(axis->group, square, 1, DT_F64, axis->size - 1, err);
}

struct dt_team *dt_parallel_context(struct dt_trainer *t)
{
    return dt_trainer_context(t)->size > 1 ? &t->context_team : NULL;
}

uint64_t dt_parallel_ns(const struct dt_trainer *t)
{
    return t->team.ns + t->context_team.ns + t->experts.ns + dt_stages_ns(t->stages);
}

int dt_parallel_step(struct dt_trainer *t, const struct dt_zero_update *u,
                     struct dt_zero_updated *out, struct dt_err *err)
{
    double square;
    if (!t->parts)
        return dt_zero_step(t->zero, u, out, err);
    if (norm_of_all(t, &square, err) < 0)
        return dt_err_wrap(err, "norm of the gradients");
    double factor = dt_zero_factor(u, square, out);
    return out->overflow ? dt_zero_skip(t->zero, err) : dt_zero_apply(t->zero, u->lr, factor, err);
}

int dt_parallel_data_of(const struct dt_ckpt_state *s)
{
    int tensor = s->tensor > 1 ? s->tensor : 1, context = s->context > 1 ? s->context : 1;
    int pipeline = s->pipeline > 1 ? s->pipeline : 1;
    int ranks = s->world / tensor / pipeline / context;
    return ranks > 1 ? ranks : 1;
}

/* Of the ranks that share samples. */
static const char *const in_attention[] = {
    [DT_BY_KEYS] = "",
    [DT_BY_HEADS] = ", and in attention the heads",
    [DT_BY_RING] = ", and in attention keys and values go round",
};

void dt_parallel_introduce(const struct dt_trainer *t)
{
    const struct dt_config_parallel *p = &t->config->parallel;
    int teams = dt_trainer_replicas(t)->size;
    if (p->tensor > 1)
        dt_metrics_say(t->metrics, "%d ranks share each block%s; %d such team%s for data",
                       p->tensor, p->sequence ? ", and the rows between blocks" : "", teams,
                       teams == 1 ? "" : "s");
    if (p->context > 1)
        dt_metrics_say(t->metrics, "%d ranks share each sample, %zu tokens of it each%s",
                       p->context, dt_pieces_own(&t->pieces), in_attention[p->context_by]);
    if (p->expert > 1)
        dt_metrics_say(t->metrics, "%d ranks share the experts of each block; %d such team%s",
                       p->expert, teams, teams == 1 ? "" : "s");
}

void dt_parallel_close(struct dt_trainer *t)
{
    dt_coll_destroy(t->ends_there);
    dt_coll_destroy(t->ends);
    dt_coll_destroy(t->kv_team);
    dt_coll_destroy(t->context_there);
    dt_coll_destroy(t->team_there);
    dt_coll_destroy(t->experts_there);
    dt_mesh_close(&t->mesh);
    int lists = t->config->parallel.pipeline * t->config->parallel.expert;
    for (int i = 0; t->all_parts && i < lists; i++)
        free(t->all_parts[i]);
    free(t->all_parts);
}
