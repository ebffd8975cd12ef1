/* SPDX-License-Identifier: Apache-2.0 */
/* The sums that zero/ and model/ will allocate, from the same layout and the same walk over
 * activations. What a run takes beside them (the program, its libraries, the page cache of the
 * data) is not in them. */
#include "worker_runtime/train/estimate.h"

#include "worker_runtime/model/lora_cut.h"
#include "worker_runtime/model/packed.h"
#include "worker_runtime/model/transformer.h"
#include "worker_runtime/train/keeper.h"
#include "worker_runtime/train/stages.h"
#include "worker_runtime/zero/layout.h"
#include "worker_runtime/zero/loans.h"
#include "worker_runtime/zero/offload.h"

#include <stdlib.h>
#include <string.h>

/* Buffers for units' gradients at stages 2 and 3: one for the largest unit, and so many for the
 * next (zero/loans.c). */

/* What decides, of the configuration and where it runs. */
struct place {
    const struct dt_config *c;
    size_t world;
    struct dt_device_form form;
    size_t elem;    /* bytes of what is computed with */
    size_t sharing; /* ranks that hold one copy of shared memory together */
    size_t micro, under_way;
    size_t tensor; /* ranks that share what the configuration's model is a part of */
    bool on_gpu;
    bool many;    /* micro-steps are added up before gradients are reduced */
    bool offload; /* above stage 0: the optimizer is in the host's memory, not in the GPU's */
    bool offload_params;   /* at stage 3: they too */
    struct dt_stage stage; /* of a pipeline; zeroed: the whole model */
};

/* What of a model a rank has: of ranks that share blocks one is as another. */
struct part {
    int tensor; /* so many share each */
    int index;  /* of the stage */
    struct dt_stage stage;
    bool hosts; /* the stages are on several */
};

/* Of PART's, where there are several. */
static void settle_stage(struct place *p, int64_t micros, const struct part *part)
{
    struct dt_pipe_plan plan = dt_stages_plan(p->c, micros);
    if (plan.stages == 1)
        return;
    p->many = true;
    p->under_way = 1;
    if (dt_pipe_check(&plan, NULL) < 0)
        return;
    bool teams = part->tensor > 1 || p->c->parallel.context > 1 || p->c->parallel.expert > 1;
    int ahead = dt_stages_ahead(&plan, teams, part->hosts, p->on_gpu);
    p->under_way = (size_t)dt_stages_hold(&plan, part->index, ahead);
}

static void settle_batch(struct place *p, const struct part *part)
{
    struct dt_batch b;
    const struct dt_config_batch *w = &p->c->batch;
    p->micro = w->micro_batch > 0 ? (size_t)w->micro_batch : 1;
    p->many = p->c->train.balance != DT_BALANCE_OFF || w->accumulation > 1;
    int ranks = (int)p->world / p->c->parallel.context * p->c->parallel.expert;
    if (dt_batch_resolve(&b, w, ranks, NULL) < 0)
        b = (struct dt_batch){.micro = (int64_t)p->micro, .accumulation = p->c->parallel.pipeline};
    p->micro = (size_t)b.micro;
    p->many = p->many || b.accumulation > 1;
    settle_stage(p, b.accumulation, part);
}

static struct place place_of(const struct dt_config *c, const struct dt_estimate_place *at,
                             struct part part)
{
    struct place p = {.c = c,
                      .world = (size_t)(at->world / c->parallel.expert),
                      .tensor = (size_t)part.tensor,
                      .on_gpu = at->on_gpu,
                      .stage = part.stage};
    if (at->on_gpu)
        p.form = dt_gpu_form(dt_config_gpu_elem(c));
    p.offload = at->on_gpu && c->zero.offload;
    p.offload_params = at->on_gpu && c->zero.offload_params;
    p.elem = dt_dtype_size(p.form.elem);
    p.sharing = at->on_gpu ? 1 : (size_t)(at->local / c->parallel.expert);
    settle_batch(&p, &part);
    return p;
}

static int lay_out(struct dt_layout *l, const struct dt_tensor *tensors, size_t count, size_t units,
                   size_t world, struct dt_err *err)
{
    size_t *sizes = calloc(units, sizeof *sizes);
    if (!sizes)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu units", units);
    for (size_t i = 0; i < count; i++)
        sizes[tensors[i].unit] += tensors[i].count;
    int rc = dt_layout_init(l, sizes, units, world, err);
    free(sizes);
    return rc;
}

/* Of the model's parameters; PACKED: of the words that they are kept in. */
static int open_layout(struct dt_layout *l, const struct place *p, bool packed, struct dt_err *err)
{
    const struct dt_shape *s = &p->c->model.shape;
    struct dt_tensor *tensors =
        packed ? dt_packed_tensors(s, p->form.elem, err) : dt_shape_tensors(s, err);
    if (tensors && p->stage.chunks)
        dt_stage_keep(s, &p->stage, tensors);
    int rc = tensors ? lay_out(l, tensors, dt_shape_tensor_count(s), dt_shape_unit_count(s),
                               p->world, err)
                     : -1;
    free(tensors);
    return rc;
}

/* Of the adapters beside it. */
static int open_adapters(struct dt_layout *l, const struct place *p, struct dt_err *err)
{
    const struct dt_config *c = p->c;
    size_t count;
    struct dt_tensor *tensors = dt_lora_tensors(&c->lora, &c->model.shape, &count, err);
    if (tensors && p->stage.chunks)
        dt_lora_keep(&c->lora, &c->model.shape, &p->stage, tensors, count);
    int rc = tensors ? lay_out(l, tensors, count, dt_lora_unit_count(&c->lora, &c->model.shape),
                               p->world, err)
                     : -1;
    free(tensors);
    return rc;
}

static size_t largest_unit(const struct dt_layout *l)
{
    size_t most = 0;
    for (size_t u = 0; u < l->units; u++)
        most = l->unit[u].padded > most ? l->unit[u].padded : most;
    return most;
}

static size_t second_unit(const struct dt_layout *l)
{
    size_t most = largest_unit(l), second = 0;
    bool passed = false;
    for (size_t u = 0; u < l->units; u++) {
        size_t n = l->unit[u].padded;
        bool first = n == most && !passed;
        passed = passed || first;
        second = !first && n > second ? n : second;
    }
    return second;
}

/* Stage 2 with micro-steps added up first, and any stage of a rank alone, keeps what 1 keeps; with
 * the optimizer in the host's memory a rank alone keeps what 2 keeps (zero/zero.c). */
static int kept_stage(const struct place *p, int stage)
{
    if (stage > 1 && p->world == 1 && !(stage == 3 && p->offload_params))
        return p->offload ? 2 : 1;
    return stage == 2 && p->many && !p->offload ? 1 : stage;
}

/* At stage 3 between hosts: what is gathered, at most. */
static size_t live(const struct place *p, const struct dt_layout *l)
{
    size_t most = p->c->zero.max_live, unit = largest_unit(l);
    if (most == 0 || most > l->padded)
        return l->padded;
    return most > unit ? most : unit;
}

static size_t params_of(const struct place *p, const struct dt_layout *l, int stage)
{
    if (stage == 0)
        return l->padded * p->elem;
    if (p->offload_params && stage == 3)
        return live(p, l) * p->elem;
    if (stage < 3 || p->sharing == p->world)
        return l->padded * p->elem / p->sharing;
    return (l->shard + live(p, l)) * p->elem;
}

/* Of parameters, of the host: at stage 3 this rank's shards. */
static size_t offloaded_params(const struct place *p, const struct dt_layout *l, int stage)
{
    return p->offload_params && stage == 3 ? l->shard * p->elem : 0;
}

/* Sums over ranks may be taken in float, a unit at a time. */
static size_t widened(const struct place *p, const struct dt_layout *l)
{
    bool sums = p->c->train.wide_sums && p->world > 1 && p->form.elem != DT_F32;
    return sums ? largest_unit(l) * sizeof(float) : 0;
}

/* What micro-steps are added up in. */
static enum dt_dtype sum_type(const struct place *p)
{
    return p->c->zero.float_sums && p->many ? DT_F32 : p->form.elem;
}

/* The largest unit's buffer, and at most so many others. */
static size_t loans(const struct place *p, const struct dt_layout *l, size_t most)
{
    size_t others = l->units - 1 < most ? l->units - 1 : most;
    return (largest_unit(l) + others * second_unit(l)) * p->elem;
}

static size_t grads_of(const struct place *p, const struct dt_layout *l, int stage)
{
    size_t sum = dt_dtype_size(sum_type(p)), kept = p->offload ? 0 : l->shard;
    if (stage < 2 && sum_type(p) != p->form.elem)
        return l->padded * sum + loans(p, l, DT_LOANS_OF_ROWS);
    if (stage < 2)
        return l->padded * sum + widened(p, l);
    return kept * sum + loans(p, l, DT_LOANS_OF_SHARDS) + widened(p, l);
}

/* With floats throughout, the parameters are the master copy. */
static size_t optimizer_of(const struct place *p, const struct dt_layout *l, int stage)
{
    bool master = p->form.elem != DT_F32 || dt_config_trained_type(p->c) != DT_F32;
    return (stage == 0 ? l->padded : l->shard) * sizeof(float) * (master ? 3 : 2);
}

static struct dt_pieces pieces_of(const struct place *p)
{
    return (struct dt_pieces){.ranks = (size_t)p->c->parallel.context,
                              .positions = p->c->data.positions,
                              .by = p->c->parallel.context_by};
}

/* Between blocks, where several share these. */
static bool shares_rows(const struct place *p)
{
    return p->c->parallel.sequence && p->tensor > 1;
}

/* Pairs are packed samples. Where others are nobody says before the data are open: four bytes of
 * each token's thousands. */
static size_t activations_of(const struct place *p)
{
    static const int32_t some;
    struct dt_team team = {.shares_rows = shares_rows(p)};
    const struct dt_config_model *m = &p->c->model;
    struct dt_transformer_options o = {
        .batch = p->micro,
        .positions = p->c->data.positions,
        .stage = p->stage,
        .slots = p->under_way,
        .recompute = m->recompute,
        .recompute_every = m->recompute_every,
        .halves = dt_stages_halves(p->c),
        .pieces = pieces_of(p),
        .documents = p->c->dpo.on ? &some : NULL,
        .weighed = p->c->dpo.on,
        .lora = p->c->lora.r > 0 ? &p->c->lora : NULL,
        .team = &team,
        .words.parts = p->tensor,
        .nf4 = p->c->lora_nf4,
    };
    return dt_transformer_bytes(&m->shape, &o, p->form);
}

/* Activations may be more than can be counted. */
static void add(size_t *sum, size_t bytes)
{
    if (__builtin_add_overflow(*sum, bytes, sum))
        *sum = SIZE_MAX;
}

/* Each rank on a GPU has one to itself; on a CPU all of a host share its memory. */
size_t dt_estimate_room(const struct dt_estimate_place *at)
{
    return at->gpus > 0 ? at->gpu.free : at->memory / (size_t)at->local;
}

bool dt_estimate_has_copies(const struct dt_config *c, const struct dt_estimate_place *at)
{
    enum dt_vault_use use = c->train.vault;
    return at->world > at->local && (use == DT_VAULT_AUTO || use == DT_VAULT_PEER);
}

/* Of what is trained, laid out as L. */
static void count_trained(const struct place *p, const struct dt_layout *l, int stage,
                          struct dt_estimate *out)
{
    int kept = kept_stage(p, stage);
    out->params = params_of(p, l, kept);
    out->grads = grads_of(p, l, kept);
    if (p->offload && kept > 0)
        out->offloaded = l->shard * sizeof(float) * 3 + offloaded_params(p, l, kept) +
                         dt_offload_bytes_of(l, p->form.elem, kept < 2 ? sum_type(p) : p->form.elem,
                                             sum_type(p));
    else
        out->optimizer = optimizer_of(p, l, kept);
    out->snapshot = p->c->train.save_dir ? l->shard * sizeof(float) * 3 : 0;
    if (p->c->train.vault != DT_VAULT_OFF)
        out->vault = dt_vault_bytes(l->shard, sizeof(struct dt_kept_state));
}

/* A frozen model, beside adapters or to compare with, which is kept as at stage 1 or 3; where it is
 * no floats, a shard of it is on its way. */
static int count_frozen(const struct place *p, int stage, struct dt_estimate *out,
                        struct dt_err *err)
{
    struct dt_layout l;
    struct place kept_as = *p;
    bool packed = p->c->lora_nf4;
    int kept = kept_stage(p, stage);
    if (p->c->lora.r == 0 && !p->c->dpo.on)
        return 0;
    if (open_layout(&l, p, packed, err) < 0)
        return -1;
    if (packed)
        kept_as.elem = sizeof(uint32_t);
    kept = kept < 3 ? 1 : 3;
    size_t filled = largest_unit(&l) / p->world * sizeof(float);
    size_t offloaded = offloaded_params(&kept_as, &l, kept);
    out->params += params_of(&kept_as, &l, kept);
    if (offloaded > 0)
        out->offloaded +=
            offloaded + filled + dt_offload_bytes_of_frozen(packed ? DT_F32 : p->form.elem);
    else if (p->form.elem != DT_F32 && !packed)
        out->params += filled;
    dt_layout_finish(&l);
    return 0;
}

int dt_estimate_data(const struct dt_config *c, const struct dt_estimate_place *at)
{
    const struct dt_config_parallel *p = &c->parallel;
    return at->world / p->tensor / p->pipeline / p->context;
}

/* That of a micro-batch, in elements of ELEM bytes, so many times; SHARED ranks have it together.
 */
static size_t streams_of(const struct place *p, size_t elem, size_t times, size_t shared)
{
    size_t bytes = p->c->model.shape.width * elem;
    size_t parts = (size_t)p->c->parallel.context * shared;
    if (__builtin_mul_overflow(bytes, times * p->micro, &bytes) ||
        __builtin_mul_overflow(bytes, p->c->data.positions / parts, &bytes))
        return SIZE_MAX;
    return bytes;
}

/* Rooms for what goes to neighbours: two each way. GPUs send it from where it is. */
static size_t borders_of(const struct place *p)
{
    size_t shared = shares_rows(p) ? p->tensor : 1, bytes;
    if (p->stage.chunks == 0 || p->on_gpu)
        return 0;
    bytes = streams_of(p, p->elem, 4, shared);
    add(&bytes, 4 * p->elem * dt_shape_pick_counts(&p->c->model.shape));
    return bytes;
}

/* Where ranks that share tensors sum the stream in float. */
static size_t widened_stream(const struct place *p)
{
    bool widened = p->tensor > 1 && p->c->train.wide_sums && p->form.elem != DT_F32;
    return widened ? streams_of(p, sizeof(float), 1, 1) : 0;
}

/* Where ranks that share samples sum what these are to keys and values in float. */
static size_t widened_pairs(const struct place *p)
{
    const struct dt_config_parallel *parallel = &p->c->parallel;
    const struct dt_shape *s = &p->c->model.shape;
    bool widened = parallel->context > 1 && parallel->context_by == DT_BY_KEYS &&
                   p->c->train.wide_sums && p->form.elem != DT_F32;
    size_t bytes = 2 * s->kv_heads * s->head_dim * sizeof(float);
    if (__builtin_mul_overflow(bytes, p->micro, &bytes) ||
        __builtin_mul_overflow(bytes, p->c->data.positions, &bytes))
        return SIZE_MAX;
    return widened ? bytes : 0;
}

/* Of a rank that shares data alone, or as one rank of those with these blocks sees it. */
static int estimate_one(const struct dt_config *c, const struct dt_estimate_place *at,
                        struct part part, int stage, struct dt_estimate *out, struct dt_err *err)
{
    struct dt_layout l;
    struct place p = place_of(c, at, part);
    memset(out, 0, sizeof *out);
    int rc = c->lora.r > 0 ? open_adapters(&l, &p, err) : open_layout(&l, &p, false, err);
    if (rc < 0)
        return -1;
    count_trained(&p, &l, stage, out);
    dt_layout_finish(&l);
    if (count_frozen(&p, stage, out, err) < 0)
        return -1;
    out->activations = activations_of(&p);
    add(&out->activations, borders_of(&p));
    add(&out->activations, widened_stream(&p));
    add(&out->activations, widened_pairs(&p));
    out->scratch = at->gpus > 0 ? at->gpu.scratch : 0;
    if (dt_estimate_has_copies(c, at))
        add(&out->vault, out->vault);
    out->total = out->params + out->grads + out->optimizer + out->scratch;
    add(&out->total, out->activations);
    if (at->gpus <= 0)
        add(&out->total, out->snapshot);
    return 0;
}

/* PART: C as each rank has its part of a block; HOSTS: stages are on several. Of the stages the one
 * that takes most; but images in the vault are all as large as the largest.
 */
static int estimate_stages(const struct dt_config *c, const struct dt_config *part,
                           const struct dt_estimate_place *at, bool hosts, int stage,
                           struct dt_estimate *out, struct dt_err *err)
{
    struct dt_stage *stages;
    size_t vault = 0;
    int rc = 0;
    if (c->parallel.pipeline == 1)
        return estimate_one(part, at, (struct part){.tensor = c->parallel.tensor}, stage, out, err);
    if (stage > (at->on_gpu && c->zero.offload ? 1 : 2))
        return dt_err_set(err, DT_E_USAGE, "parallel.pipeline does not go with ZeRO stage %d",
                          stage);
    if (dt_stages_split(c, &stages, err) < 0)
        return -1;
    for (int i = 0; rc == 0 && i < c->parallel.pipeline; i++) {
        struct dt_estimate one;
        const struct part own = {c->parallel.tensor, i, stages[i], hosts};
        rc = estimate_one(part, at, own, stage, &one, err);
        vault = rc == 0 && one.vault > vault ? one.vault : vault;
        if (rc == 0 && one.total > out->total)
            *out = one;
    }
    out->vault = vault;
    free(stages);
    return rc;
}

static int check_mesh(const struct dt_config *c, const struct dt_estimate_place *at,
                      struct dt_err *err)
{
    int tensor = c->parallel.tensor, pipeline = c->parallel.pipeline;
    int context = c->parallel.context, expert = c->parallel.expert;
    if (at->world % tensor || at->local % tensor)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.tensor: %d does not divide the number of ranks, %d, and of "
                          "those on each host, %d; give --world and --local-world",
                          tensor, at->world, at->local);
    if (at->world / tensor % pipeline)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.pipeline: %d does not divide the number of ranks, %d; give "
                          "--world and --local-world",
                          pipeline, at->world / tensor);
    if (at->world / tensor / pipeline % context)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.context: %d does not divide %s, %d; give --world and "
                          "--local-world",
                          context, dt_config_left(&c->parallel), at->world / tensor / pipeline);
    if (dt_estimate_data(c, at) % expert || at->local / tensor % expert)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.expert: %d does not divide the ranks that have samples of "
                          "their own, %d, and those on each host, %d; give --world and "
                          "--local-world",
                          expert, dt_estimate_data(c, at), at->local / tensor);
    return 0;
}

/* As one rank of each part of the model sees it: with those who share its data alone. */
static int estimate_part(const struct dt_config *c, const struct dt_estimate_place *at, int stage,
                         struct dt_estimate *out, struct dt_err *err)
{
    struct dt_config part = *c;
    struct dt_estimate_place one = *at;
    int tensor = c->parallel.tensor;
    struct dt_shape *s = &part.model.shape;
    if (dt_shape_cut(s, (size_t)tensor, s, err) < 0 ||
        dt_shape_share_experts(s, (size_t)c->parallel.expert, s, err) < 0)
        return -1;
    part.parallel.tensor = 1;
    one.world = dt_estimate_data(c, at) * c->parallel.context; /* have the same parameters */
    one.local = at->local / tensor < one.world ? at->local / tensor : one.world;
    if (estimate_stages(c, &part, &one, at->world > at->local, stage, out, err) < 0)
        return -1;
    /* Copies go to other hosts, be they of other stages. */
    if (dt_estimate_has_copies(c, at) && !dt_estimate_has_copies(&part, &one))
        add(&out->vault, out->vault);
    /* A save begins with a copy of the parts, which is cut into the snapshot. */
    add(&out->total, out->snapshot);
    add(&out->snapshot, out->snapshot);
    return 0;
}

int dt_estimate(const struct dt_config *c, const struct dt_estimate_place *at, int stage,
                struct dt_estimate *out, struct dt_err *err)
{
    memset(out, 0, sizeof *out);
    if (!c->has_model)
        return dt_err_set(err, DT_E_USAGE,
                          "there is neither model.config nor model.weights to estimate");
    if (at->world < 1 || at->local < 1 || at->local > at->world)
        return dt_err_set(err, DT_E_USAGE, "%d of %d ranks cannot be on one host", at->local,
                          at->world);
    if (check_mesh(c, at, err) < 0)
        return -1;
    bool parts = c->parallel.tensor > 1 || c->parallel.pipeline > 1 || c->parallel.expert > 1;
    int rc = parts ? estimate_part(c, at, stage, out, err)
                   : estimate_stages(c, c, at, false, stage, out, err);
    out->trained = c->lora.r > 0 ? dt_lora_params(&c->lora, &c->model.shape)
                                 : dt_shape_params(&c->model.shape);
    return rc;
}
