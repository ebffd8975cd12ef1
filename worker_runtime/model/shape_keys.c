/* SPDX-License-Identifier: Apache-2.0 */
/* The families, their rows, and the rows that all of them have. */
#include "worker_runtime/model/inside.h"

#include <string.h>

/* The largest model these and DT_EXPERTS_MOST_OF_ALL allow has fewer than 2^57 parameters: their
 * bytes, with gradients and optimizer state, still fit in 64 bits. */
#define HEADS_MOST 4096
#define WIDTH_MOST (1 << 18)
#define INNER_MOST (1 << 20)
#define VOCABULARY_MOST (1 << 28)

#define AT(field) offsetof(struct dt_shape, field)

/* clang-format off */
static const struct dt_shape_key gpt2_keys[] = {
    {"n_layer", .kind = DT_SHAPE_COUNT, .at = AT(layers), .most = DT_LAYERS_MOST},
    {"n_head", .kind = DT_SHAPE_COUNT, .at = AT(heads), .most = HEADS_MOST},
    {"n_embd", .kind = DT_SHAPE_COUNT, .at = AT(width), .most = WIDTH_MOST},
    {"n_inner", .kind = DT_SHAPE_COUNT, .at = AT(inner), .most = INNER_MOST},
    {"n_ctx", .kind = DT_SHAPE_COUNT, .at = AT(positions), .most = DT_POSITIONS_MOST}, /* the old name; the next one counts more */
    {"n_positions", .kind = DT_SHAPE_COUNT, .at = AT(positions), .most = DT_POSITIONS_MOST},
    {"vocab_size", .kind = DT_SHAPE_COUNT, .at = AT(vocabulary), .most = VOCABULARY_MOST},
    {"layer_norm_epsilon", .kind = DT_SHAPE_REAL, .at = AT(norm_eps), .most = 1},
    {"initializer_range", .kind = DT_SHAPE_REAL, .at = AT(init_std), .most = 1},
    {"tie_word_embeddings", .kind = DT_SHAPE_FLAG, .at = AT(tied)},
    {"activation_function", .kind = DT_SHAPE_WORD, .word = "gelu_new"},
    {"resid_pdrop", .kind = DT_SHAPE_DROPOUT, .at = AT(branch_dropout)},
    {"embd_pdrop", .kind = DT_SHAPE_DROPOUT, .at = AT(embedding_dropout)},
    {"attn_pdrop", .kind = DT_SHAPE_DROPOUT, .at = AT(attention_dropout)},
    {"scale_attn_weights", .kind = DT_SHAPE_TRUE},
    {"scale_attn_by_inverse_layer_idx", .kind = DT_SHAPE_FALSE},
    {"add_cross_attention", .kind = DT_SHAPE_FALSE},
    {"reorder_and_upcast_attn", .kind = DT_SHAPE_IDLE},
    {"summary_activation", .kind = DT_SHAPE_IDLE},
    {"summary_first_dropout", .kind = DT_SHAPE_IDLE},
    {"summary_proj_to_labels", .kind = DT_SHAPE_IDLE},
    {"summary_type", .kind = DT_SHAPE_IDLE},
    {"summary_use_proj", .kind = DT_SHAPE_IDLE},
    {"rotary_dim", .kind = DT_SHAPE_OFF},
    {"multi_query", .kind = DT_SHAPE_OFF},
};

/* Of all that have a Llama's block. */
static const struct dt_shape_key block_keys[] = {
    {"num_hidden_layers", .kind = DT_SHAPE_COUNT, .at = AT(layers), .most = DT_LAYERS_MOST},
    {"num_attention_heads", .kind = DT_SHAPE_COUNT, .at = AT(heads), .most = HEADS_MOST},
    {"num_key_value_heads", .kind = DT_SHAPE_COUNT, .at = AT(kv_heads), .most = HEADS_MOST},
    {"head_dim", .kind = DT_SHAPE_COUNT, .at = AT(head_dim), .most = DT_HEAD_DIM_MOST},
    {"hidden_size", .kind = DT_SHAPE_COUNT, .at = AT(width), .most = WIDTH_MOST},
    {"intermediate_size", .kind = DT_SHAPE_COUNT, .at = AT(inner), .most = INNER_MOST},
    {"max_position_embeddings", .kind = DT_SHAPE_COUNT, .at = AT(positions), .most = DT_POSITIONS_MOST},
    {"vocab_size", .kind = DT_SHAPE_COUNT, .at = AT(vocabulary), .most = VOCABULARY_MOST},
    {"rms_norm_eps", .kind = DT_SHAPE_REAL, .at = AT(norm_eps), .most = 1},
    {"rope_theta", .kind = DT_SHAPE_REAL, .at = AT(rope_theta), .most = DT_ROPE_THETA_MOST},
    {"initializer_range", .kind = DT_SHAPE_REAL, .at = AT(init_std), .most = 1},
    {"tie_word_embeddings", .kind = DT_SHAPE_FLAG, .at = AT(tied)},
    {"rope_scaling", .kind = DT_SHAPE_ROPE, .at = AT(rope)},
    {"rope_parameters", .kind = DT_SHAPE_ROPE_TOO}, /* where newer files have the two */
    {"attention_dropout", .kind = DT_SHAPE_DROPOUT, .at = AT(attention_dropout)},
    {"mlp_bias", .kind = DT_SHAPE_FALSE},
    {"pretraining_tp", .kind = DT_SHAPE_IDLE},
    {"max_sequence_length", .kind = DT_SHAPE_IDLE},
    {"rope_interleaved", .kind = DT_SHAPE_OFF},
    {"partial_rotary_factor", .kind = DT_SHAPE_OFF, .most = 1},
    {"no_rope_layers", .kind = DT_SHAPE_OFF},
    {"qk_norm", .kind = DT_SHAPE_OFF},
    {"use_qk_norm", .kind = DT_SHAPE_OFF},
    {"clip_qkv", .kind = DT_SHAPE_OFF},
    {"attention_multiplier", .kind = DT_SHAPE_OFF},
    {"embedding_multiplier", .kind = DT_SHAPE_OFF, .most = 1},
    {"residual_multiplier", .kind = DT_SHAPE_OFF, .most = 1},
    {"logits_scaling", .kind = DT_SHAPE_OFF, .most = 1},
    {"logit_scale", .kind = DT_SHAPE_OFF, .most = 1},
    {"use_bidirectional_attention", .kind = DT_SHAPE_OFF},
    {"n_routed_experts", .kind = DT_SHAPE_OFF},
};

#define ONE_MLP \
    {"num_experts", .kind = DT_SHAPE_OFF}, \
    {"num_local_experts", .kind = DT_SHAPE_OFF}, \
    {"qkv_bias", .kind = DT_SHAPE_OFF}

#define UNWINDOWED \
    {"sliding_window", .kind = DT_SHAPE_OFF}, \
    {"use_sliding_window", .kind = DT_SHAPE_OFF}, \
    {"layer_types", .kind = DT_SHAPE_OFF}

#define UNCAPPED \
    {"attn_logit_softcapping", .kind = DT_SHAPE_OFF}, \
    {"final_logit_softcapping", .kind = DT_SHAPE_OFF}

#define GATED_BY_SILU \
    {"hidden_act", .kind = DT_SHAPE_WORD, .word = "silu"}, \
    UNCAPPED

#define LLAMAS \
    GATED_BY_SILU, \
    ONE_MLP

#define EXPERTS \
    GATED_BY_SILU, \
    {"num_experts_per_tok", .kind = DT_SHAPE_COUNT, .at = AT(expert_picks), .most = DT_EXPERTS_MOST}, \
    {"router_aux_loss_coef", .kind = DT_SHAPE_REAL, .at = AT(balance_share), .most = 1e3}, \
    {"output_router_logits", .kind = DT_SHAPE_FLAG, .at = AT(balance_experts)}, \
    {"router_z_loss_coef", .kind = DT_SHAPE_MORE, .at = AT(z_share), .most = 1e3}

/* All layers have experts, and no layer has a window, as in all files of these two there are. */
#define QWENS_EXPERTS \
    EXPERTS, \
    {"num_experts", .kind = DT_SHAPE_COUNT, .at = AT(experts), .most = DT_EXPERTS_MOST}, \
    {"num_local_experts", .kind = DT_SHAPE_IDLE}, /* another program's name, beside the first */ \
    {"moe_intermediate_size", .kind = DT_SHAPE_COUNT, .at = AT(expert_inner), .most = INNER_MOST}, \
    {"norm_topk_prob", .kind = DT_SHAPE_FLAG, .at = AT(weigh_picks)}, \
    {"decoder_sparse_step", .kind = DT_SHAPE_OFF, .most = 1}, \
    {"mlp_only_layers", .kind = DT_SHAPE_OFF}, \
    {"use_sliding_window", .kind = DT_SHAPE_OFF}, \
    {"sliding_window", .kind = DT_SHAPE_IDLE}, \
    {"max_window_layers", .kind = DT_SHAPE_IDLE}, \
    {"layer_types", .kind = DT_SHAPE_WINDOW}

static const struct dt_shape_key unwindowed_keys[] = {UNWINDOWED};

static const struct dt_shape_key llama_keys[] = {
    LLAMAS,
    {"attention_bias", .kind = DT_SHAPE_FALSE},
    UNWINDOWED,
};

static const struct dt_shape_key mistral_keys[] = {
    LLAMAS,
    {"attention_bias", .kind = DT_SHAPE_FALSE},
    {"sliding_window", .kind = DT_SHAPE_WINDOW},
    {"layer_types", .kind = DT_SHAPE_WINDOW},
};

static const struct dt_shape_key qwen2_keys[] = {
    LLAMAS,
    {"attention_bias", .kind = DT_SHAPE_IDLE}, /* queries, keys and values have one whatever it says */
    {"use_sliding_window", .kind = DT_SHAPE_WINDOW},
    {"sliding_window", .kind = DT_SHAPE_WINDOW},
    {"max_window_layers", .kind = DT_SHAPE_WINDOW},
    {"layer_types", .kind = DT_SHAPE_WINDOW},
    {"use_mrope", .kind = DT_SHAPE_OFF},
};

static const struct dt_shape_key qwen3_keys[] = {
    LLAMAS,
    {"attention_bias", .kind = DT_SHAPE_FALSE},
    {"use_sliding_window", .kind = DT_SHAPE_WINDOW},
    {"sliding_window", .kind = DT_SHAPE_WINDOW},
    {"max_window_layers", .kind = DT_SHAPE_WINDOW},
    {"layer_types", .kind = DT_SHAPE_WINDOW},
};

static const struct dt_shape_key mixtral_keys[] = {
    EXPERTS,
    {"num_local_experts", .kind = DT_SHAPE_COUNT, .at = AT(experts), .most = DT_EXPERTS_MOST},
    {"num_experts", .kind = DT_SHAPE_IDLE},
    {"router_jitter_noise", .kind = DT_SHAPE_OFF, .most = 0},
    {"attention_bias", .kind = DT_SHAPE_FALSE},
    {"qkv_bias", .kind = DT_SHAPE_OFF},
    {"sliding_window", .kind = DT_SHAPE_WINDOW},
    {"layer_types", .kind = DT_SHAPE_WINDOW},
};

static const struct dt_shape_key qwen2_moe_keys[] = {
    QWENS_EXPERTS,
    {"shared_expert_intermediate_size", .kind = DT_SHAPE_COUNT, .at = AT(shared_inner), .most = INNER_MOST},
    {"attention_bias", .kind = DT_SHAPE_IDLE},
    {"qkv_bias", .kind = DT_SHAPE_TRUE},
};

static const struct dt_shape_key qwen3_moe_keys[] = {
    QWENS_EXPERTS,
    {"attention_bias", .kind = DT_SHAPE_FALSE},
    {"qkv_bias", .kind = DT_SHAPE_OFF},
    {"shared_expert_intermediate_size", .kind = DT_SHAPE_OFF, .most = 0},
};

/* An old file's "gelu" was meant to be this one, and newer programs take it at its word. */
static const struct dt_shape_key gemma_keys[] = {
    {"hidden_act", .kind = DT_SHAPE_WORD, .word = "gelu_pytorch_tanh"},
    {"hidden_activation", .kind = DT_SHAPE_WORD, .word = "gelu_pytorch_tanh"},
    {"attention_bias", .kind = DT_SHAPE_FALSE},
    ONE_MLP,
    UNCAPPED,
    UNWINDOWED,
};

/* The program reads hidden_activation alone, and sliding_window. */
#define GEMMAS \
    {"hidden_activation", .kind = DT_SHAPE_WORD, .word = "gelu_pytorch_tanh"}, \
    {"hidden_act", .kind = DT_SHAPE_IDLE}, \
    {"query_pre_attn_scalar", .kind = DT_SHAPE_REAL, .at = AT(query_scalar), .most = 1e6}, \
    {"attn_logit_softcapping", .kind = DT_SHAPE_CAP, .at = AT(score_cap), .most = 1e6}, \
    {"final_logit_softcapping", .kind = DT_SHAPE_CAP, .at = AT(logit_cap), .most = 1e6}, \
    {"attention_bias", .kind = DT_SHAPE_FALSE}, \
    ONE_MLP, \
    {"sliding_window", .kind = DT_SHAPE_WINDOW}, \
    {"sliding_window_pattern", .kind = DT_SHAPE_WINDOW}, \
    {"layer_types", .kind = DT_SHAPE_WINDOW}, \
    {"sliding_window_size", .kind = DT_SHAPE_IDLE}, \
    {"_sliding_window_pattern", .kind = DT_SHAPE_IDLE}, /* layer_types says the same */ \
    {"cache_implementation", .kind = DT_SHAPE_IDLE}

static const struct dt_shape_key gemma2_keys[] = {GEMMAS};

static const struct dt_shape_key gemma3_keys[] = {
    GEMMAS,
    {"rope_local_base_freq", .kind = DT_SHAPE_REAL, .at = AT(local_theta), .most = DT_ROPE_THETA_MOST},
};

static const struct dt_shape_key common_keys[] = {
    {"model_type", .kind = DT_SHAPE_IDLE}, /* said by the family */
    {"_name_or_path", .kind = DT_SHAPE_IDLE},
    {"_attn_implementation_autoset", .kind = DT_SHAPE_IDLE},
    {"architectures", .kind = DT_SHAPE_IDLE},
    {"alibi", .kind = DT_SHAPE_OFF},
    {"quantization_config", .kind = DT_SHAPE_STORAGE},
    {"use_parallel_residual", .kind = DT_SHAPE_OFF},
    {"cls_token_id", .kind = DT_SHAPE_IDLE},
    {"decoder_start_token_id", .kind = DT_SHAPE_IDLE},
    {"mask_token_id", .kind = DT_SHAPE_IDLE},
    {"sep_token_id", .kind = DT_SHAPE_IDLE},
    {"unk_token_id", .kind = DT_SHAPE_IDLE},
    {"dtype", .kind = DT_SHAPE_IDLE},
    {"torch_dtype", .kind = DT_SHAPE_IDLE},
    {"gradient_checkpointing", .kind = DT_SHAPE_IDLE},
    {"id2label", .kind = DT_SHAPE_IDLE},
    {"label2id", .kind = DT_SHAPE_IDLE},
    {"num_labels", .kind = DT_SHAPE_IDLE},
    {"output_past", .kind = DT_SHAPE_IDLE},
    {"task_specific_params", .kind = DT_SHAPE_IDLE},
    {"transformers_version", .kind = DT_SHAPE_IDLE},
    {"use_cache", .kind = DT_SHAPE_IDLE},
};

static const struct dt_shape_key token_keys[] = {
    {"bos_token_id", .kind = DT_SHAPE_TOKENS, .at = AT(bos)},
    {"eos_token_id", .kind = DT_SHAPE_TOKENS, .at = AT(eos)},
    {"pad_token_id", .kind = DT_SHAPE_TOKENS, .at = AT(pad)},
};
/* clang-format on */

/* A Llama's, where a file does not say otherwise. */
#define OTHERS_START .norm_eps = 1e-6f, .init_std = 0.02f
#define LLAMA_START OTHERS_START, .rope_theta = 10000
/* A Gemma's, but for its rope_theta; and what the later ones have in common. */
#define GEMMA_START                                                                                \
    OTHERS_START, .head_dim = 256, .tied = true, .norm_plus_one = true, .scaled_words = true,      \
                  .gelu_gate = true
#define LATER_GEMMA_START GEMMA_START, .branch_norms = true, .query_scalar = 256

/* clang-format off */
#define KEYS(t) {t, DT_ROWS(t)}
static const struct dt_shape_family families[] = {
    [DT_GPT2] = {
        .model_type = "gpt2",
        .architecture = "GPT2LMHeadModel",
        .title = "GPT-2",
        .start = {.family = DT_GPT2, .norm_eps = 1e-5f, .init_std = 0.02f, .tied = true},
        .keys = {KEYS(gpt2_keys), KEYS(unwindowed_keys)},
    },
    [DT_LLAMA] = {
        .model_type = "llama",
        .architecture = "LlamaForCausalLM",
        .title = "Llama",
        .start = {.family = DT_LLAMA, LLAMA_START},
        .keys = {KEYS(block_keys), KEYS(llama_keys)},
    },
    [DT_MISTRAL] = {
        .model_type = "mistral",
        .architecture = "MistralForCausalLM",
        .title = "Mistral",
        .start = {.family = DT_MISTRAL, LLAMA_START},
        .keys = {KEYS(block_keys), KEYS(mistral_keys)},
        .window = DT_WINDOW_ALWAYS,
    },
    [DT_QWEN2] = {
        .model_type = "qwen2",
        .architecture = "Qwen2ForCausalLM",
        .title = "Qwen2",
        .start = {.family = DT_QWEN2, LLAMA_START, .qkv_bias = true},
        .keys = {KEYS(block_keys), KEYS(qwen2_keys)},
        .window = DT_WINDOW_BY_LAYER,
    },
    [DT_QWEN3] = {
        .model_type = "qwen3",
        .architecture = "Qwen3ForCausalLM",
        .title = "Qwen3",
        .start = {.family = DT_QWEN3, LLAMA_START, .head_dim = 128, .qk_norm = true},
        .keys = {KEYS(block_keys), KEYS(qwen3_keys)},
        .window = DT_WINDOW_BY_LAYER,
    },
    [DT_GEMMA] = {
        .model_type = "gemma",
        .architecture = "GemmaForCausalLM",
        .title = "Gemma",
        .start = {.family = DT_GEMMA, GEMMA_START, .rope_theta = 10000},
        .keys = {KEYS(block_keys), KEYS(gemma_keys)},
    },
    [DT_GEMMA2] = {
        .model_type = "gemma2",
        .architecture = "Gemma2ForCausalLM",
        .title = "Gemma 2",
        .start = {.family = DT_GEMMA2, LATER_GEMMA_START, .rope_theta = 10000, .score_cap = 50, .logit_cap = 30,
                  .full_every = 2},
        .keys = {KEYS(block_keys), KEYS(gemma2_keys)},
        .window = DT_WINDOW_IN_TURNS,
    },
    /* Files with a text_config say little in it. */
    [DT_GEMMA3_TEXT] = {
        .model_type = "gemma3_text",
        .architecture = "Gemma3ForCausalLM",
        .title = "Gemma 3",
        .start = {.family = DT_GEMMA3_TEXT, LATER_GEMMA_START, .qk_norm = true, .full_every = 6,
                  .rope_theta = 1e6f, .local_theta = 10000, .heads = 8, .kv_heads = 4,
                  .positions = 131072, .vocabulary = 262208},
        .keys = {KEYS(block_keys), KEYS(gemma3_keys)},
        .window = DT_WINDOW_IN_TURNS,
    },
    [DT_MIXTRAL] = {
        .model_type = "mixtral",
        .architecture = "MixtralForCausalLM",
        .title = "Mixtral",
        .start = {.family = DT_MIXTRAL, .norm_eps = 1e-5f, .init_std = 0.02f, .rope_theta = 1e6f,
                  .weigh_picks = true, .balance_share = 0.001f},
        .keys = {KEYS(block_keys), KEYS(mixtral_keys)},
        .window = DT_WINDOW_IF_SAID,
    },
    /* Where all layers have experts, nothing is made of intermediate_size. */
    [DT_QWEN2_MOE] = {
        .model_type = "qwen2_moe",
        .architecture = "Qwen2MoeForCausalLM",
        .title = "Qwen2-MoE",
        .start = {.family = DT_QWEN2_MOE, LLAMA_START, .inner = 5632, .qkv_bias = true,
                  .balance_share = 0.001f},
        .keys = {KEYS(block_keys), KEYS(qwen2_moe_keys)},
        .window = DT_WINDOW_BY_LAYER,
    },
    [DT_QWEN3_MOE] = {
        .model_type = "qwen3_moe",
        .architecture = "Qwen3MoeForCausalLM",
        .title = "Qwen3-MoE",
        .start = {.family = DT_QWEN3_MOE, LLAMA_START, .inner = 6144, .qk_norm = true,
                  .balance_share = 0.001f},
        .keys = {KEYS(block_keys), KEYS(qwen3_moe_keys)},
        .window = DT_WINDOW_BY_LAYER,
    },
};

const struct dt_shape_keys dt_shape_common_keys = KEYS(common_keys);
const struct dt_shape_keys dt_shape_token_keys = KEYS(token_keys);
/* clang-format on */

const struct dt_shape_family *dt_shape_family(enum dt_model_family family)
{
    return &families[family];
}

const struct dt_shape_family *dt_shape_family_of(const char *model_type)
{
    for (size_t i = 0; i < DT_ROWS(families); i++)
        if (strcmp(model_type, families[i].model_type) == 0)
            return &families[i];
    return NULL;
}

void dt_shape_family_names(struct dt_buf *out)
{
    for (size_t i = 0; i < DT_ROWS(families); i++)
        dt_buf_printf(out, "%s\"%s\"",
                      i == 0                       ? ""
                      : i + 1 == DT_ROWS(families) ? " and "
                                                   : ", ",
                      families[i].model_type);
}

const char *dt_shape_title(const struct dt_shape *s)
{
    return families[s->family].title;
}
