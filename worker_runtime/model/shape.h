/* SPDX-License-Identifier: Apache-2.0 */
/* What model it is: Hugging Face's config.json of GPT-2, Llama and its kin, read and written,
 * and the tensors that follow from it, named and ordered as in Hugging Face's files. Pure. */
#ifndef DT_WORKER_RUNTIME_MODEL_SHAPE_H
#define DT_WORKER_RUNTIME_MODEL_SHAPE_H

#include "base/buf.h"
#include "base/err.h"
#include "worker_runtime/model/rope.h"

#include <dtrun/zero.h>
#include <stdbool.h>
#include <stddef.h>

struct cJSON;
struct dt_json;

/* All but GPT-2 are a Llama's block with what .window and the like say. */
enum dt_model_family {
    DT_GPT2,
    DT_LLAMA,
    DT_MISTRAL,
    DT_QWEN2,
    DT_QWEN3,
    DT_GEMMA,
    DT_GEMMA2,
    DT_GEMMA3_TEXT,
    DT_MIXTRAL,
    DT_QWEN2_MOE,
    DT_QWEN3_MOE
};

#define DT_LAYERS_MOST 4096
#define DT_HEAD_DIM_MOST 4096
#define DT_POSITIONS_MOST (1 << 24)
#define DT_DROPOUT_MOST 0.99 /* what stays is divided by 1 less it, as a float */
#define DT_EXPERTS_MOST 1024
#define DT_EXPERTS_MOST_OF_ALL (1 << 16) /* of all layers */

/* Tokens of one role, as a config.json names them: none, one, or a list. */
#define DT_TOKEN_IDS_MOST 16
struct dt_token_ids {
    int count;
    int32_t id[DT_TOKEN_IDS_MOST];
};

struct dt_shape {
    enum dt_model_family family;
    size_t layers, heads, kv_heads, width, head_dim, inner, positions, vocabulary;
    float norm_eps, rope_theta, init_std;
    bool tied; /* the head is the embedding */
    struct dt_rope_scaling rope;
    size_t window;      /* tokens that a token reads, itself among them; 0: all before it */
    size_t full_layers; /* the first so many layers have no window */
    size_t full_every;  /* each so many'th layer has none either; 0: no such rule */
    float local_theta;  /* rope_theta of layers with a window, which are not scaled; 0: as others */
    bool qkv_bias;      /* a Llama's block has biases behind q, k and v */
    bool qk_norm;       /* each head of q and k is normed before it is turned */
    bool norm_plus_one; /* norms multiply by 1 + weight */
    bool scaled_words;  /* words' vectors are multiplied by sqrt(width) */
    bool gelu_gate;     /* of the mlp, where a Llama has SiLU */
    bool branch_norms;  /* what attention and the mlp give is normed before the stream gets it */
    float query_scalar; /* scores are divided by the root of it; 0: of head_dim */
    float score_cap, logit_cap; /* of attention, and of the head: cap * tanh(x / cap); 0: none */
    /* Where there are experts, they are the mlp: a router sends each token through some of them,
     * and INNER is not looked at. */
    size_t experts;       /* of a block; 0: none, the mlp is one for all tokens */
    size_t expert_parts;  /* ranks that have so many of them each; 0: one has all */
    size_t expert_picks;  /* of them that a token goes through */
    size_t expert_inner;  /* the inner width of each */
    size_t shared_inner;  /* of one more that all tokens go through; 0: there is none */
    bool weigh_picks;     /* weights of those that a token goes through are made to sum to 1 */
    bool balance_experts; /* BALANCE_SHARE of the routers' auxiliary loss joins the loss */
    float balance_share;
    float z_share; /* what the routers' z loss counts (transformer.h) that joins the loss */
    /* Of training alone: which share of numbers becomes 0, of the stream at its start, of what each
     * branch adds to it, and of attention's weights. */
    float embedding_dropout, branch_dropout, attention_dropout;
    /* Nothing in training depends on these: they go from the config.json that is read into those
     * that are written, for programs that generate text. */
    struct dt_token_ids bos, eos, pad;
};

/* OBJECT (NULL: the root) of DOC is a config.json. What changes the arithmetic and is not ours
 * (another activation, some layers without experts, attention bias) is refused by its path, and so
 * is a name that is almost one we know. NOTES (may be NULL) gets a line on the keys that nothing is
 * known of. Sizes are bounded, so that no product of them overflows. */
int dt_shape_read(struct dt_shape *s, const struct dt_json *doc, const struct cJSON *object,
                  struct dt_buf *notes, struct dt_err *err);
/* A config.json that transformers opens. */
void dt_shape_write(const struct dt_shape *s, enum dt_dtype type, struct dt_buf *out);
/* The same of a folder whose linear layers are in NF4. */
void dt_shape_write_nf4(const struct dt_shape *s, enum dt_dtype type, struct dt_buf *out);

size_t dt_shape_params(const struct dt_shape *s);
/* Of these, what one token is multiplied with: not the experts that it does not go through. */
size_t dt_shape_active_params(const struct dt_shape *s);
const char *dt_shape_title(const struct dt_shape *s); /* of the family: "GPT-2" */
/* What a token of that layer reads at most, itself among it; 0: all before it. */
size_t dt_shape_window(const struct dt_shape *s, size_t layer);
/* Whether that layer is one of those that local_theta is of. */
bool dt_shape_is_local(const struct dt_shape *s, size_t layer);
/* Of a block, here. */
static inline size_t dt_shape_own_experts(const struct dt_shape *s)
{
    return s->expert_parts > 1 ? s->experts / s->expert_parts : s->experts;
}

/* Numbers between the products of a block's mlp that a token has: of each expert that it goes
 * through, and of the shared one. */
static inline size_t dt_shape_token_inner(const struct dt_shape *s)
{
    return s->experts ? s->expert_picks * s->expert_inner + s->shared_inner : s->inner;
}

/* Picks that an auxiliary loss counts, of each expert of each block; 0: there is none. */
static inline size_t dt_shape_pick_counts(const struct dt_shape *s)
{
    return s->balance_experts ? s->layers * s->experts : 0;
}

static inline bool dt_shape_drops(const struct dt_shape *s)
{
    return s->embedding_dropout > 0 || s->branch_dropout > 0 || s->attention_dropout > 0;
}

/* What a norm adds to its weights. */
static inline float dt_shape_norm_plus(const struct dt_shape *s)
{
    return s->norm_plus_one ? 1 : 0;
}

/* The tensors that a unit may have, in their order in it. A Llama's q, k and v stand together, so
 * that all three are one matrix, and so do their biases. Before the mlp stands POST_NORM, or where
 * branches are normed too, MLP_IN_NORM. Of EXPERT_GATE, EXPERT_UP and EXPERT_DOWN a block has one
 * for each expert, one behind the other. */
enum dt_gpt2_embed { DT_GPT2_WTE, DT_GPT2_WPE };
enum dt_gpt2_block {
    DT_GPT2_LN_1_WEIGHT,
    DT_GPT2_LN_1_BIAS,
    DT_GPT2_C_ATTN_WEIGHT,
    DT_GPT2_C_ATTN_BIAS,
    DT_GPT2_ATTN_PROJ_WEIGHT,
    DT_GPT2_ATTN_PROJ_BIAS,
    DT_GPT2_LN_2_WEIGHT,
    DT_GPT2_LN_2_BIAS,
    DT_GPT2_C_FC_WEIGHT,
    DT_GPT2_C_FC_BIAS,
    DT_GPT2_MLP_PROJ_WEIGHT,
    DT_GPT2_MLP_PROJ_BIAS,
    DT_GPT2_BLOCK_TENSORS
};
enum dt_gpt2_head { DT_GPT2_LN_F_WEIGHT, DT_GPT2_LN_F_BIAS, DT_GPT2_LM_HEAD };
enum dt_llama_embed { DT_LLAMA_EMBED_TOKENS };
enum dt_llama_block {
    DT_LLAMA_INPUT_NORM,
    DT_LLAMA_Q,
    DT_LLAMA_K,
    DT_LLAMA_V,
    DT_LLAMA_Q_BIAS,
    DT_LLAMA_K_BIAS,
    DT_LLAMA_V_BIAS,
    DT_LLAMA_Q_NORM,
    DT_LLAMA_K_NORM,
    DT_LLAMA_O,
    DT_LLAMA_POST_NORM,
    DT_LLAMA_GATE,
    DT_LLAMA_UP,
    DT_LLAMA_DOWN,
    DT_LLAMA_ATTENTION_OUT_NORM,
    DT_LLAMA_MLP_IN_NORM,
    DT_LLAMA_MLP_OUT_NORM,
    DT_LLAMA_ROUTER,
    DT_LLAMA_EXPERT_GATE,
    DT_LLAMA_EXPERT_UP,
    DT_LLAMA_EXPERT_DOWN,
    DT_LLAMA_SHARED_SWITCH,
    DT_LLAMA_SHARED_GATE,
    DT_LLAMA_SHARED_UP,
    DT_LLAMA_SHARED_DOWN,
    DT_LLAMA_BLOCK_TENSORS
};
enum dt_llama_head { DT_LLAMA_NORM, DT_LLAMA_LM_HEAD };
#define DT_BLOCK_TENSORS_MOST 25

/* One tensor. How it is filled at the start: normal with the deviation init_std where that is above
 * 0, evenly between -init_bound and init_bound where that is, else the constant init_value. */
struct dt_tensor {
    char name[96]; /* a tied GPT-2's are as in its own files, "h.0.attn.c_attn.weight"; an untied
                      one's begin with "transformer.", else its lm_head has no place to stand */
    char unit_name[16]; /* "embed", "block.0", "head" */
    size_t dims[2];     /* the second is 1 at rank 1 */
    int rank;
    size_t unit;   /* which unit of dt_shape_units() it is part of */
    size_t index;  /* its place among the unit's, as dt_zero counts them */
    size_t which;  /* of the enums above, some of which a model may lack */
    size_t expert; /* of those that each expert has one of */
    size_t count;  /* of its elements */
    size_t offset; /* of its first element in that unit */
    float init_std, init_bound, init_value;
    float rate; /* its learning rate is so many times that of others; 0: as 1 */
    bool decay; /* weight decay applies: matrices, not norms and biases */
};

/* All tensors, unit by unit: "embed" (token, position), "block.0" ... , "head" (last norm, untied
 * head). Free the result. The count is dt_shape_tensor_count(). */
size_t dt_shape_tensor_count(const struct dt_shape *s);
struct dt_tensor *dt_shape_tensors(const struct dt_shape *s, struct dt_err *err);

/* -- a model that PARTS ranks share, as tensor parallelism cuts it ---------------------------- */

/* Each of them has so many of a block's heads and so much of its inner width, and room for so many
 * words, of which some ranks have one less: it is padding there, the last rows of a matrix of
 * words, which are 0, and so are their gradients. Where there are fewer key/value heads than ranks,
 * some ranks have the same one. Of a model with experts each has a part of all of them. Refuses
 * what else cannot be cut evenly by its numbers, and says which parts can. Pure. */
int dt_shape_cut(const struct dt_shape *s, size_t parts, struct dt_shape *out, struct dt_err *err);

/* Part INDEX of a tensor: all of it where each rank has the whole, as of norms; else some stretches
 * of one dimension, with all of the other. Heads stay whole, and query heads are with the key/value
 * head that they read, of which several ranks have a copy where there are fewer heads than ranks.
 * Pure. */
struct dt_tensor_part {
    int dim; /* the one that is cut */
    bool whole;
    size_t copies; /* so many ranks behind each other have the same, the first's index a multiple */
    int stretches;
    struct dt_dim_stretch {
        size_t from, to;
    } stretch[3]; /* one; of queries, keys and values in one tensor, one each */
};
void dt_shape_part(const struct dt_shape *s, const struct dt_tensor *t, size_t parts, size_t index,
                   struct dt_tensor_part *out);
/* Where element AT of that part, row by row, is in T, and how many stand behind each other there as
 * here from it on; at least 1. DT_PADDING: behind the part's end, as are all that follow. Pure. */
#define DT_PADDING SIZE_MAX
size_t dt_tensor_part_run(const struct dt_tensor *t, const struct dt_tensor_part *p, size_t at,
                          size_t *count);

/* The words that a rank has, those from FROM to below TO of ALL, which PARTS ranks share. Pure. */
struct dt_words {
    size_t parts, from, to, all;
};
struct dt_words dt_shape_words(const struct dt_shape *s, size_t parts, size_t index);

/* -- a model whose experts PARTS ranks share -------------------------------------------------- */

/* Each of them has so many experts of each block, and all else of S, which may be a part itself. As
 * dt_shape_cut() otherwise. Pure. */
int dt_shape_share_experts(const struct dt_shape *s, size_t parts, struct dt_shape *out,
                           struct dt_err *err);
/* TENSORS of S, as dt_shape_tensors() gives them: experts that part INDEX does not have lose all
 * elements. What is left lies as S that PARTS share says. Pure. */
void dt_shape_keep_experts(const struct dt_shape *s, size_t parts, size_t index,
                           struct dt_tensor *tensors);
bool dt_shape_is_of_expert(const struct dt_shape *s, const struct dt_tensor *t);

/* The same as dt_zero wants it. UNITS[i].params point into *PARAMS, whose names, as the
 * units', point into TENSORS;
 * free both. */
size_t dt_shape_unit_count(const struct dt_shape *s); /* layers + 2 */
int dt_shape_units(const struct dt_shape *s, const struct dt_tensor *tensors,
                   struct dt_unit **units, struct dt_param **params, struct dt_err *err);
/* The same of COUNT tensors that are in UNIT_COUNT units, one at least in each. */
int dt_tensor_units(const struct dt_tensor *tensors, size_t count, size_t unit_count,
                    struct dt_unit **units, struct dt_param **params, struct dt_err *err);

#endif
