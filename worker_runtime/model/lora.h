/* SPDX-License-Identifier: Apache-2.0 */
/* LoRA: beside a linear layer of a block, y = x W + b, stands an adapter of two small matrices,
 *
 *     y = x W + b + s B A drop(x)        A: [r, in], B: [out, r], s = alpha / r, or alpha / sqrt(r)
 *
 * and nothing but those is trained, and what is named to be saved: the words' vectors, or the head,
 * which begin as the model's. B begins as 0, and so each adapter as nothing. Names and shapes are
 * peft's. The same layers of all blocks are adapted; each may have a rank and an alpha of its own.
 * Pure.
 *
 * DoRA has a third tensor, m [out]: with n the norm of what makes each output, W + s B A, and g =
 * m / n,
 *
 *     y = x W + b + (g - 1) drop(x) W + g s B A drop(x)
 *
 * n counts as a constant on the way back. m begins as the norms of W, and so the adapter as nothing
 * again. Without dropout, y - b is g times what LoRA makes of it. */
#ifndef DT_WORKER_RUNTIME_MODEL_LORA_H
#define DT_WORKER_RUNTIME_MODEL_LORA_H

#include "base/json.h"
#include "base/json_write.h"
#include "worker_runtime/model/shape.h"

struct cJSON;

#define DT_LORA_RANK_MOST 65536
#define DT_LORA_ALPHA_MOST 1e6

/* What a layer's adapter is made with. */
struct dt_lora_share {
    size_t r;
    float alpha;
};

struct dt_lora {
    size_t r; /* 0: there are no adapters */
    float alpha, dropout;
    bool rslora; /* s = alpha / sqrt(r) */
    bool dora;
    float plus_ratio; /* LoRA+: of the learning rate of B, and of m, to that of A; 0: as 1 */
    uint32_t targets; /* a bit for each tensor of a block: 1 << DT_LLAMA_Q */
    uint64_t seed;    /* of what goes by dropout */
    bool saves_embedding, saves_head; /* peft's modules_to_save: trained whole */
    /* [layers, DT_BLOCK_TENSORS_MOST], where some have another rank or alpha; NULL: all have r and
     * alpha. A copy of the struct has it too, and does not own it. */
    struct dt_lora_share *own;
};

void dt_lora_finish(struct dt_lora *l);

/* Of the layer of tensor WHICH in block BLOCK. */
static inline struct dt_lora_share dt_lora_share(const struct dt_lora *l, size_t block,
                                                 size_t which)
{
    return l->own ? l->own[block * DT_BLOCK_TENSORS_MOST + which]
                  : (struct dt_lora_share){l->r, l->alpha};
}

/* s of that layer. */
float dt_lora_scale(const struct dt_lora *l, size_t block, size_t which);

/* The least and the most that adapters have. */
struct dt_lora_span {
    struct dt_lora_share least, most;
};
struct dt_lora_span dt_lora_span(const struct dt_lora *l, const struct dt_shape *s);

/* "rank 4, alpha 8"; "rank 2 to 16, alpha 8" */
void dt_lora_say(const struct dt_lora *l, const struct dt_shape *s, char *out, size_t room);

/* Adds the layers that NAME means, as in peft's target_modules: those whose path is NAME or ends in
 * ".NAME". One that means none is refused, and so is one that means layers of some blocks only. */
int dt_lora_target(struct dt_lora *l, const struct dt_shape *s, const char *name,
                   struct dt_err *err);
/* All linear layers of blocks: peft's "all-linear". */
int dt_lora_target_all(struct dt_lora *l, const struct dt_shape *s, struct dt_err *err);

/* Adds NAME to what is trained whole, as in peft's modules_to_save: "embed_tokens" or "wte", or
 * "lm_head". Not where both are one matrix. */
int dt_lora_save(struct dt_lora *l, const struct dt_shape *s, const char *name, struct dt_err *err);
/* The name of the embedding there. */
const char *dt_lora_embedding(const struct dt_shape *s);

/* What target_modules says for the layers of L: the least that means each of them and no other.
 * Calls SAY for each. */
int dt_lora_each_target(const struct dt_lora *l, const struct dt_shape *s,
                        void (*say)(void *arg, const char *name), void *arg, struct dt_err *err);

#define DT_LORA_PATH_MOST 128

/* A layer that has adapters. */
struct dt_lora_layer {
    size_t which;                 /* of a block's tensors */
    char path[DT_LORA_PATH_MOST]; /* in the first block of the model that has a head, as peft's */
    const char *inner;            /* what of it is within the block */
    const char *name;             /* the least of it that means no other layer of the block */
};
int dt_lora_layers(const struct dt_lora *l, const struct dt_shape *s,
                   struct dt_lora_layer layers[DT_BLOCK_TENSORS_MOST], size_t *count,
                   struct dt_err *err);
void dt_lora_path(const struct dt_lora_layer *y, size_t block, char out[DT_LORA_PATH_MOST]);

/* Gives layers ranks of their own, or with ALPHAS alphas, as peft's rank_pattern and alpha_pattern:
 * V is an object of patterns, each with a number, and a layer has that of the first pattern that
 * means it. A pattern is a regular expression of what a path ends with, behind a "."; what has no
 * like here is refused. STRICT: so is one that means no layer with an adapter. Targets and r stand
 * in L before. */
int dt_lora_pattern(struct dt_lora *l, const struct dt_shape *s, bool alphas, const struct cJSON *v,
                    bool strict, struct dt_err *err);
/* Patterns that say the same: of a layer of all blocks where these are alike, else of each. Calls
 * SAY for each. */
int dt_lora_each_pattern(const struct dt_lora *l, const struct dt_shape *s, bool alphas,
                         void (*say)(void *arg, const char *pattern, double number), void *arg,
                         struct dt_err *err);

/* One adapter of a block, and where its two matrices, and a DoRA's magnitudes, are in the block's
 * unit of adapters. */
struct dt_lora_pair {
    size_t tensor;  /* of the block: whose layer it is */
    bool by_inputs; /* ranks that share the layer have some of its inputs each, else of outputs */
    size_t in, out, r;
    float scale;
    size_t a_at, b_at, m_at; /* elements */
    size_t outs_at;          /* outputs of the pairs before it */
};
/* Those of BLOCK, in the order of its tensors: as many in each. */
int dt_lora_pairs(const struct dt_lora *l, const struct dt_shape *s, size_t block,
                  struct dt_lora_pair pairs[DT_BLOCK_TENSORS_MOST], size_t *count,
                  struct dt_err *err);

/* Units of what is trained: one for each block, behind that of the embedding and before that of the
 * head, where these are saved. */
static inline size_t dt_lora_unit_count(const struct dt_lora *l, const struct dt_shape *s)
{
    return s->layers + l->saves_embedding + l->saves_head;
}

static inline size_t dt_lora_block_unit(const struct dt_lora *l, size_t block)
{
    return block + l->saves_embedding;
}

/* Tensors of a pair. */
static inline size_t dt_lora_each(const struct dt_lora *l)
{
    return l->dora ? 3 : 2;
}

/* All tensors, unit by unit; of a block A, then B, then a DoRA's magnitudes, of each pair, whose
 * .which is the layer's. Free the result. */
struct dt_tensor *dt_lora_tensors(const struct dt_lora *l, const struct dt_shape *s, size_t *count,
                                  struct dt_err *err);

/* What is trained in all; 0: there is no memory to count it. */
size_t dt_lora_params(const struct dt_lora *l, const struct dt_shape *s);

/* peft's adapter_config.json. BASE: the model's folder or name; NULL: nobody knows. */
void dt_lora_write(const struct dt_lora *l, const struct dt_shape *s, const char *base,
                   struct dt_buf *out);
/* The entry "rank_pattern", or "alpha_pattern", of an object that W is at. */
int dt_lora_put_patterns(const struct dt_lora *l, const struct dt_shape *s,
                         struct dt_json_writer *w, bool alphas);
/* The lists "modules_to_save" and "target_modules" there. -1: no memory. */
void dt_lora_put_saved(const struct dt_lora *l, const struct dt_shape *s, struct dt_json_writer *w);
int dt_lora_put_targets(const struct dt_lora *l, const struct dt_shape *s,
                        struct dt_json_writer *w);
/* L as DOC, such a file for the model S, says; its seed stays, and it is to be finished, after a
 * failure too. What changes the arithmetic and is not ours, as biases, is refused by name. */
int dt_lora_read(struct dt_lora *l, const struct dt_shape *s, const struct dt_json *doc,
                 struct dt_err *err);

#endif
