/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/work.h"

#include "base/clock.h"
#include "worker_runtime/model/block.h"
#include "worker_runtime/model/dropout.h"
#include "worker_runtime/model/experts.h"
#include "worker_runtime/model/head.h"
#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/half.h"

#include <math.h>

/* From a block's dropout to the next one's: each linear layer has its own by its number. */
#define CHANCES 14
_Static_assert((int)DT_LLAMA_DOWN < CHANCES && (int)DT_GPT2_BLOCK_TENSORS <= CHANCES,
               "no two alike");

/* Where the model itself drops. */
enum place { DROP_EMBEDDING, DROP_WEIGHTS, DROP_ATTENTION, DROP_MLP, PLACES };

/* So GPT-2's are named where either's are meant. */
_Static_assert((int)DT_GPT2_WTE == (int)DT_LLAMA_EMBED_TOKENS, "tokens come first");
_Static_assert((int)DT_GPT2_LN_F_WEIGHT == (int)DT_LLAMA_NORM, "the last norm comes first");

static uint64_t team_ns(const struct dt_transformer *t)
{
    const struct dt_transformer_options *o = &t->options;
    const struct dt_team *const teams[] = {o->team, o->context, o->experts};
    uint64_t ns = 0;
    for (size_t i = 0; i < sizeof teams / sizeof *teams; i++)
        ns += teams[i] ? teams[i]->ns : 0;
    return ns;
}

void dt_work_start_clock(struct dt_transformer *t)
{
    t->since = dt_clock_monotonic_ns();
    t->team_since = team_ns(t);
}

void dt_work_count_time(struct dt_transformer *t, uint64_t *sum)
{
    if (t->options.timed)
        dt_device_sync(t->device, NULL);
    int64_t now = dt_clock_monotonic_ns();
    *sum += (uint64_t)(now - t->since) - (team_ns(t) - t->team_since);
    t->since = now;
    t->team_since = team_ns(t);
}

static size_t rows_of(const struct dt_work *w)
{
    return w->batch * w->positions;
}

/* Of the stream. */
static struct dt_rows stream_of(const struct dt_transformer *t, const struct dt_work *w)
{
    return (struct dt_rows){t->options.team, rows_of(w), t->shape.width, t->device->ops->elem};
}

static size_t own_numbers(const struct dt_transformer *t, const struct dt_work *w)
{
    return dt_rows_own(t->options.team, rows_of(w)) * t->shape.width;
}

static struct dt_activation_slot *slot_of(const struct dt_transformer *t, const struct dt_work *w)
{
    return &t->a.slots[w->slot];
}

static struct dt_embedding embedding(const struct dt_transformer *t, const struct dt_work *w)
{
    return (struct dt_embedding){
        .rows = rows_of(w),
        .positions = dt_pieces_shared(&t->options.pieces) ? t->options.positions : w->positions,
        .width = t->shape.width,
        .vocabulary = t->options.words.to - t->options.words.from,
        .ids = slot_of(t, w)->ids,
        .first = w->first,
        .places = slot_of(t, w)->places,
    };
}

/* Words' vectors, or gradients of what they became, by sqrt(width): in the type that is computed
 * with, as models were trained so. */
static void scale_words(const struct dt_transformer *t, const struct dt_work *w, dt_elem *x)
{
    struct dt_dropout by = {.scale = sqrtf((float)t->shape.width)};
    if (!t->shape.scaled_words)
        return;
    if (t->device->ops->elem == DT_BF16)
        by.scale = dt_bf16_to_float(dt_float_to_bf16(by.scale));
    t->device->ops->dropout(&by, own_numbers(t, w), x, false, x, t->device->stream);
}

/* SHARE of what is at PLACE of a block. Of training alone. */
static struct dt_dropout dropout_of(const struct dt_transformer *t, const struct dt_work *w,
                                    enum place place, float share)
{
    uint64_t chance = dt_mix(t->options.seed + 2) + w->block * PLACES + place;
    return (struct dt_dropout){
        .start = dt_mix(chance),
        .gone_below = w->train ? (uint32_t)(share * 0x1p32f) : 0,
        .scale = 1 / (1 - share),
    };
}

/* Dropout is of training alone. */
static struct dt_adapters adapters_of(const struct dt_transformer *t, const struct dt_work *w)
{
    const struct dt_lora *l = t->options.lora;
    if (!w->adapters)
        return (struct dt_adapters){0};
    bool drops = w->train && l->dropout > 0;
    return (struct dt_adapters){
        .pairs = t->pairs + w->block * t->pair_count,
        .count = t->pair_count,
        .params = w->adapters,
        .grads = w->dadapters,
        .rnorms = t->a.rnorms ? t->a.rnorms + w->block * t->a.block_rnorms : NULL,
        .gone_below = drops ? (uint32_t)(l->dropout * 0x1p32f) : 0,
        .dropout_scale = 1 / (1 - l->dropout),
        .chance = dt_mix(l->seed + 1) + w->block * CHANCES,
        .device = t->device,
    };
}

static struct dt_pieces pieces_of(const struct dt_transformer *t, const struct dt_work *w)
{
    struct dt_pieces p = t->options.pieces;
    if (!dt_pieces_shared(&p))
        p.positions = w->positions; /* a text's next words are fewer than a sample */
    return p;
}

static enum dt_half half_of(const struct dt_work *w)
{
    if (w->kind == DT_BLOCK_INPUT)
        return DT_INPUT_HALF;
    return w->kind == DT_BLOCK_WEIGHTS ? DT_WEIGHT_HALF : DT_BOTH_HALVES;
}

static struct dt_block block_of(const struct dt_transformer *t, const struct dt_work *w)
{
    const struct dt_activation_slot *slot = slot_of(t, w);
    bool local = dt_shape_is_local(&t->shape, w->block);
    enum dt_half half = half_of(w);
    return (struct dt_block){
        .shape = &t->shape,
        .ops = t->device->ops,
        .stream = t->device->stream,
        .batch = w->batch,
        .positions = w->positions,
        .first = w->first,
        .first_sample = slot->first_sample,
        .rows = rows_of(w),
        .own_rows = dt_rows_own(t->options.team, rows_of(w)),
        .window = dt_shape_window(&t->shape, w->block),
        .pieces = pieces_of(t, w),
        .context = t->options.context,
        .documents = slot->documents,
        .params = w->params,
        .grads = w->grads,
        .speeds = local ? t->a.local_speeds : t->a.speeds,
        .rope_scale = local ? 1 : dt_rope_scale(&t->shape.rope),
        .device = t->device,
        .team = t->options.team,
        .experts = t->options.experts,
        .adapters = adapters_of(t, w),
        .drop_weights = dropout_of(t, w, DROP_WEIGHTS, t->shape.attention_dropout),
        .drop_branch = {dropout_of(t, w, DROP_ATTENTION, t->shape.branch_dropout),
                        dropout_of(t, w, DROP_MLP, t->shape.branch_dropout)},
        .offset = t->block_at,
        .count = t->block_count,
        .nf4 = t->options.nf4,
        .nf4_type = t->options.nf4_type,
        .train = w->train,
        .counts = slot->counts ? slot->counts + w->block * t->shape.experts : NULL,
        .input = slot->inputs[w->block],
        .dstream = slot->dstream,
        .kept = &slot->kept[w->block],
        .half = half,
        .held = half == DT_BOTH_HALVES ? NULL : &slot->held[w->block],
        .scratch = &t->a.scratch,
    };
}

static void drop_embedding(const struct dt_transformer *t, const struct dt_work *w, dt_elem *x)
{
    const struct dt_dropout d = dropout_of(t, w, DROP_EMBEDDING, t->shape.embedding_dropout);
    const struct dt_block b = block_of(t, w);
    if (d.gone_below > 0)
        dt_drop_rows(&b, &d, t->shape.width, x, false, x);
}

/* Where ranks share the words, one has the word of a row, and one, the first, adds its position. */
static void embed_forward(struct dt_transformer *t, const struct dt_work *w)
{
    struct dt_team *team = t->options.team;
    bool placed = t->shape.family == DT_GPT2 && dt_team_is_first(team);
    struct dt_embedding e = embedding(t, w);
    const char *token = w->adapters ? w->adapters : w->params + t->embed_at[DT_GPT2_WTE];
    const struct dt_rows r = stream_of(t, w);
    dt_elem *input = slot_of(t, w)->inputs[0];
    dt_elem *all = dt_rows_shared(&r) ? t->a.scratch.branch : input;
    t->device->ops->embedding_forward(
        &e, all, token, placed ? w->params + t->embed_at[DT_GPT2_WPE] : NULL, t->device->stream);
    dt_rows_sum(&r, all, input);
    scale_words(t, w, input);
    drop_embedding(t, w, input);
}

static void embed_backward(struct dt_transformer *t, const struct dt_work *w)
{
    bool gpt2 = t->shape.family == DT_GPT2;
    struct dt_embedding e = embedding(t, w);
    char *dtoken = w->dadapters ? w->dadapters : w->grads + t->embed_at[DT_GPT2_WTE];
    char *dposition = gpt2 && w->grads ? w->grads + t->embed_at[DT_GPT2_WPE] : NULL;
    const struct dt_rows r = stream_of(t, w);
    drop_embedding(t, w, slot_of(t, w)->dstream);
    scale_words(t, w, slot_of(t, w)->dstream);
    t->device->ops->embedding_backward(
        &e, dtoken, dposition, dt_rows_gather(&r, t->a.scratch.normed, slot_of(t, w)->dstream),
        t->device->stream);
}

static void block_forward(struct dt_transformer *t, const struct dt_work *w, bool output)
{
    struct dt_block b = block_of(t, w);
    const dt_elem *branch = dt_block_branch(&b);
    const dt_elem *from = w->chained ? slot_of(t, w)->kept[w->block - 1].middle : NULL;
    if (t->shape.family == DT_GPT2)
        dt_gpt2_forward(&b, from, branch, output);
    else
        dt_llama_forward(&b, from, branch, output);
}

/* Of whole samples. */
static const float *balance_experts(struct dt_transformer *t, const struct dt_work *w)
{
    const struct dt_activation_slot *slot = slot_of(t, w);
    size_t rows = w->batch * t->options.positions;
    float slopes[DT_EXPERTS_MOST];
    dt_experts_balance(&t->shape, rows, slot->counts, slot->balance, slopes);
    t->device->table->from_host(t->device, t->a.dprobs, slopes, t->shape.experts * sizeof *slopes);
    return t->a.dprobs;
}

/* What comes out of going forward once more is not wanted: the way back began behind it. */
static void block_backward(struct dt_transformer *t, const struct dt_work *w)
{
    struct dt_block b = block_of(t, w);
    const struct dt_activation_slot *slot = slot_of(t, w);
    if (w->again)
        block_forward(t, w, false);
    if (slot->counts && slot->balance > 0 && b.rows && dt_team_is_first(b.team)) /* counts once */
        b.dprobs = balance_experts(t, w);
    if (slot->z_loss > 0 && dt_team_is_first(b.team))
        b.z_slope = (float)(2 * slot->z_loss / (double)(w->batch * t->options.positions));
    if (t->shape.family == DT_GPT2)
        dt_gpt2_backward(&b);
    else
        dt_llama_backward(&b);
}

/* The last sum, which the next block would make. */
static void leave(struct dt_transformer *t, const struct dt_work *w)
{
    const struct dt_activation_slot *slot = slot_of(t, w);
    const struct dt_ops *ops = t->device->ops;
    const struct dt_rows r = stream_of(t, w);
    size_t all = own_numbers(t, w);
    const dt_elem *middle = slot->kept[w->block].middle;
    ops->cast(all, slot->dstream, ops->elem, middle, ops->elem, t->device->stream);
    ops->add(all, slot->dstream, dt_rows_place(&r, t->a.scratch.branch), t->device->stream);
}

static struct dt_head head_of(const struct dt_transformer *t, const struct dt_work *w)
{
    const struct dt_activation_slot *slot = slot_of(t, w);
    bool gpt2 = t->shape.family == DT_GPT2;
    size_t matrix_at = t->shape.tied
                           ? t->embed_at[DT_GPT2_WTE]
                           : t->head_at[gpt2 ? (size_t)DT_GPT2_LM_HEAD : (size_t)DT_LLAMA_LM_HEAD];
    struct dt_head h = {
        .shape = &t->shape,
        .words = &t->options.words,
        .team = t->options.team,
        .ops = t->device->ops,
        .stream = t->device->stream,
        .weight = w->params + t->head_at[DT_GPT2_LN_F_WEIGHT],
        .bias = gpt2 ? w->params + t->head_at[DT_GPT2_LN_F_BIAS] : NULL,
        .matrix = w->adapters ? w->adapters : w->matrix + matrix_at,
        .middle = w->weighed ? NULL : slot->kept[t->shape.layers - 1].middle,
        .targets = slot->targets,
        .weights = w->weighed ? slot->weights : NULL,
        .losses = slot->losses,
        .dstream = slot->dstream,
        .scratch = &t->a.scratch,
    };
    h.dmatrix = w->dadapters;
    if (!w->grads)
        return h;
    h.dweight = w->grads + t->head_at[DT_GPT2_LN_F_WEIGHT];
    h.dbias = gpt2 ? w->grads + t->head_at[DT_GPT2_LN_F_BIAS] : NULL;
    h.dmatrix = w->dmatrix + matrix_at;
    return h;
}

/* Chunk by chunk to the loss and back, so only the logits of one are ever there. Chunks are equal
 * but for the last, for a small one costs as many walks through the matrix as a large one. */
static void head(struct dt_transformer *t, const struct dt_work *w)
{
    struct dt_device *device = t->device;
    struct dt_head h = head_of(t, w);
    size_t all = rows_of(w), chunks = (all + t->a.head_rows - 1) / t->a.head_rows;
    size_t size = (all + chunks - 1) / chunks;
    if (w->train)
        device->table->clear(device, h.dstream,
                             own_numbers(t, w) * dt_dtype_size(device->ops->elem));
    dt_head_begin(&h, all);
    for (size_t first = 0; first < all; first += size) {
        size_t left = all - first, rows = left < size ? left : size;
        dt_head_forward(&h, first, rows, w->train, (float)w->scale);
        dt_work_count_time(t, &t->forward_ns);
        if (!w->train)
            continue;
        dt_head_backward(&h, first, rows);
        dt_work_count_time(t, &t->backward_ns);
    }
    if (w->train)
        dt_head_end(&h, all);
}

static void logits(struct dt_transformer *t, const struct dt_work *w)
{
    struct dt_head h = head_of(t, w);
    dt_head_logits(&h, rows_of(w) - 1, 1);
}

struct told {
    struct dt_transformer *t;
    const struct dt_work *w;
};

static void tell(void *arg)
{
    const struct told *told = arg;
    struct dt_transformer *t = told->t;
    const struct dt_work *w = told->w;
    switch ((enum dt_work_kind)w->kind) {
    case DT_EMBED_FORWARD:
        embed_forward(t, w);
        break;
    case DT_BLOCK_FORWARD:
        block_forward(t, w, true);
        break;
    case DT_LEAVE:
        leave(t, w);
        break;
    case DT_HEAD:
        head(t, w);
        break;
    case DT_LOGITS:
        logits(t, w);
        break;
    case DT_BLOCK_BACKWARD:
    case DT_BLOCK_INPUT:
    case DT_BLOCK_WEIGHTS:
        block_backward(t, w);
        break;
    case DT_EMBED_BACKWARD:
        embed_backward(t, w);
        break;
    }
}

/* A recording is of use where the same work comes again, without chance in it. The scale of the
 * head's gradients follows from the targets of a step, and each step of packed documents has
 * another number of them; the products of a block with experts follow from its rows. */
static struct dt_tape *tape_for(const struct dt_transformer *t, const struct dt_work *w)
{
    bool block = w->kind == DT_BLOCK_FORWARD || w->kind == DT_BLOCK_BACKWARD;
    bool once = w->kind == DT_HEAD && w->train && t->options.documents;
    bool drops = w->train && dt_shape_drops(&t->shape);
    return once || drops || (block && t->shape.experts > 0) ? NULL : t->tape;
}

void dt_work_compute(struct dt_transformer *t, const struct dt_work *w)
{
    bool forward = w->kind == DT_EMBED_FORWARD || (w->kind == DT_BLOCK_FORWARD && !w->again) ||
                   w->kind == DT_LEAVE || (w->kind == DT_HEAD && !w->train) || w->kind == DT_LOGITS;
    struct told told = {t, w};
    dt_work_start_clock(t);
    dt_device_play(t->device, tape_for(t, w), w, sizeof *w, tell, &told);
    dt_work_count_time(t, forward ? &t->forward_ns : &t->backward_ns);
}
