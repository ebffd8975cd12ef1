/* SPDX-License-Identifier: Apache-2.0 */
/* The same walk over all buffers is made twice: over nothing, to learn how large the pieces of
 * memory have to be, and over these, to deal them out. So the two cannot disagree. */
#include "worker_runtime/model/activations.h"

#include <stdlib.h>
#include <string.h>

#define LINE 64

/* Logits of that many rows are held at once. Each chunk walks through the matrix of the vocabulary
 * and its gradient again; for a GPT-2 with 1024 rows the head takes 4 % longer so than in one
 * piece, the whole step 1 %, and 150 MB less. */
#define HEAD_ROWS 256

struct cursor {
    char *base;          /* NULL: only adds up */
    size_t used;         /* SIZE_MAX: more than can be counted */
    struct cursor *host; /* of the host's memory, beside the device's */
};

static void *take(struct cursor *c, size_t rows, size_t width, size_t size)
{
    size_t at = c->used, bytes;
    if (__builtin_mul_overflow(rows, width, &bytes) ||
        __builtin_mul_overflow(bytes, size, &bytes) ||
        __builtin_add_overflow(bytes, LINE - 1, &bytes) ||
        __builtin_add_overflow(at, bytes / LINE * LINE, &c->used)) {
        c->used = SIZE_MAX;
        return NULL;
    }
    return c->base ? c->base + at : NULL;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

struct sizes {
    size_t rows, own_rows, places, width, q, qkv, inner, heads, pairs, low, rnorms, head_rows,
        logits, weight, elem;
    size_t experts, picks, shared_inner, counts; /* COUNTS: of all layers; 0: none */
    size_t told;             /* of those, that go to other stages behind the stream */
    size_t parts, own, sent; /* ranks that share experts, or 0; experts here; rows for each row */
    size_t word_parts;
    bool llama, joined, local, qk_norm, branch_norms, documents, shared, dropout, weighed, head,
        halves, z_loss;
    bool by_keys, by_heads, by_ring; /* what is shared; none: it is not */
    struct dt_stage stage;
};

static size_t round_up(size_t n, size_t to)
{
    return to ? (n + to - 1) / to * to : n;
}

/* Numbers of the largest linear layer of a block. */
static size_t largest_weight(const struct dt_shape *s)
{
    size_t q = s->heads * s->head_dim, qkv = q + 2 * s->kv_heads * s->head_dim;
    return larger(qkv, s->inner) * s->width;
}

/* Of a block. */
static size_t adapted_outputs(const struct dt_shape *s, const struct dt_lora *l)
{
    struct dt_lora_pair pairs[DT_BLOCK_TENSORS_MOST], *last;
    size_t count;
    if (!l || !l->dora || dt_lora_pairs(l, s, 0, pairs, &count, NULL) < 0 || count == 0)
        return 0;
    last = &pairs[count - 1];
    return last->outs_at + last->out;
}

/* That experts of this rank may get, for each row of a micro-batch. */
static size_t rows_sent(const struct dt_shape *s)
{
    size_t picks = s->expert_picks, own = dt_shape_own_experts(s);
    return s->expert_parts > 1 ? s->expert_parts * smaller(picks, own) : picks;
}

static bool shares_by(const struct dt_transformer_options *o, enum dt_context_by by)
{
    return dt_pieces_shared(&o->pieces) && o->pieces.by == by;
}

/* An mlp's gate and what it lets through are halves of one row where one product can make both.
 * Experts' products are many; beside an adapter, and out of NF4, a layer is computed by itself. */
static bool may_join(const struct dt_shape *s, const struct dt_transformer_options *o, size_t grain)
{
    bool plain = s->family != DT_GPT2 && s->experts == 0 && !o->lora && !o->nf4;
    return plain && grain > 0 && s->inner % grain == 0;
}

static struct sizes sizes_of(const struct dt_shape *s, const struct dt_transformer_options *o,
                             struct dt_device_form form)
{
    struct sizes z = {
        .width = s->width,
        .q = s->heads * s->head_dim,
        .qkv = (s->heads + 2 * s->kv_heads) * s->head_dim,
        .inner = s->experts ? rows_sent(s) * s->expert_inner : s->inner,
        .parts = s->expert_parts > 1 ? s->expert_parts : 0,
        .own = dt_shape_own_experts(s),
        .sent = rows_sent(s),
        .experts = s->experts,
        .picks = s->expert_picks,
        .shared_inner = s->shared_inner,
        .counts = dt_shape_pick_counts(s),
        .logits = round_up(s->vocabulary, form.head_stride),
        .word_parts = o->words.parts,
        .heads = s->heads,
        .pairs = s->head_dim / 2,
        .low = o->lora ? dt_lora_span(o->lora, s).most.r : 0,
        .dropout = o->lora && o->lora->dropout > 0,
        .weight = o->nf4 ? largest_weight(s) : 0,
        .rnorms = adapted_outputs(s, o->lora),
        .elem = dt_dtype_size(form.elem),
        .llama = s->family != DT_GPT2,
        .joined = may_join(s, o, form.gate_grain),
        .local = s->local_theta > 0,
        .qk_norm = s->qk_norm,
        .branch_norms = s->branch_norms,
        .documents = o->documents,
        .shared = dt_pieces_shared(&o->pieces),
        .by_keys = shares_by(o, DT_BY_KEYS),
        .by_heads = shares_by(o, DT_BY_HEADS),
        .by_ring = shares_by(o, DT_BY_RING),
        .weighed = o->weighed,
        .halves = o->halves,
        .z_loss = s->z_share > 0,
        .stage = dt_stage_of(s, &o->stage),
    };
    z.head = dt_stage_is_last(s, &z.stage);
    z.told = dt_stage_is_whole(s, &z.stage) ? 0 : z.counts;
    if (__builtin_mul_overflow(o->batch, o->positions, &z.places))
        z.places = SIZE_MAX;
    if (s->experts && z.places > INT32_MAX / rows_sent(s)) /* picks are counted so */
        z.places = SIZE_MAX;
    z.rows = z.shared ? z.places / o->pieces.ranks : z.places;
    z.own_rows = o->team && o->team->shares_rows ? z.rows / o->words.parts : z.rows;
    z.head_rows = smaller(z.rows, form.head_rows ? form.head_rows : HEAD_ROWS);
    return z;
}

static void lay_kept_experts(struct cursor *c, const struct sizes *z, struct dt_kept *k)
{
    bool any = z->experts > 0, shared = z->shared_inner > 0;
    k->probs = any ? take(c, z->rows, z->experts, sizeof(float)) : NULL;
    k->weights = any ? take(c, z->rows, z->picks, sizeof(float)) : NULL;
    k->router_logsums = z->z_loss ? take(c, z->rows, 1, sizeof(float)) : NULL;
    k->experts = any ? take(c, z->rows, z->picks, sizeof(int32_t)) : NULL;
    k->first = any ? take(c->host, z->experts + 1, 1, sizeof(int32_t)) : NULL;
    k->order.first = any ? take(c, z->experts + 1, 1, sizeof(int32_t)) : NULL;
    k->order.picks = any ? take(c, z->rows, z->picks, sizeof(int32_t)) : NULL;
    k->order.places = any ? take(c, z->rows, z->picks, sizeof(int32_t)) : NULL;
    k->shared_pre = shared ? take(c, z->rows, z->shared_inner, z->elem) : NULL;
    k->shared_up = shared ? take(c, z->rows, z->shared_inner, z->elem) : NULL;
    k->shared_weight = shared ? take(c, z->rows, 1, sizeof(float)) : NULL;
    k->counts = z->parts ? take(c->host, z->parts, z->experts, sizeof(int32_t)) : NULL;
    k->own_first = z->parts ? take(c->host, z->own + 1, 1, sizeof(int32_t)) : NULL;
    k->own_weights = z->parts ? take(c, z->rows, z->sent, sizeof(float)) : NULL;
}

/* Of an mlp's gate, and what it lets through, each [N, I]. */
static void take_gate(struct cursor *c, const struct sizes *z, dt_elem **gate, dt_elem **up)
{
    if (z->joined) {
        *gate = take(c, z->rows, 2 * z->inner, z->elem);
        *up = *gate ? (char *)*gate + z->inner * z->elem : NULL;
        return;
    }
    *gate = take(c, z->rows, z->inner, z->elem);
    *up = z->llama ? take(c, z->rows, z->inner, z->elem) : NULL;
}

static void lay_kept(struct cursor *c, const struct sizes *z, struct dt_kept *k)
{
    k->qkv = take(c, z->rows, z->qkv, z->elem);
    k->attended = take(c, z->rows, z->q, z->elem);
    k->middle = take(c, z->own_rows, z->width, z->elem);
    k->gate_stride = z->joined ? 2 * z->inner : z->inner;
    take_gate(c, z, &k->pre, &k->up);
    for (int i = 0; i < 2; i++) {
        k->mean[i] = z->llama ? NULL : take(c, z->own_rows, 1, sizeof(float));
        k->rstd[i] = take(c, z->own_rows, 1, sizeof(float));
        k->gave[i] = z->branch_norms ? take(c, z->own_rows, z->width, z->elem) : NULL;
        k->gave_rstd[i] = z->branch_norms ? take(c, z->own_rows, 1, sizeof(float)) : NULL;
    }
    k->logsum = take(c, z->rows, z->heads, sizeof(float));
    lay_kept_experts(c, z, k);
}

static void lay_held(struct cursor *c, const struct sizes *z, struct dt_held *h)
{
    for (int i = 0; i < 2; i++)
        h->dgave[i] = take(c, z->own_rows, z->width, z->elem);
    h->dqkv = take(c, z->rows, z->qkv, z->elem);
    take_gate(c, z, &h->dpre, &h->dup);
}

/* Of what goes into a linear layer of a block or comes out of it. */
static size_t widest(const struct sizes *z)
{
    return larger(larger(z->inner, z->qkv), z->width);
}

/* Of what is between the two products of an mlp. */
static size_t inner_of(const struct sizes *z)
{
    return larger(z->inner, z->shared_inner);
}

static size_t dwide_of(const struct sizes *z)
{
    if (z->low)
        return widest(z);
    return z->qk_norm ? larger(inner_of(z), z->qkv) : inner_of(z);
}

static void lay_scratch(struct cursor *c, const struct sizes *z, struct dt_scratch *s)
{
    s->branch = take(c, z->rows, larger(z->width, z->q), z->elem);
    s->normed = take(c, z->rows, z->width, z->elem);
    struct cursor head = *c;
    s->wide = take(c, z->rows, larger(inner_of(z), z->qkv), z->elem);
    s->dwide = take(c, z->rows, dwide_of(z), z->elem);
    s->low = z->low ? take(c, z->rows, z->low, z->elem) : NULL;
    s->dlow = z->low ? take(c, z->rows, z->low, z->elem) : NULL;
    s->dropped = z->dropout ? take(c, z->rows, widest(z), z->elem) : NULL;
    s->weight = z->weight ? take(c, z->weight, 1, z->elem) : NULL;
    bool any = z->experts > 0;
    s->spread = any ? take(c, z->rows, z->picks * z->width, z->elem) : NULL;
    s->scores = any ? take(c, z->rows, z->experts, z->elem) : NULL;
    s->dweights = any ? take(c, z->rows, z->picks, sizeof(float)) : NULL;
    s->firsts = z->parts ? take(c, z->parts, z->experts + 1, sizeof(int32_t)) : NULL;
    s->told_firsts = z->parts ? take(c->host, z->parts, z->experts + 1, sizeof(int32_t)) : NULL;
    s->hall_rows = z->parts ? z->rows * z->sent / z->parts : 0;
    for (int i = 0; i < 2; i++)
        s->hall[i] = z->parts ? take(c, z->rows, z->sent * z->width, z->elem) : NULL;
    for (int i = 0; i < 3; i++)
        s->picks[i] = z->parts ? take(c, z->rows, z->sent, sizeof(float)) : NULL;
    s->sum = z->rnorms ? take(c, z->rows, widest(z), z->elem) : NULL;
    s->base = z->rnorms ? take(c, z->rows, widest(z), z->elem) : NULL;
    dt_elem **all[] = {&s->ranks_pairs, &s->pairs, &s->dpairs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = z->by_keys ? take(c, z->places, z->qkv - z->q, z->elem) : NULL;
    for (int i = 0; i < 2; i++) {
        s->heads_qkv[i] = z->by_heads ? take(c, z->rows, z->qkv, z->elem) : NULL;
        s->heads_out[i] = z->by_heads ? take(c, z->rows, z->q, z->elem) : NULL;
    }
    for (int i = 0; i < 2; i++)
        s->round_pairs[i] = z->by_ring ? take(c, z->rows, z->qkv - z->q, z->elem) : NULL;
    for (int i = 0; i < 3; i++)
        s->round_dpairs[i] = z->by_ring ? take(c, z->rows, z->qkv - z->q, z->elem) : NULL;
    s->logits_stride = z->logits;
    if (!z->head)
        return;
    s->logits = take(&head, z->head_rows, z->logits, z->elem);
    s->dnormed = take(&head, z->head_rows, z->width, z->elem);
    size_t normed = z->own_rows < z->rows ? z->own_rows : z->head_rows;
    s->mean = z->llama ? NULL : take(&head, normed, 1, sizeof(float));
    s->rstd = take(&head, normed, 1, sizeof(float));
    s->sums =
        z->word_parts > 1 ? take(&head, z->head_rows, 3 * z->word_parts, sizeof(float)) : NULL;
    c->used = larger(c->used, head.used);
}

static size_t slots_of(const struct dt_transformer_options *o)
{
    return larger(o->slots, 1);
}

/* Segments of that many blocks; 0 when nothing is recomputed. */
static size_t segment_of(const struct dt_shape *s, const struct dt_transformer_options *o)
{
    struct dt_stage stage = dt_stage_of(s, &o->stage);
    const struct dt_chunk *longest = dt_stage_longest(&stage);
    if (!o->recompute)
        return 0;
    return smaller(larger(o->recompute_every, 1), longest->end - longest->first);
}

/* A slot has one chunk at a time, so all begin in the same memory: that of LONGEST. */
static void share_chunks(const struct dt_stage *stage, const struct dt_chunk *longest,
                         struct dt_activation_slot *to)
{
    for (const struct dt_chunk *c = stage->chunk; c < stage->chunk + stage->chunks; c++)
        for (size_t i = 0; c != longest && i < c->end - c->first; i++) {
            to->kept[c->first + i] = to->kept[longest->first + i];
            to->inputs[c->first + i] = to->inputs[longest->first + i];
        }
}

/* Of own rows, with what goes to other stages behind it. */
static dt_elem *take_border(struct cursor *c, const struct sizes *z)
{
    size_t more = (z->told + z->width - 1) / z->width, rows = SIZE_MAX;
    if (z->own_rows < SIZE_MAX - more)
        rows = z->own_rows + more;
    return take(c, rows, z->width, z->elem);
}

/* SEGMENT: of the activations. The slot's inputs and kept are NULL when only the size is asked for.
 */
static void lay_slot(struct cursor *c, const struct sizes *z, size_t segment,
                     struct dt_activation_slot *to)
{
    const struct dt_chunk *longest = dt_stage_longest(&z->stage);
    size_t begin = longest->first, blocks = longest->end - begin;
    size_t kept = segment ? segment : blocks;
    to->ids = take(c, z->rows, 1, sizeof *to->ids);
    to->targets = take(c, z->rows, 1, sizeof *to->targets);
    bool placed = !z->llama && (z->documents || z->shared);
    to->documents = z->documents ? take(c, z->places, 1, sizeof *to->documents) : NULL;
    to->places = placed ? take(c, z->rows, 1, sizeof *to->places) : NULL;
    to->losses = take(c, z->rows, 1, sizeof *to->losses);
    to->weights = z->weighed ? take(c, z->rows, 1, sizeof *to->weights) : NULL;
    to->dstream = take_border(c, z);
    to->counts = z->counts ? take(c->host, z->counts, 1, sizeof *to->counts) : NULL;
    for (size_t i = 0; i < kept; i++) {
        struct dt_kept one;
        lay_kept(c, z, &one);
        for (size_t block = i; to->kept && block < blocks; block += kept)
            to->kept[begin + block] = one;
    }
    /* Inside a segment an input is needed only as long as the segment is. */
    for (size_t block = 0; block < blocks; block++) {
        bool own = !segment || block % segment == 0 || block < segment;
        dt_elem *input = NULL;
        if (own)
            input = block == 0 ? take_border(c, z) : take(c, z->own_rows, z->width, z->elem);
        if (to->inputs)
            to->inputs[begin + block] = own ? input : to->inputs[begin + block % segment];
    }
    for (size_t block = 0; z->halves && block < blocks; block++) {
        struct dt_held one;
        lay_held(c, z, &one);
        if (to->held)
            to->held[begin + block] = one;
    }
    if (to->inputs)
        share_chunks(&z->stage, longest, to);
}

struct used {
    size_t device, host;
};

/* A->slots is NULL when only the size is asked for. */
static struct used lay_out(struct dt_activations *a, const struct dt_shape *s,
                           const struct sizes *z, char *device, char *host)
{
    struct cursor of_host = {.base = host}, c = {.base = device, .host = &of_host};
    a->head_rows = z->head_rows;
    a->speeds = z->llama ? take(&c, z->pairs, 1, sizeof *a->speeds) : NULL;
    a->local_speeds = z->local ? take(&c, z->pairs, 1, sizeof *a->local_speeds) : NULL;
    a->block_rnorms = z->rnorms;
    a->rnorms = z->rnorms ? take(&c, s->layers, z->rnorms, sizeof *a->rnorms) : NULL;
    a->dprobs = z->counts ? take(&c, z->experts, 1, sizeof *a->dprobs) : NULL;
    lay_scratch(&c, z, &a->scratch);
    for (size_t i = 0; i < a->slot_count; i++) {
        struct dt_activation_slot none = {0};
        lay_slot(&c, z, a->segment, a->slots ? &a->slots[i] : &none);
    }
    return (struct used){c.used, of_host.used};
}

/* What the host reads is counted nowhere: less than a row. */
size_t dt_transformer_bytes(const struct dt_shape *shape, const struct dt_transformer_options *o,
                            struct dt_device_form form)
{
    struct dt_activations a = {.slot_count = slots_of(o), .segment = segment_of(shape, o)};
    struct sizes z = sizes_of(shape, o, form);
    return lay_out(&a, shape, &z, NULL, NULL).device;
}

static bool open_slots(struct dt_activations *a, size_t layers, bool halves)
{
    a->slots = calloc(a->slot_count, sizeof *a->slots);
    for (size_t i = 0; a->slots && i < a->slot_count; i++) {
        a->slots[i].inputs = calloc(layers, sizeof *a->slots[i].inputs);
        a->slots[i].kept = calloc(layers, sizeof *a->slots[i].kept);
        a->slots[i].held = halves ? calloc(layers, sizeof *a->slots[i].held) : NULL;
        if (!a->slots[i].inputs || !a->slots[i].kept || (halves && !a->slots[i].held))
            return false;
    }
    return a->slots != NULL;
}

static void fill_speeds(const struct dt_activations *a, const struct dt_shape *s,
                        struct dt_device *device)
{
    static const struct dt_rope_scaling plain = {.kind = DT_ROPE_PLAIN};
    float speeds[DT_HEAD_DIM_MOST / 2];
    if (!a->speeds)
        return;
    dt_rope_speeds(&s->rope, s->rope_theta, s->head_dim, speeds);
    device->table->from_host(device, a->speeds, speeds, s->head_dim / 2 * sizeof *speeds);
    if (!a->local_speeds)
        return;
    dt_rope_speeds(&plain, s->local_theta, s->head_dim, speeds);
    device->table->from_host(device, a->local_speeds, speeds, s->head_dim / 2 * sizeof *speeds);
}

static int take_memory(struct dt_activations *a, struct used used, struct dt_device *device,
                       struct dt_err *err)
{
    a->bytes = used.device;
    a->memory = dt_device_alloc(device, used.device, "activations", err);
    if (!a->memory || used.host == 0)
        return a->memory ? 0 : -1;
    a->host = device->table->alloc_host(device, used.host, err);
    if (!a->host)
        return -1;
    memset(a->host, 0, used.host);
    return 0;
}

int dt_activations_create(struct dt_activations *a, const struct dt_shape *s,
                          const struct dt_transformer_options *o, struct dt_device *device,
                          struct dt_err *err)
{
    const struct dt_device_form form = {
        .elem = device->ops->elem,
        .head_rows = device->head_rows,
        .head_stride = device->head_stride,
        .gate_grain = device->gate_grain,
    };
    struct sizes z = sizes_of(s, o, form);
    *a = (struct dt_activations){.slot_count = slots_of(o), .segment = segment_of(s, o)};
    struct used used = lay_out(a, s, &z, NULL, NULL);
    bool unknown = o->lora && o->lora->dora && z.rnorms == 0; /* no memory to count them */
    bool known = used.device < SIZE_MAX && used.host < SIZE_MAX && !unknown;
    if (!known || !open_slots(a, s->layers, o->halves))
        return dt_err_set(err, DT_E_MEMORY,
                          "no memory for activations of %zu samples with %zu positions", o->batch,
                          o->positions);
    if (take_memory(a, used, device, err) < 0)
        return dt_err_wrap(err, "activations");
    lay_out(a, s, &z, a->memory, a->host);
    fill_speeds(a, s, device);
    return 0;
}

void dt_activations_destroy(struct dt_activations *a, struct dt_device *device)
{
    dt_device_free(device, a->memory);
    if (a->host)
        device->table->free_host(device, a->host);
    for (size_t i = 0; a->slots && i < a->slot_count; i++) {
        free(a->slots[i].inputs);
        free(a->slots[i].kept);
        free(a->slots[i].held);
    }
    free(a->slots);
}
