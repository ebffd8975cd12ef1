/* SPDX-License-Identifier: Apache-2.0 */
/* LoRA: beside a linear layer of a block, y = x W + b, stands an adapter of two small matrices,
 *
 *     y = x W + b + s B A drop(x)        A: [r, in], B: [out, r], s = alpha / r, or alpha / sqrt(r)
 *
 * and nothing but those is trained, and what is named to be saved: the words' vectors, or the head,
 * which begin as the model's. B begins as 0, and so each adapter as nothing. Names and shapes are
 * peft's. All blocks are adapted alike. Pure.
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

#include "worker_runtime/model/shape.h"

struct dt_lora {
    size_t r; /* 0: there are no adapters */
    float alpha, dropout;
    bool rslora; /* s = alpha / sqrt(r) */
    bool dora;
    float plus_ratio; /* LoRA+: of the learning rate of B, and of m, to that of A; 0: as 1 */
    uint32_t targets; /* a bit for each tensor of a block: 1 << DT_LLAMA_Q */
    uint64_t seed;    /* of what goes by dropout */
    bool saves_embedding, saves_head; /* peft's modules_to_save: trained whole */
};

float dt_lora_scale(const struct dt_lora *l);

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

/* One adapter of a block, and where its two matrices, and a DoRA's magnitudes, are in the block's
 * unit of adapters. */
struct dt_lora_pair {
    size_t tensor; /* of the block: whose layer it is */
    size_t in, out;
    size_t a_at, b_at, m_at; /* elements */
    size_t outs_at;          /* outputs of the pairs before it */
};
/* Those of any block, in the order of its tensors. */
int dt_lora_pairs(const struct dt_lora *l, const struct dt_shape *s,
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

/* peft's adapter_config.json. BASE: the model's folder or name; NULL: nobody knows. */
void dt_lora_write(const struct dt_lora *l, const struct dt_shape *s, const char *base,
                   struct dt_buf *out);
/* L as DOC, such a file for the model S, says; its seed stays. What changes the arithmetic and is
 * not ours (biases, ranks that differ) is refused by name. */
int dt_lora_read(struct dt_lora *l, const struct dt_shape *s, const struct dt_json *doc,
                 struct dt_err *err);

#endif
