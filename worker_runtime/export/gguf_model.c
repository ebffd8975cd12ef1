/* SPDX-License-Identifier: Apache-2.0 */
/* Names are found by rows of a table for each family, so a tensor that has no row, as of a model
 * that this file was not written for, is refused and not lost. */
#include "worker_runtime/export/gguf_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

struct row {
    const char *ours, *theirs; /* behind the number of the block, where there is one */
    enum dt_gguf_turn turn;
};

/* clang-format off */
static const struct row gpt2_rows[] = {
    {"wte.weight", "token_embd.weight", DT_GGUF_AS_IT_IS},
    {"wpe.weight", "position_embd.weight", DT_GGUF_AS_IT_IS},
    {"ln_f.weight", "output_norm.weight", DT_GGUF_AS_IT_IS},
    {"ln_f.bias", "output_norm.bias", DT_GGUF_AS_IT_IS},
    {"lm_head.weight", "output.weight", DT_GGUF_AS_IT_IS},
    {"ln_1.weight", "attn_norm.weight", DT_GGUF_AS_IT_IS},
    {"ln_1.bias", "attn_norm.bias", DT_GGUF_AS_IT_IS},
    {"attn.c_attn.weight", "attn_qkv.weight", DT_GGUF_TRANSPOSED},
    {"attn.c_attn.bias", "attn_qkv.bias", DT_GGUF_AS_IT_IS},
    {"attn.c_proj.weight", "attn_output.weight", DT_GGUF_TRANSPOSED},
    {"attn.c_proj.bias", "attn_output.bias", DT_GGUF_AS_IT_IS},
    {"ln_2.weight", "ffn_norm.weight", DT_GGUF_AS_IT_IS},
    {"ln_2.bias", "ffn_norm.bias", DT_GGUF_AS_IT_IS},
    {"mlp.c_fc.weight", "ffn_up.weight", DT_GGUF_TRANSPOSED},
    {"mlp.c_fc.bias", "ffn_up.bias", DT_GGUF_AS_IT_IS},
    {"mlp.c_proj.weight", "ffn_down.weight", DT_GGUF_TRANSPOSED},
    {"mlp.c_proj.bias", "ffn_down.bias", DT_GGUF_AS_IT_IS},
};

static const struct row llama_rows[] = {
    {"embed_tokens.weight", "token_embd.weight", DT_GGUF_AS_IT_IS},
    {"norm.weight", "output_norm.weight", DT_GGUF_AS_IT_IS},
    {"lm_head.weight", "output.weight", DT_GGUF_AS_IT_IS},
    {"input_layernorm.weight", "attn_norm.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.q_proj.weight", "attn_q.weight", DT_GGUF_PAIRS},
    {"self_attn.k_proj.weight", "attn_k.weight", DT_GGUF_PAIRS},
    {"self_attn.v_proj.weight", "attn_v.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.o_proj.weight", "attn_output.weight", DT_GGUF_AS_IT_IS},
    {"post_attention_layernorm.weight", "ffn_norm.weight", DT_GGUF_AS_IT_IS},
    {"mlp.gate_proj.weight", "ffn_gate.weight", DT_GGUF_AS_IT_IS},
    {"mlp.up_proj.weight", "ffn_up.weight", DT_GGUF_AS_IT_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", DT_GGUF_AS_IT_IS},
};

static const struct row qwen_rows[] = {
    {"embed_tokens.weight", "token_embd.weight", DT_GGUF_AS_IT_IS},
    {"norm.weight", "output_norm.weight", DT_GGUF_AS_IT_IS},
    {"lm_head.weight", "output.weight", DT_GGUF_AS_IT_IS},
    {"input_layernorm.weight", "attn_norm.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.q_proj.weight", "attn_q.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.k_proj.weight", "attn_k.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.v_proj.weight", "attn_v.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.q_proj.bias", "attn_q.bias", DT_GGUF_AS_IT_IS},
    {"self_attn.k_proj.bias", "attn_k.bias", DT_GGUF_AS_IT_IS},
    {"self_attn.v_proj.bias", "attn_v.bias", DT_GGUF_AS_IT_IS},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.o_proj.weight", "attn_output.weight", DT_GGUF_AS_IT_IS},
    {"post_attention_layernorm.weight", "ffn_norm.weight", DT_GGUF_AS_IT_IS},
    {"mlp.gate_proj.weight", "ffn_gate.weight", DT_GGUF_AS_IT_IS},
    {"mlp.up_proj.weight", "ffn_up.weight", DT_GGUF_AS_IT_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", DT_GGUF_AS_IT_IS},
};

/* Without a head: check_head(). */
static const struct row gemma_rows[] = {
    {"embed_tokens.weight", "token_embd.weight", DT_GGUF_AS_IT_IS},
    {"norm.weight", "output_norm.weight", DT_GGUF_PLUS_ONE},
    {"input_layernorm.weight", "attn_norm.weight", DT_GGUF_PLUS_ONE},
    {"self_attn.q_proj.weight", "attn_q.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.k_proj.weight", "attn_k.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.v_proj.weight", "attn_v.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.o_proj.weight", "attn_output.weight", DT_GGUF_AS_IT_IS},
    {"post_attention_layernorm.weight", "ffn_norm.weight", DT_GGUF_PLUS_ONE},
    {"mlp.gate_proj.weight", "ffn_gate.weight", DT_GGUF_AS_IT_IS},
    {"mlp.up_proj.weight", "ffn_up.weight", DT_GGUF_AS_IT_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", DT_GGUF_AS_IT_IS},
};

/* Of Gemma 2 and 3. */
static const struct row later_gemma_rows[] = {
    {"embed_tokens.weight", "token_embd.weight", DT_GGUF_AS_IT_IS},
    {"norm.weight", "output_norm.weight", DT_GGUF_PLUS_ONE},
    {"lm_head.weight", "output.weight", DT_GGUF_AS_IT_IS},
    {"input_layernorm.weight", "attn_norm.weight", DT_GGUF_PLUS_ONE},
    {"self_attn.q_proj.weight", "attn_q.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.k_proj.weight", "attn_k.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.v_proj.weight", "attn_v.weight", DT_GGUF_AS_IT_IS},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", DT_GGUF_PLUS_ONE},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", DT_GGUF_PLUS_ONE},
    {"self_attn.o_proj.weight", "attn_output.weight", DT_GGUF_AS_IT_IS},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", DT_GGUF_PLUS_ONE},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight", DT_GGUF_PLUS_ONE},
    {"mlp.gate_proj.weight", "ffn_gate.weight", DT_GGUF_AS_IT_IS},
    {"mlp.up_proj.weight", "ffn_up.weight", DT_GGUF_AS_IT_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", DT_GGUF_AS_IT_IS},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", DT_GGUF_PLUS_ONE},
};
/* clang-format on */

struct family {
    enum dt_model_family of;
    const char *name; /* of the architecture, and what its keys begin with */
    const struct row *rows;
    size_t count;
};

static const struct family families[] = {
    {DT_GPT2, "gpt2", gpt2_rows, ROWS(gpt2_rows)},
    {DT_LLAMA, "llama", llama_rows, ROWS(llama_rows)},
    {DT_MISTRAL, "llama", llama_rows, ROWS(llama_rows)},
    {DT_QWEN2, "qwen2", qwen_rows, ROWS(qwen_rows)},
    {DT_QWEN3, "qwen3", qwen_rows, ROWS(qwen_rows)},
    {DT_GEMMA, "gemma", gemma_rows, ROWS(gemma_rows)},
    {DT_GEMMA2, "gemma2", later_gemma_rows, ROWS(later_gemma_rows)},
    {DT_GEMMA3_TEXT, "gemma3", later_gemma_rows, ROWS(later_gemma_rows)},
};

static const struct family *find_family(const struct dt_shape *s, struct dt_err *err)
{
    for (size_t i = 0; i < ROWS(families); i++)
        if (families[i].of == s->family)
            return &families[i];
    dt_err_set(err, DT_E_USAGE, "a model of this family is not written as GGUF yet");
    return NULL;
}

/* -- tensors ---------------------------------------------------------------------------------- */

static const char *without(const char *name, const char *prefix)
{
    const char *rest = name;
    for (; *prefix && *rest == *prefix; prefix++)
        rest++;
    return *prefix ? name : rest;
}

/* "h.3.ln_1.weight" is "ln_1.weight" of block 3; BLOCK -1: of none. */
static const char *split_name(const char *name, long *block)
{
    const char *bare = without(without(name, "transformer."), "model.");
    const char *number = without(without(bare, "h."), "layers.");
    *block = -1;
    if (number == bare)
        return bare;
    char *end;
    *block = strtol(number, &end, 10);
    return *end == '.' ? end + 1 : end;
}

static const struct row *find_row(const struct family *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->rows[i].ours, name) == 0)
            return &f->rows[i];
    return NULL;
}

/* Norms and biases are small, and llama.cpp wants them as floats; it looks up positions as such. */
static enum dt_gguf_type type_of(const struct dt_gguf_tensor *t, enum dt_gguf_type wanted)
{
    if (t->rows == 0 || strcmp(t->name, "position_embd.weight") == 0)
        return DT_GGUF_F32;
    return dt_gguf_takes(wanted, t->width) ? wanted : DT_GGUF_F16;
}

static int turn_one(const struct family *f, const struct dt_tensor *ours, enum dt_gguf_type wanted,
                    struct dt_gguf_tensor *t, struct dt_err *err)
{
    long block;
    const struct row *row = find_row(f, split_name(ours->name, &block));
    if (!row)
        return dt_err_set(err, DT_E_USAGE, "tensor %s has no place in a GGUF that is known here",
                          ours->name);
    if (block < 0)
        snprintf(t->name, sizeof t->name, "%s", row->theirs);
    else
        snprintf(t->name, sizeof t->name, "blk.%ld.%s", block, row->theirs);
    bool over = row->turn == DT_GGUF_TRANSPOSED;
    t->turn = row->turn;
    t->rows = ours->rank == 2 ? ours->dims[over ? 1 : 0] : 0;
    t->width = ours->rank == 2 ? ours->dims[over ? 0 : 1] : ours->dims[0];
    t->type = type_of(t, wanted);
    return 0;
}

int dt_gguf_model_tensors(const struct dt_shape *s, const struct dt_tensor *tensors, size_t count,
                          const enum dt_gguf_type *types, struct dt_gguf_tensor *out,
                          struct dt_err *err)
{
    const struct family *f = find_family(s, err);
    if (!f)
        return -1;
    for (size_t i = 0; i < count; i++) {
        out[i] = (struct dt_gguf_tensor){.source = i};
        if (turn_one(f, &tensors[i], types[i], &out[i], err) < 0)
            return -1;
    }
    return 0;
}

/* llama.cpp turns the pair (2i, 2i + 1) of a head where Hugging Face's files turn (i, i + d/2). */
size_t dt_gguf_source_row(const struct dt_shape *s, const struct dt_gguf_tensor *t, size_t r)
{
    size_t d = s->head_dim, in_head = r % d;
    return t->turn == DT_GGUF_PAIRS ? r - in_head + in_head % 2 * (d / 2) + in_head / 2 : r;
}

/* -- keys ------------------------------------------------------------------------------------- */

/* As llama.cpp numbers files. */
static uint32_t file_type(enum dt_gguf_type main)
{
    switch (main) {
    case DT_GGUF_F32:
        return 0;
    case DT_GGUF_F16:
        return 1;
    case DT_GGUF_Q8_0:
        return 7;
    case DT_GGUF_BF16:
        return 32;
    }
    return 0;
}

static void put_size(struct dt_gguf *g, const struct family *f, const char *key, size_t v)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", f->name, key);
    dt_gguf_put_u32(g, name, (uint32_t)v); /* a shape's sizes are below 2^29 */
}

static void put_number(struct dt_gguf *g, const struct family *f, const char *key, float v)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", f->name, key);
    dt_gguf_put_float(g, name, v);
}

static void put_word(struct dt_gguf *g, const struct family *f, const char *key, const char *word)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", f->name, key);
    dt_gguf_put_text(g, name, dt_bytes_of(word));
}

/* Scores grow with the texts that a model was stretched for: llama.cpp's own share of that follows
 * from the factor, and the key has the rest. */
static void put_yarn(struct dt_gguf *g, const struct family *f, const struct dt_rope_scaling *r)
{
    put_word(g, f, "rope.scaling.type", "yarn");
    put_number(g, f, "rope.scaling.factor", r->factor);
    put_size(g, f, "rope.scaling.original_context_length", (size_t)r->original);
    put_number(g, f, "rope.scaling.attn_factor", r->attention / (1 + 0.1f * logf(r->factor)));
}

/* Llama 3's is a tensor: dt_gguf_rope_factors(). */
static int put_scaling(struct dt_gguf *g, const struct family *f, const struct dt_shape *s,
                       struct dt_err *err)
{
    switch (s->rope.kind) {
    case DT_ROPE_PLAIN:
    case DT_ROPE_DYNAMIC: /* plain, as far as the model's positions go */
    case DT_ROPE_LLAMA3:
        return 0;
    case DT_ROPE_LINEAR:
        put_word(g, f, "rope.scaling.type", "linear");
        put_number(g, f, "rope.scaling.factor", s->rope.factor);
        return 0;
    case DT_ROPE_YARN:
        if (s->rope.exact || s->rope.beta_fast != 32 || s->rope.beta_slow != 1)
            return dt_err_set(
                err, DT_E_USAGE,
                "rope_scaling: llama.cpp has yarn with a beta_fast of 32, a beta_slow "
                "of 1, and rounded bounds alone");
        put_yarn(g, f, &s->rope);
        return 0;
    }
    return 0;
}

/* What llama.cpp knows of these models without a key. */
static const struct later_gemma {
    enum dt_model_family of;
    size_t full_every, largest; /* layers of the one whose scores are scaled by another rule */
    float local_theta;
    bool score_cap;
} later_gemmas[] = {
    {DT_GEMMA2, 2, 46, 0, true},
    {DT_GEMMA3_TEXT, 6, 62, 10000, false},
};

static int refuse(const char *key, const char *why, double value, struct dt_err *err)
{
    return dt_err_set(err, DT_E_USAGE, "%s: llama.cpp %s %g", key, why, value);
}

static int check_later_gemma(const struct later_gemma *l, const struct dt_shape *s,
                             struct dt_err *err)
{
    size_t scalar = s->layers == l->largest ? s->width / s->heads : s->head_dim;
    if (s->query_scalar < (float)scalar || s->query_scalar > (float)scalar)
        return refuse("query_pre_attn_scalar", "has a model of this size with no other than",
                      (double)scalar, err);
    if (s->full_every != l->full_every)
        return refuse("sliding_window_pattern", "has this family with no other than",
                      (double)l->full_every, err);
    if (s->local_theta < l->local_theta || s->local_theta > l->local_theta)
        return refuse("rope_local_base_freq", "has this family with no other than",
                      (double)l->local_theta, err);
    if ((s->score_cap > 0) != l->score_cap)
        return dt_err_set(err, DT_E_USAGE,
                          "attn_logit_softcapping: llama.cpp has this family %s one alone",
                          l->score_cap ? "with" : "without");
    if (l->score_cap && s->logit_cap <= 0)
        return dt_err_set(err, DT_E_USAGE,
                          "final_logit_softcapping: llama.cpp has this family with one alone");
    return 0;
}

/* llama.cpp does not load a Gemma 1 or 2 with a tensor for the head. */
static int check_head(const struct dt_shape *s, struct dt_err *err)
{
    if (s->tied || (s->family != DT_GEMMA && s->family != DT_GEMMA2))
        return 0;
    return dt_err_set(
        err, DT_E_USAGE,
        "tie_word_embeddings: llama.cpp has this family with the vectors of tokens as "
        "its head alone, and this model has a head of its own; write a folder of "
        "Hugging Face's, by --to hf");
}

static int put_caps(struct dt_gguf *g, const struct family *f, const struct dt_shape *s,
                    struct dt_err *err)
{
    for (const struct later_gemma *l = later_gemmas; l < later_gemmas + ROWS(later_gemmas); l++)
        if (l->of == s->family && check_later_gemma(l, s, err) < 0)
            return -1;
    if (s->score_cap > 0)
        put_number(g, f, "attn_logit_softcapping", s->score_cap);
    if (s->logit_cap > 0)
        put_number(g, f, "final_logit_softcapping", s->logit_cap);
    return 0;
}

bool dt_gguf_rope_factors(const struct dt_shape *s, float *out)
{
    static const struct dt_rope_scaling plain = {.kind = DT_ROPE_PLAIN};
    float speeds[DT_HEAD_DIM_MOST / 2];
    if (s->family == DT_GPT2 || s->rope.kind != DT_ROPE_LLAMA3)
        return false;
    dt_rope_speeds(&plain, s->rope_theta, s->head_dim, speeds);
    dt_rope_speeds(&s->rope, s->rope_theta, s->head_dim, out);
    for (size_t i = 0; i < s->head_dim / 2; i++)
        out[i] = speeds[i] / out[i];
    return true;
}

int dt_gguf_put_model(struct dt_gguf *g, const struct dt_shape *s, enum dt_gguf_type main,
                      struct dt_err *err)
{
    const struct family *f = find_family(s, err);
    if (!f || check_head(s, err) < 0)
        return -1;
    dt_gguf_put_text(g, "general.architecture", dt_bytes_of(f->name));
    dt_gguf_put_u32(g, "general.file_type", file_type(main));
    put_size(g, f, "context_length", s->positions);
    put_size(g, f, "embedding_length", s->width);
    put_size(g, f, "block_count", s->layers);
    put_size(g, f, "feed_forward_length", s->inner);
    put_size(g, f, "attention.head_count", s->heads);
    put_size(g, f, "vocab_size", s->vocabulary);
    if (s->family == DT_GPT2) {
        put_number(g, f, "attention.layer_norm_epsilon", s->norm_eps);
        return 0;
    }
    put_number(g, f, "attention.layer_norm_rms_epsilon", s->norm_eps);
    put_size(g, f, "attention.head_count_kv", s->kv_heads);
    put_size(g, f, "attention.key_length", s->head_dim);
    put_size(g, f, "attention.value_length", s->head_dim);
    put_size(g, f, "rope.dimension_count", s->head_dim);
    put_number(g, f, "rope.freq_base", s->rope_theta);
    if (s->window)
        put_size(g, f, "attention.sliding_window", s->window);
    return put_caps(g, f, s, err) < 0 ? -1 : put_scaling(g, f, s, err);
}
