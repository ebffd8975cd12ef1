/* SPDX-License-Identifier: Apache-2.0 */
/* A step is ACCUMULATION micro-batches through a pipeline of stages, as 1F1B orders them: each
 * takes what the slowest stage does, with what its ranks tell each other in the midst of it. Sums
 * over data ranks go on beside the way back, so what counts of them is what sticks out. */
#include "worker_runtime/train/cost.h"

#include "worker_runtime/train/mfu.h"

#include <stdio.h>

#define TERA 1e12

/* How much of its peak a machine makes of the products of a large model. Of GPUs: so that the model
 * gives back what other programs have published of their runs (tests/runtime/test_cost.c). */
#define GPU_SHARE 0.68
#define CORE_SHARE 0.95
/* How often a number that a block keeps is read or written by what is no product: norms, sums,
 * rotations, activation functions, on both ways. */
#define TOUCHES 12
/* A product whose least dimension is this makes half of it. */
#define GPU_HALF 256
#define CORE_HALF 8

/* What goes on beside computing takes this share of its time from it: they share memory, and cores.
 */
#define BESIDE_SHARE 0.2

/* A collective of a few bytes, or a message. */
#define INSIDE_DELAY 15e-6
#define NETWORK_DELAY 30e-6
#define CORE_DELAY 5e-6

/* An update reads and writes two moments and the copy in 32 bits, and the gradient and parameter.
 */
#define UPDATE_BYTES 28.0

/* Letters as in ops.h. */
struct work {
    const struct dt_shape *part;
    const struct dt_plan *p;
    const struct dt_machine *m;
    double tensor, context, data, stages, experts,
        micro_batches; /* EXPERTS: ranks that share them */
    double rows;       /* that a rank has of a micro-batch */
    double stream;     /* bytes of one activation of them */
    size_t blocks, last, elem;
    double trained; /* parameters of a rank's stage, before ZeRO spreads anything */
    double common;  /* of these, what all have that share experts: what is none */
    double frozen;  /* bytes */
    size_t sum;     /* bytes of a gradient that ranks sum */
};

const char *dt_plan_say(const struct dt_plan *p, char *out, size_t size)
{
    static const struct {
        enum dt_mesh_dim dim;
        const char *name;
    } rows[] = {{DT_MESH_TP, "tensor"},
                {DT_MESH_PP, "pipeline"},
                {DT_MESH_CP, "context"},
                {DT_MESH_EP, "expert"}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && n < size; i++)
        if (p->mesh.size[rows[i].dim] > 1)
            n += (size_t)snprintf(out + n, size - n, "%s %d, ", rows[i].name,
                                  p->mesh.size[rows[i].dim]);
    if (n < size)
        snprintf(out + n, size - n, "data %d, stage %d%s", p->mesh.size[DT_MESH_DP], p->stage,
                 p->recompute ? ", activation_checkpointing" : "");
    return out;
}

static double size_of(const struct dt_plan *p, enum dt_mesh_dim dim)
{
    return (double)p->mesh.size[dim];
}

static double less(double a, double b)
{
    return a < b ? a : b;
}

static double more(double a, double b)
{
    return a > b ? a : b;
}

/* FLOPs of a token in one block, on average, and in the head. */
static double head_flops(const struct dt_shape *part, size_t positions)
{
    struct dt_shape head = *part;
    head.layers = 0;
    return dt_mfu_flops_per_token(&head, positions);
}

static double block_flops(const struct dt_shape *part, size_t positions)
{
    double all = dt_mfu_flops_per_token(part, positions);
    return (all - head_flops(part, positions)) / (double)part->layers;
}

/* Blocks of the stages of a pipeline. */
struct split {
    size_t most, last; /* of a stage; of the one with the head */
};

/* The last stage has so many blocks that with the head it is done when the others are; all have one
 * at least. */
static struct split split_of(const struct dt_shape *part, size_t positions, size_t stages)
{
    struct split best = {part->layers, part->layers};
    double head = head_flops(part, positions) / block_flops(part, positions);
    double least = (double)part->layers + head;
    for (size_t last = 1; stages > 1 && last + stages - 1 <= part->layers; last++) {
        size_t most = (part->layers - last + stages - 2) / (stages - 1);
        double slowest = more((double)last + head, (double)most);
        if (slowest >= least)
            continue;
        least = slowest;
        best = (struct split){most > last ? most : last, last};
    }
    return best;
}

static double stage_params(const struct dt_shape *part, size_t blocks, double stages)
{
    struct dt_shape stage = *part;
    stage.layers = blocks;
    stage.tied = part->tied || stages > 1;
    return (double)dt_shape_params(&stage);
}

/* Of those, the experts of all who share them. */
static double expert_params(const struct dt_shape *part, size_t blocks)
{
    return 3.0 * (double)(blocks * part->experts) * (double)(part->expert_inner * part->width);
}

/* Of adapters nobody knows here which are beside experts. */
static void count_trained(struct work *w, double adapters)
{
    double share = (double)w->blocks / (double)w->part->layers / w->tensor;
    double experts = expert_params(w->part, w->blocks);
    w->common = stage_params(w->part, w->blocks, w->stages) - experts;
    w->trained = adapters > 0 ? adapters * share : w->common + experts / w->experts;
    if (adapters > 0)
        w->common = w->trained;
}

static struct work work_of(const struct dt_step_work *of, const struct dt_plan *p,
                           const struct dt_machine *m)
{
    const struct dt_shape *part = of->part;
    size_t positions = of->positions, elem = of->elem;
    struct split split = split_of(part, positions, (size_t)p->mesh.size[DT_MESH_PP]);
    struct work w = {.part = part,
                     .p = p,
                     .m = m,
                     .elem = elem,
                     .blocks = split.most,
                     .last = split.last,
                     .frozen = of->frozen / size_of(p, DT_MESH_TP)};
    w.tensor = size_of(p, DT_MESH_TP);
    w.context = size_of(p, DT_MESH_CP);
    w.data = size_of(p, DT_MESH_DP);
    w.stages = size_of(p, DT_MESH_PP);
    w.experts = size_of(p, DT_MESH_EP);
    w.micro_batches = (double)p->accumulation;
    w.rows = (double)p->micro * (double)positions / w.context;
    w.stream = w.rows * (double)part->width * (double)elem;
    /* At stage 3 they sum those of each micro-batch, as they were computed. */
    w.sum = of->float_sums && p->accumulation > 1 && p->stage < 3 ? sizeof(float) : elem;
    count_trained(&w, of->adapters);
    return w;
}

/* Of those that follow each other, which share a stage. */
static double stage_ranks(const struct work *w)
{
    return w->tensor * w->experts * w->context * w->data;
}

/* Ranks that follow each other, so many of them, are on one host. */
static bool is_inside(const struct work *w, double ranks)
{
    return ranks <= w->m->local;
}

/* -- what is sent ----------------------------------------------------------------------------- */

/* Of a micro-batch: two sums of the stream in each block on the way there and two on the way back,
 * one behind the embedding and one of the head's gradient; what is recomputed sums again. */
static double tensor_sums(const struct work *w)
{
    double words = w->stages > 1 ? 1 : 2;
    return w->tensor > 1 ? (double)w->blocks * (w->p->recompute ? 6 : 4) + words : 0;
}

static double tensor_bytes(const struct work *w)
{
    return tensor_sums(w) * 2 * (w->tensor - 1) / w->tensor * w->stream;
}

/* Keys and values of all positions are gathered on both ways, and their gradients come home. */
static double context_bytes(const struct work *w)
{
    double pair = (double)(w->part->kv_heads * w->part->head_dim) * w->rows * (double)w->elem;
    return 6 * pair * (w->context - 1) * (double)w->blocks;
}

/* Each row goes to the ranks of its experts and back, and its gradient likewise, if all experts are
 * picked as often. */
static double expert_bytes(const struct work *w)
{
    double ways = w->p->recompute ? 6 : 4, picks = (double)w->part->expert_picks;
    return ways * (w->experts - 1) / w->experts * picks * w->stream * (double)w->blocks;
}

/* The stream there, and its gradient back: ranks of a team each send all of it. */
static double border_bytes(const struct work *w)
{
    return w->stages > 1 ? 2 * w->stream : 0;
}

/* How often in a step data ranks sum a gradient. */
static double sums(const struct work *w)
{
    return w->p->stage < 3 ? 1 : w->micro_batches;
}

/* And gather a parameter, at stage 3 on both ways; at stage 0, what is gathered is the gradient's
 * sum. Ranks of one host without GPUs compute with one copy of the parameters. */
static double gathers(const struct work *w)
{
    bool one_copy = !w->m->gpus && is_inside(w, stage_ranks(w));
    if (one_copy && w->p->stage > 0)
        return 0;
    return w->p->stage < 3 ? 1 : 2 * w->micro_batches;
}

static double data_bytes(const struct work *w)
{
    double ranks = w->data * w->context;
    double gathered = (double)(w->p->stage > 0 ? w->elem : w->sum);
    double bytes = (sums(w) * (double)w->sum + gathers(w) * gathered) * w->trained;
    if (w->p->stage == 3)
        bytes += gathers(w) * w->frozen;
    return (ranks - 1) / ranks * bytes;
}

/* What is no expert ranks that share these sum up too, each its shard. */
static double common_bytes(const struct work *w)
{
    double shards = w->p->stage > 0 ? w->data * w->context : 1;
    return 2 * (w->experts - 1) / w->experts * w->common / shards * (double)w->sum;
}

struct dt_traffic dt_plan_traffic(const struct dt_step_work *work, const struct dt_plan *p,
                                  const struct dt_machine *m)
{
    struct work w = work_of(work, p, m);
    return (struct dt_traffic){
        {[DT_MESH_TP] = tensor_bytes(&w) * w.micro_batches,
         [DT_MESH_CP] = context_bytes(&w) * w.micro_batches,
         [DT_MESH_PP] = border_bytes(&w) * w.micro_batches,
         [DT_MESH_EP] = expert_bytes(&w) * w.micro_batches + common_bytes(&w),
         [DT_MESH_DP] = data_bytes(&w)}};
}

/* -- how long it takes ------------------------------------------------------------------------ */

/* How many times as long as at its best the products of a block take, as some of their sizes are
 * small. */
static double slowness(const struct work *w)
{
    const struct dt_shape *s = w->part;
    double half = w->m->gpus ? GPU_HALF : CORE_HALF;
    double width = (double)s->width, inner = (double)s->inner;
    double queries = (double)(s->heads * s->head_dim), keys = (double)(s->kv_heads * s->head_dim);
    double picked = (double)(s->expert_picks * s->expert_inner), shared = (double)s->shared_inner;
    double all_rows = w->rows * w->experts, experts = s->experts > 0 ? (double)s->experts : 1;
    const double products[][3] = {
        {width * (queries + 2 * keys), less(width, queries + 2 * keys), w->rows},
        {queries * width, less(queries, width), w->rows},
        {s->experts > 0 ? 0 : width * inner * (s->family == DT_GPT2 ? 2 : 3), less(width, inner),
         w->rows},
        {width * picked * 3, less(width, (double)s->expert_inner),
         all_rows * (double)s->expert_picks / experts},
        {width * shared * 3, less(width, shared), w->rows},
    };
    double all = 0, slow = 0;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        all += products[i][0];
        if (products[i][0] > 0)
            slow += products[i][0] * (1 + half / products[i][1]) * (1 + half / products[i][2]);
    }
    return slow / all;
}

/* FLOPs of a token, of all rows of a micro-batch. */
static double compute_seconds(const struct work *w, double flops, double slow)
{
    double speed = w->m->tera * TERA * (w->m->gpus ? GPU_SHARE : CORE_SHARE);
    if (w->m->gpus && w->elem > 2)
        speed /= 2; /* as TF32 */
    return flops * w->rows * slow / speed;
}

/* What is no product, in a block. */
static double touch_seconds(const struct work *w)
{
    const struct dt_shape *s = w->part;
    double numbers = (2 + (double)s->expert_picks) * (double)s->width +
                     2 * (double)((s->heads + s->kv_heads) * s->head_dim) +
                     (double)dt_shape_token_inner(s) * (s->family == DT_GPT2 ? 1 : 2);
    return w->rows * numbers * (double)w->elem * TOUCHES / w->m->memory_speed;
}

/* A micro-batch on the slowest stage, without what is sent. */
static double stage_seconds(const struct work *w, size_t positions)
{
    double again = w->p->recompute ? 4.0 / 3 : 1;
    double block = compute_seconds(w, block_flops(w->part, positions), slowness(w));
    block = (block + touch_seconds(w)) * again;
    double head = compute_seconds(w, head_flops(w->part, positions), 1);
    return more((double)w->blocks * block, (double)w->last * block + head);
}

/* BYTES of each rank of a ring, of which AT_ONCE leave a host. */
static double send_seconds(const struct work *w, double bytes, bool inside, double at_once)
{
    double here = bytes / w->m->inside, there = bytes * at_once / w->m->network;
    return inside ? here : more(here, there);
}

static double delay(const struct work *w, bool inside)
{
    return !inside ? NETWORK_DELAY : w->m->gpus ? INSIDE_DELAY : CORE_DELAY;
}

/* What the ranks of a stage, and of two neighbours, tell each other within a micro-batch. */
static double talk_seconds(const struct work *w)
{
    double stage = stage_ranks(w);
    bool near_context = is_inside(w, w->tensor * w->experts * w->context);
    bool near_stage = is_inside(w, stage * w->stages);
    double t = (tensor_bytes(w) + expert_bytes(w)) / w->m->inside + tensor_sums(w) * delay(w, true);
    if (w->experts > 1)
        t += (w->p->recompute ? 6 : 4) * (double)w->blocks * delay(w, true);
    if (w->context > 1)
        t += send_seconds(w, context_bytes(w), near_context, w->tensor) +
             3 * (double)w->blocks * delay(w, near_context);
    if (w->stages > 1)
        t += send_seconds(w, border_bytes(w), near_stage, less(stage, w->m->local)) +
             2 * delay(w, near_stage);
    return t;
}

/* Each ring of data ranks enters and leaves a host once, and a host has some rings. */
static double data_seconds(const struct work *w)
{
    double stage = stage_ranks(w);
    double here = less(stage, w->m->local) / (w->tensor * w->experts);
    double bytes = data_bytes(w);
    bool inside = is_inside(w, stage);
    double calls = (double)(w->blocks + 2) * (w->p->stage < 3 ? 1 : sums(w) + gathers(w));
    if (bytes == 0)
        return 0;
    return send_seconds(w, bytes, inside, w->m->local / here) + calls * delay(w, inside);
}

static double update_seconds(const struct work *w)
{
    double ranks = w->p->stage > 0 ? w->data * w->context : 1;
    return w->trained / ranks * UPDATE_BYTES / w->m->memory_speed;
}

struct dt_cost dt_plan_cost(const struct dt_step_work *work, const struct dt_plan *p,
                            const struct dt_machine *m)
{
    struct work w = work_of(work, p, m);
    struct dt_traffic sent = dt_plan_traffic(work, p, m);
    size_t positions = work->positions;
    struct dt_cost c = {.idle = (w.stages - 1) / (w.micro_batches + w.stages - 1)};
    double compute = stage_seconds(&w, positions), data = data_seconds(&w);
    double beside = p->stage < 3 ? compute * 2 / 3 : compute * w.micro_batches;
    c.seconds = (compute + talk_seconds(&w)) * (w.micro_batches + w.stages - 1) +
                more(0, data - beside) + less(data, beside) * BESIDE_SHARE +
                common_bytes(&w) / m->inside + update_seconds(&w);
    for (int dim = 0; dim < DT_MESH_DIMS; dim++)
        c.sent += sent.bytes[dim];
    double flops = dt_mfu_flops_per_token(work->shape, positions) * w.rows * w.micro_batches /
                   (w.tensor * w.stages);
    c.mfu = flops / (c.seconds * m->tera * TERA);
    return c;
}
