/* SPDX-License-Identifier: Apache-2.0 */
/* How many ranks share what, and what that does not go with. */
#include "worker_runtime/config/keys.h"

#include <string.h>

/* Each dimension's names, in the order of enum dt_degree_of. */
static const char *const tensor_keys[DT_DEGREES_OF] = {"parallel.tensor", "tensor_parallel",
                                                       "parallel.tensor_model_parallel_size",
                                                       "parallelism.tensor_parallel_degree"};
static const char *const pipeline_keys[DT_DEGREES_OF] = {"parallel.pipeline", "pipeline.stages",
                                                         "parallel.pipeline_model_parallel_size",
                                                         "parallelism.pipeline_parallel_degree"};
static const char *const context_keys[DT_DEGREES_OF] = {
    "parallel.context", "sequence_parallel_size", "parallel.context_parallel_size",
    "parallelism.context_parallel_degree"};
static const char *const expert_keys[DT_DEGREES_OF] = {
    "parallel.expert", "expert_parallel.autoep_size", "parallel.expert_model_parallel_size",
    "parallelism.expert_parallel_degree"};

/* The first name that was given. */
static int first_given(const int given[DT_DEGREES_OF])
{
    int i = 0;
    while (i < DT_DEGREES_OF && given[i] == 0)
        i++;
    return i;
}

int dt_config_degree(const int given[DT_DEGREES_OF])
{
    int i = first_given(given);
    return i < DT_DEGREES_OF ? given[i] : 1;
}

static int settle_degree(const struct dt_reading *r, int *degree, const int given[DT_DEGREES_OF],
                         const char *const keys[DT_DEGREES_OF])
{
    int first = first_given(given);
    *degree = dt_config_degree(given);
    for (int i = first + 1; i < DT_DEGREES_OF; i++)
        if (given[i] != 0 && given[i] != *degree)
            return dt_err_set(r->err, DT_E_USAGE, "%s is %d, and %s says %d; drop one of them",
                              keys[first], *degree, keys[i], given[i]);
    return 0;
}

static int settle_sequence(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    bool both = d->sequence != DT_UNSET && d->sequence_too != DT_UNSET;
    if (both && d->sequence != d->sequence_too)
        return dt_err_set(r->err, DT_E_USAGE,
                          "parallel.sequence and parallel.sequence_parallel say opposite things; "
                          "drop one of them");
    d->c.parallel.sequence = d->sequence == 1 || d->sequence_too == 1;
    return 0;
}

static int settle_context_by(const struct dt_reading *r)
{
    const struct dt_config_draft *d = r->draft;
    int by = d->context_by == DT_UNSET ? d->context_by_too : d->context_by;
    if (d->context_by_too != DT_UNSET && by != d->context_by_too)
        return dt_err_set(r->err, DT_E_USAGE,
                          "parallel.context_by and parallel.cp_comm_type say different things; "
                          "drop one of them");
    r->draft->c.parallel.context_by = by == DT_UNSET ? DT_BY_KEYS : (enum dt_context_by)by;
    return 0;
}

/* In the order of the words of "parallel.schedule". */
static const enum dt_pipe_schedule schedules[] = {DT_PIPE_1F1B, DT_PIPE_GPIPE, DT_PIPE_INTERLEAVED,
                                                  DT_PIPE_ZB_H1};

static int settle_schedule(const struct dt_reading *r)
{
    struct dt_config_parallel *p = &r->draft->c.parallel;
    int chunks = r->draft->chunks;
    p->schedule = schedules[r->draft->pipeline_order];
    p->chunks = chunks == 0 ? 1 : chunks;
    bool interleaved = p->schedule == DT_PIPE_INTERLEAVED;
    if (!interleaved && chunks > 0)
        return dt_err_set(r->err, DT_E_USAGE,
                          "parallel.chunks: %s runs one chunk on each stage, not %d; give "
                          "parallel.schedule \"interleaved\", or drop it",
                          dt_pipe_schedule_name(p->schedule), chunks);
    if (interleaved && chunks == 0)
        return dt_err_set(r->err, DT_E_USAGE,
                          "parallel.chunks is missing: with parallel.schedule \"interleaved\" "
                          "each stage has several chunks of the layers; give 2 or more");
    const struct dt_pipe_plan plan = {p->schedule, p->pipeline, p->chunks, p->pipeline};
    return interleaved && dt_pipe_check(&plan, r->err) < 0
               ? dt_err_wrap(r->err, "parallel.schedule")
               : 0;
}

static int settle_degrees(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_config_parallel *p = &d->c.parallel;
    if (settle_degree(r, &p->tensor, d->tensor, tensor_keys) < 0 ||
        settle_degree(r, &p->pipeline, d->pipeline, pipeline_keys) < 0 ||
        settle_degree(r, &p->context, d->context, context_keys) < 0 ||
        settle_degree(r, &p->expert, d->expert, expert_keys) < 0)
        return -1;
    return settle_context_by(r) < 0 ? -1 : settle_schedule(r);
}

/* What each rank would have to know of the others' parts, and does not. */
static int check_tensor(const struct dt_config *c, struct dt_err *err)
{
    struct dt_shape part;
    if (c->lora.dora)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.tensor: a magnitude is divided by a norm of weights of which "
                          "each rank would have some; drop it, or lora.use_dora, or give "
                          "parallel.pipeline");
    if (c->lora_nf4)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.tensor: weights in NF4 are packed whole, and not cut so far; "
                          "drop it, or lora.base, or give parallel.pipeline");
    if (dt_shape_cut(&c->model.shape, (size_t)c->parallel.tensor, &part, err) < 0)
        return dt_err_wrap(err, "parallel.tensor");
    return 0;
}

/* Those who share samples have so much of each; be a micro-batch as small as it may, its rows are
 * shared evenly then. */
static int check_sequence(const struct dt_config *c, struct dt_err *err)
{
    size_t tensor = (size_t)c->parallel.tensor, context = (size_t)c->parallel.context;
    size_t positions = c->data.positions, all = tensor * context;
    size_t step = context > 1 && tensor % 2 ? 2 * all : all; /* of two pieces a rank, too */
    size_t less = positions / step * step;
    if (tensor == 1)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.sequence: rows are shared by the ranks that share tensors, and "
                          "parallel.tensor is 1; drop it, or give a parallel.tensor of 2 or more");
    if (dt_config_shares_rows(&c->parallel, positions))
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "parallel.sequence: %zu tokens of a sample are not shared evenly by %zu "
                      "ranks; give a data.sequence_length of %zu, or another parallel.tensor",
                      positions, all, less ? less : step);
}

/* What is not taken apart on the way back, or to no use. */
static int check_halves(const struct dt_config *c, struct dt_err *err)
{
    if (c->model.recompute)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.schedule: by \"zb-h1\" weights' gradients come later than "
                          "those of inputs, and activation checkpointing would go through each "
                          "block a third time; drop it, or take \"1f1b\"");
    if (c->model.shape.experts > 0)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.schedule: by \"zb-h1\" weights' gradients come later than "
                          "those of inputs, which those of experts do not so far; take \"1f1b\"");
    if (c->lora.r > 0)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.schedule: by \"zb-h1\" weights' gradients come later than "
                          "those of inputs, and beside adapters nearly all weights have none; take "
                          "\"1f1b\"");
    return 0;
}

/* What the stages of a pipeline do not do so far, or would do badly. */
static int check_pipeline(const struct dt_config *c, struct dt_err *err)
{
    size_t layers = c->model.shape.layers;
    if (c->parallel.chunks > 1 && (size_t)(c->parallel.pipeline * c->parallel.chunks) > layers)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.chunks: %d chunks on each of %d stages want a layer each at "
                          "least, and this model has %zu; give fewer of them",
                          c->parallel.chunks, c->parallel.pipeline, layers);
    if ((size_t)c->parallel.pipeline > layers)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.pipeline: %d stages want a layer each at least, and this model "
                          "has %zu; give %zu or less",
                          c->parallel.pipeline, layers, layers);
    if (c->zero.stage == 3)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.pipeline: ZeRO stage 3 would gather each parameter anew for "
                          "each micro-batch, forward and backward; give a "
                          "zero_optimization.stage of 2 or less");
    if (c->train.balance != DT_BALANCE_OFF)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.pipeline: all stages go through the same micro-batches, so "
                          "none can be dealt anew; drop it, or train.dynamic_accumulation");
    return c->parallel.schedule == DT_PIPE_ZB_H1 ? check_halves(c, err) : 0;
}

/* Of the heads that parallel.tensor leaves a rank. */
static int check_heads(const struct dt_config *c, struct dt_err *err)
{
    size_t context = (size_t)c->parallel.context;
    struct dt_shape part = c->model.shape;
    if (c->parallel.tensor > 1 &&
        dt_shape_cut(&c->model.shape, (size_t)c->parallel.tensor, &part, err) < 0)
        return -1;
    if (part.heads % context == 0 && part.kv_heads % context == 0)
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "parallel.context_by: %zu ranks cannot have as many heads each of %zu, which "
                      "read %zu of keys%s; set it to \"keys\", or give another parallel.context",
                      context, part.heads, part.kv_heads,
                      c->parallel.tensor > 1 ? ", which is what parallel.tensor leaves them" : "");
}

static int check_context(const struct dt_config *c, struct dt_err *err)
{
    size_t pieces = 2 * (size_t)c->parallel.context, positions = c->data.positions;
    if (positions < pieces)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.context: %d ranks share samples in pieces of at least one "
                          "token, two each; give a data.sequence_length of at least %zu, or "
                          "another parallel.context",
                          c->parallel.context, pieces);
    if (positions % pieces == 0)
        return c->parallel.context_by == DT_BY_HEADS ? check_heads(c, err) : 0;
    return dt_err_set(err, DT_E_USAGE,
                      "parallel.context: %d ranks share samples in %zu pieces of one length, which "
                      "%zu tokens are not; give a data.sequence_length of %zu, or another "
                      "parallel.context",
                      c->parallel.context, pieces, positions, positions / pieces * pieces);
}

/* Ranks of a team wait for each other in each block, so all have as many micro-steps. */
static int check_experts(const struct dt_config *c, struct dt_err *err)
{
    struct dt_shape part;
    if (c->model.shape.experts == 0)
        return dt_err_set(err, DT_E_USAGE, "parallel.expert: this model has no experts; drop it");
    if (c->train.balance != DT_BALANCE_OFF)
        return dt_err_set(
            err, DT_E_USAGE,
            "parallel.expert: it does not go with train.dynamic_accumulation so far, as "
            "those who share experts have the same work; drop one of them");
    if (dt_shape_share_experts(&c->model.shape, (size_t)c->parallel.expert, &part, err) < 0)
        return dt_err_wrap(err, "parallel.expert");
    return 0;
}

int dt_config_check_parallel(const struct dt_config *c, struct dt_err *err)
{
    const struct dt_config_parallel *p = &c->parallel;
    if (!c->has_model)
        return 0;
    if (p->expert > 1 && check_experts(c, err) < 0)
        return -1;
    if (p->sequence && check_sequence(c, err) < 0)
        return -1;
    if (p->tensor == 1 && p->pipeline == 1 && p->context == 1)
        return 0;
    if (p->tensor > 1 && check_tensor(c, err) < 0)
        return -1;
    if (p->pipeline > 1 && check_pipeline(c, err) < 0)
        return -1;
    if (p->context > 1 && check_context(c, err) < 0)
        return -1;
    return strcmp(c->train.device, "cuda") == 0 ? dt_config_check_gpu(c, err) : 0;
}

int dt_config_settle_parallel(const struct dt_reading *r)
{
    if (settle_degrees(r) < 0 || settle_sequence(r) < 0)
        return -1;
    return dt_config_check_parallel(&r->draft->c, r->err);
}

const char *dt_config_left(const struct dt_config_parallel *p)
{
    if (p->tensor > 1 && p->pipeline > 1)
        return "what parallel.tensor and parallel.pipeline leave of the ranks";
    if (p->pipeline > 1)
        return "what parallel.pipeline leaves of the ranks";
    return p->tensor > 1 ? "what parallel.tensor leaves of the ranks" : "the number of ranks";
}
