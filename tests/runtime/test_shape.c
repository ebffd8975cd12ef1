/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/shape.h"

#include "base/json.h"
#include "tests/lib/check.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

static struct dt_buf notes; /* of the last one that was read */

static int read_shape(struct dt_shape *s, const char *text, struct dt_err *err)
{
    struct dt_json doc;
    int rc = dt_json_parse(&doc, text, strlen(text), 1 << 16, err);
    dt_buf_clear(&notes);
    if (rc == 0)
        rc = dt_shape_read(s, &doc, NULL, &notes, err);
    dt_json_finish(&doc);
    return rc;
}

static struct dt_shape shape_of(const char *text)
{
    struct dt_shape s;
    struct dt_err err = {0};
    CHECK_OK(read_shape(&s, text, &err), err);
    return s;
}

/* What Hugging Face's hub has for the smallest GPT-2, but for dropout. */
static const char gpt2[] =
    "{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"],"
    " \"attn_pdrop\": 0.0, \"bos_token_id\": 50256, \"embd_pdrop\": 0, \"eos_token_id\": 50256,"
    " \"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\","
    " \"n_ctx\": 1024, \"n_embd\": 768, \"n_head\": 12, \"n_inner\": null, \"n_layer\": 12,"
    " \"n_positions\": 1024, \"resid_pdrop\": 0.0, \"summary_activation\": null,"
    " \"summary_first_dropout\": 0.1, \"summary_proj_to_labels\": true,"
    " \"summary_type\": \"cls_index\", \"summary_use_proj\": true,"
    " \"task_specific_params\": {\"text-generation\": {\"do_sample\": true}},"
    " \"vocab_size\": 50257}";

static const char llama[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false,"
    " \"attention_dropout\": 0.0, \"hidden_act\": \"silu\", \"hidden_size\": 2048,"
    " \"initializer_range\": 0.02, \"intermediate_size\": 5632, \"max_position_embeddings\": 2048,"
    " \"model_type\": \"llama\", \"num_attention_heads\": 32, \"num_hidden_layers\": 22,"
    " \"num_key_value_heads\": 4, \"pretraining_tp\": 1, \"rms_norm_eps\": 1e-05,"
    " \"rope_scaling\": null, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\","
    " \"transformers_version\": \"4.35.0\", \"use_cache\": true, \"vocab_size\": 32000}";

TEST(a_gpt2_is_read_as_the_hub_has_it)
{
    struct dt_shape s = shape_of(gpt2);
    CHECK_EQ(s.family, DT_GPT2);
    CHECK_EQ(s.layers, 12);
    CHECK_EQ(s.heads, 12);
    CHECK_EQ(s.kv_heads, 12);
    CHECK_EQ(s.width, 768);
    CHECK_EQ(s.head_dim, 64);
    CHECK_EQ(s.inner, 3072);
    CHECK_EQ(s.positions, 1024);
    CHECK_EQ(s.vocabulary, 50257);
    CHECK(s.norm_eps == 1e-5f && s.init_std == 0.02f && s.tied);
    CHECK_EQ(dt_shape_params(&s), 124439808); /* "124M" */
}

TEST(a_llama_is_read_as_the_hub_has_it)
{
    struct dt_shape s = shape_of(llama);
    CHECK_EQ(s.family, DT_LLAMA);
    CHECK_EQ(s.layers, 22);
    CHECK_EQ(s.heads, 32);
    CHECK_EQ(s.kv_heads, 4);
    CHECK_EQ(s.width, 2048);
    CHECK_EQ(s.head_dim, 64);
    CHECK_EQ(s.inner, 5632);
    CHECK_EQ(s.positions, 2048);
    CHECK_EQ(s.vocabulary, 32000);
    CHECK(s.norm_eps == 1e-5f && s.rope_theta == 10000 && !s.tied);
    CHECK_EQ(dt_shape_params(&s), 1100048384); /* "1.1B" */
}

#define G "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":8,\"vocab_size\":5"
#define L                                                                                          \
    "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":8,"                         \
    "\"intermediate_size\":6,\"max_position_embeddings\":4,\"vocab_size\":5"

/* Two heads share the width, and none says how large it is. */
#define WIDE(width)                                                                                \
    "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":" #width                    \
    ",\"intermediate_size\":6,\"max_position_embeddings\":4,\"vocab_size\":5,"                     \
    "\"num_attention_heads\":2}"

/* Small ones with experts: three of them, of which a token goes through two. */
#define ROUTED(model_type)                                                                         \
    "{\"model_type\":\"" model_type "\",\"num_hidden_layers\":2,\"hidden_size\":8,"                \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":4,"           \
    "\"vocab_size\":5,\"num_experts_per_tok\":2"
#define MIXTRAL ROUTED("mixtral") ",\"intermediate_size\":6,\"num_local_experts\":3"
#define QWEN2_MOE                                                                                  \
    ROUTED("qwen2_moe")                                                                            \
    ",\"num_experts\":3,\"moe_intermediate_size\":4,\"shared_expert_intermediate_size\":5"
#define QWEN3_MOE ROUTED("qwen3_moe") ",\"num_experts\":3,\"moe_intermediate_size\":4"

TEST(what_is_not_written_has_hugging_faces_default)
{
    struct dt_shape s = shape_of(G ",\"n_head\":2,\"n_ctx\":16}");
    CHECK_EQ(s.positions, 16);
    CHECK_EQ(s.inner, 32);
    CHECK(s.tied && s.norm_eps == 1e-5f);
    s = shape_of(G ",\"n_head\":2,\"n_positions\":16,\"n_ctx\":8,\"n_inner\":12}");
    CHECK_EQ(s.positions, 16);
    CHECK_EQ(s.inner, 12);
    s = shape_of(L ",\"num_attention_heads\":2}");
    CHECK_EQ(s.kv_heads, 2);
    CHECK_EQ(s.head_dim, 4);
    CHECK(!s.tied && s.norm_eps == 1e-6f && s.rope_theta == 10000);
    s = shape_of(WIDE(8192));
    CHECK_EQ(s.head_dim, 4096);
    s = shape_of(L ",\"num_attention_heads\":3,\"head_dim\":6,"
                   "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500000.0}}");
    CHECK_EQ(s.head_dim, 6);
    CHECK(s.rope_theta == 500000);
}

#define MANY_EXPERTS                                                                               \
    "{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":100,\"hidden_size\":8,"                   \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":4,"           \
    "\"vocab_size\":5,\"num_experts_per_tok\":2,\"num_experts\":1000,\"moe_intermediate_size\":4"  \
    "}"

TEST(what_would_train_another_model_is_refused_by_its_path)
{
    /* clang-format off */
    static const struct { const char *text, *error; } rows[] = {
        {"{}", "the document: \"model_type\" is missing"},
        {"{\"model_type\":\"bert\"}", "model_type: only \"gpt2\", \"llama\", \"mistral\", \"qwen2\", \"qwen3\", \"gemma\", \"gemma2\", \"gemma3_text\", \"mixtral\", \"qwen2_moe\" and \"qwen3_moe\" are implemented"},
        {"{\"model_type\":\"gemma3\"}", "model_type: a \"gemma3\" reads images, too, which is not implemented"},
        {"[]", "the document: expected an object, found an array"},
        {G ",\"n_head\":2}", "the document: \"n_positions\" is missing"},
        {G ",\"n_positions\":4}", "\"n_head\" is missing"},
        {G ",\"n_head\":3,\"n_positions\":4}", "n_embd 8 is no multiple of n_head 3"},
        {G ",\"n_head\":0}", "n_head: expected a whole number from 1 to 4096, found 0"},
        {G ",\"n_head\":2.5}", "n_head: expected a whole number, found 2.5"},
        {G ",\"n_head\":\"2\"}", "n_head: expected a whole number, found \"2\""},
        {G ",\"n_inner\":1e300}", "n_inner: expected a whole number from 1 to 1048576"},
        {G ",\"activation_function\":\"relu\"}", "activation_function: only \"gelu_new\" is implemented"},
        {G ",\"resid_pdrop\":-0.1}", "resid_pdrop: expected a number from 0 to 0.99, found -0.1"},
        {G ",\"attn_pdrop\":1}", "attn_pdrop: expected a number from 0 to 0.99, found 1"},
        {G ",\"scale_attn_weights\":false}", "scale_attn_weights: only true is implemented"},
        {G ",\"add_cross_attention\":true}", "add_cross_attention: only false is implemented"},
        {G ",\"initializer_range\":-1}", "initializer_range: expected a number from 0 to 1, found -1"},
        {G ",\"tie_word_embeddings\":1}", "tie_word_embeddings: expected true or false, found 1"},
        {G ",\"n_heads\":2}", "n_heads: there is no such setting; did you mean n_head?"},
        {G ",\"rotary_dim\":64}", "rotary_dim: it changes what a model computes, and is not implemented"},
        {G ",\"eos_token_id\":\"<end>\"}", "eos_token_id: expected a token's number, or a list of them"},
        {G ",\"eos_token_id\":[1,2.5]}", "eos_token_id: expected a token's number, or a list of them"},
        {G ",\"eos_token_id\":2147483648}", "eos_token_id: expected a token's number, or a list of them"},
        {G ",\"eos_token_id\":1e300}", "eos_token_id: expected a token's number, or a list of them"},
        {G ",\"pad_token_id\":-2}", "pad_token_id: expected a token's number, or a list of them"},
        {G ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "eos_token_id: there are more tokens in it than are taken"},
        {L "}", "\"num_attention_heads\" is missing"},
        {L ",\"num_attention_heads\":3}", "hidden_size 8 is no multiple of num_attention_heads 3"},
        {L ",\"num_attention_heads\":4,\"num_key_value_heads\":3}", "num_attention_heads 4 is no multiple of num_key_value_heads 3"},
        {L ",\"num_attention_heads\":8}", "head_dim 1 is no multiple of a pair, 2"},
        {L ",\"num_attention_heads\":2,\"head_dim\":4098}", "head_dim: expected a whole number from 1 to 4096, found 4098"},
        {WIDE(8196), "the document: hidden_size 8196 by num_attention_heads 2 makes heads of 4098 numbers; at most 4096 are taken"},
        {L ",\"hidden_act\":\"gelu\"}", "hidden_act: only \"silu\" is implemented"},
        {L ",\"attention_bias\":true}", "attention_bias: only false is implemented"},
        {L ",\"mlp_bias\":true}", "mlp_bias: only false is implemented"},
        {L ",\"rope_interleaved\":true}", "rope_interleaved: it changes what a model computes, and is not implemented"},
        {L ",\"sliding_window\":4096}", "sliding_window: it changes what a model computes"},
        {L ",\"residual_multiplier\":0.22}", "residual_multiplier: it changes what a model computes"},
        {L ",\"quantization_config\":{\"bits\":4}}", "quantization_config: of quantized weights only bitsandbytes' NF4"},
        {L ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0}}", "rope_scaling: \"original_max_position_embeddings\" is missing"},
        {L ",\"rope_scaling\":{\"type\":\"linear\"}}", "rope_scaling: \"factor\" is missing"},
        {L ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}", "rope_scaling.factor: expected a number from 1 to 1e+06, found 0.5"},
        {L ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}}", "rope_scaling.factor: expected a number"},
        {L ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"beta_fast\":32}}", "rope_scaling.beta_fast: there is no such setting"},
        {L ",\"rope_scaling\":{\"type\":\"longrope\"}}", "rope_scaling.type: only \"default\", \"linear\", \"dynamic\", \"llama3\" and \"yarn\" are implemented"},
        {L ",\"rope_scaling\":{\"rope_type\":3}}", "rope_scaling.rope_type: expected a string"},
        {L ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"original_max_position_embeddings\":8192,\"low_freq_factor\":4,\"high_freq_factor\":4}}", "rope_scaling.high_freq_factor: it has to be above low_freq_factor"},
        {L ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":8.5}}", "rope_scaling.original_max_position_embeddings: expected a whole number"},
        {L ",\"num_attention_heads\":2,\"rope_theta\":1,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}", "rope_theta: yarn needs a base above 1"},
        {L ",\"rope_scaling\":{\"factor\":2.0}}", "rope_scaling.factor: there is no such setting"},
        {L ",\"num_attention_heads\":2,\"rope_theta\":0}", "rope_theta: rotation needs a base of 1 or more"},
        {L ",\"num_local_experts\":8}", "num_local_experts: it changes what a model computes"},
        {ROUTED("mixtral") ",\"intermediate_size\":6}", "\"num_local_experts\" is missing"},
        {ROUTED("mixtral") ",\"num_local_experts\":3}", "\"intermediate_size\" is missing"},
        {ROUTED("qwen3_moe") ",\"num_experts\":3}", "\"moe_intermediate_size\" is missing"},
        {ROUTED("qwen3_moe") ",\"moe_intermediate_size\":3}", "\"num_experts\" is missing"},
        {ROUTED("qwen2_moe") ",\"num_experts\":3,\"moe_intermediate_size\":3}", "\"shared_expert_intermediate_size\" is missing"},
        {ROUTED("qwen3_moe") ",\"num_experts\":1,\"moe_intermediate_size\":3}", "num_experts_per_tok: there are fewer experts than that"},
        {MIXTRAL ",\"router_jitter_noise\":0.1}", "router_jitter_noise: it changes what a model computes"},
        {MIXTRAL ",\"router_aux_loss_coef\":-1}", "router_aux_loss_coef: expected a number from 0 to 1000, found -1"},
        {MIXTRAL ",\"router_z_loss_coef\":-1}", "router_z_loss_coef: expected a number from 0 to 1000, found -1"},
        {MIXTRAL ",\"layer_types\":[\"sliding_attention\",\"full_attention\"]}", "layer_types: it differs"},
        {QWEN2_MOE ",\"qkv_bias\":false}", "qkv_bias: only true is implemented"},
        {QWEN2_MOE ",\"use_sliding_window\":true}", "use_sliding_window: it changes what a model computes"},
        {QWEN3_MOE ",\"layer_types\":[\"sliding_attention\",\"full_attention\"]}", "layer_types: it differs"},
        {QWEN3_MOE ",\"decoder_sparse_step\":2}", "decoder_sparse_step: it changes what a model computes"},
        {QWEN3_MOE ",\"mlp_only_layers\":[1]}", "mlp_only_layers: it changes what a model computes"},
        {QWEN3_MOE ",\"n_routed_experts\":4}", "n_routed_experts: it changes what a model computes"},
        {MANY_EXPERTS, "num_experts: all layers together have more experts than are taken, 65536"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_shape s;
        struct dt_err err = {0};
        CHECK_FAIL(read_shape(&s, rows[i].text, &err), err, rows[i].error);
        CHECK_EQ(err.code, DT_E_USAGE);
    }
}

#define M                                                                                          \
    "{\"model_type\":\"mistral\",\"num_hidden_layers\":2,\"hidden_size\":8,"                       \
    "\"intermediate_size\":6,\"max_position_embeddings\":64,\"vocab_size\":5,"                     \
    "\"num_attention_heads\":2"

TEST(a_mistral_has_a_window_unless_it_says_it_has_none)
{
    struct dt_err err = {0};
    struct dt_shape s = shape_of(M ",\"num_key_value_heads\":1,\"head_dim\":6}");
    CHECK_EQ(s.family, DT_MISTRAL);
    CHECK_EQ(s.window, 4096);
    CHECK_EQ(s.head_dim, 6);
    CHECK_STR(dt_shape_title(&s), "Mistral");
    s = shape_of(M ",\"num_key_value_heads\":1,\"sliding_window\":null}");
    CHECK_EQ(s.window, 0);
    s = shape_of(M ",\"num_key_value_heads\":1,\"sliding_window\":7,"
                   "\"layer_types\":[\"sliding_attention\",\"sliding_attention\"]}");
    CHECK_EQ(dt_shape_window(&s, 0), 7);
    CHECK_EQ(dt_shape_window(&s, 1), 7);
    CHECK_FAIL(read_shape(&s, M "}", &err), err, "\"num_key_value_heads\" is missing");
    CHECK_FAIL(read_shape(&s, M ",\"num_key_value_heads\":1,\"sliding_window\":0}", &err), err,
               "sliding_window: expected a whole number from 1 to 16777216");
    CHECK_FAIL(read_shape(&s, M ",\"num_key_value_heads\":1,\"attention_bias\":true}", &err), err,
               "attention_bias: only false is implemented");
}

#define Q                                                                                          \
    "{\"model_type\":\"qwen2\",\"num_hidden_layers\":3,\"hidden_size\":8,"                         \
    "\"intermediate_size\":6,\"max_position_embeddings\":64,\"vocab_size\":5,"                     \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1"

TEST(a_qwen2_has_windows_only_where_it_says_so)
{
    struct dt_err err = {0};
    struct dt_buf out = {0};
    /* As the hub has them: the numbers are there and mean nothing. */
    struct dt_shape s = shape_of(Q ",\"use_sliding_window\":false,\"sliding_window\":7,"
                                   "\"max_window_layers\":1,\"use_mrope\":false}");
    CHECK_EQ(s.family, DT_QWEN2);
    CHECK(s.qkv_bias && s.window == 0 && dt_buf_cstr(&notes)[0] == '\0');
    dt_shape_write(&s, DT_BF16, &out);
    CHECK(strstr(dt_buf_cstr(&out), "  \"architectures\": [\"Qwen2ForCausalLM\"],\n"
                                    "  \"model_type\": \"qwen2\",\n"));
    CHECK(strstr(dt_buf_cstr(&out), "  \"use_sliding_window\": false,\n"
                                    "  \"max_window_layers\": 3,\n"
                                    "  \"sliding_window\": null,\n"));
    dt_buf_finish(&out);
    s = shape_of(Q ",\"use_sliding_window\":true,\"sliding_window\":7,\"max_window_layers\":1,"
                   "\"layer_types\":[\"full_attention\",\"sliding_attention\","
                   "\"sliding_attention\"]}");
    CHECK_EQ(dt_shape_window(&s, 0), 0);
    CHECK_EQ(dt_shape_window(&s, 1), 7);
    CHECK_EQ(dt_shape_window(&s, 2), 7);
    s = shape_of(Q ",\"use_sliding_window\":true}");
    CHECK(s.window == 4096 && s.full_layers == 28);
    CHECK_FAIL(read_shape(&s, Q ",\"use_sliding_window\":1}", &err), err,
               "use_sliding_window: expected true or false");
    CHECK_FAIL(read_shape(&s, Q ",\"use_sliding_window\":true,\"max_window_layers\":-1}", &err),
               err, "max_window_layers: expected a whole number from 0 to 4096");
}

/* Queries, keys and values are one matrix, and their biases one row. */
TEST(biases_of_a_qwen2_stand_together_and_do_not_decay)
{
    static const char *const names[] = {"q_proj.weight", "k_proj.weight", "v_proj.weight",
                                        "q_proj.bias",   "k_proj.bias",   "v_proj.bias"};
    struct dt_shape s = shape_of(Q "}");
    struct dt_tensor *tensors = dt_shape_tensors(&s, NULL);
    for (size_t i = 0; i < ROWS(names); i++) {
        const struct dt_tensor *t = &tensors[2 + i], *next = t + 1;
        char name[80];
        snprintf(name, sizeof name, "model.layers.0.self_attn.%s", names[i]);
        CHECK_STR(t->name, name);
        CHECK_EQ(t->index, i + 1);
        CHECK_EQ(t->offset + t->count, next->offset);
        CHECK_EQ(t->decay, i < 3);
        CHECK(i < 3 || (t->init_std == 0 && t->init_value == 0));
    }
    free(tensors);
}

#define Q3                                                                                         \
    "{\"model_type\":\"qwen3\",\"num_hidden_layers\":3,\"hidden_size\":8,"                         \
    "\"intermediate_size\":6,\"max_position_embeddings\":64,\"vocab_size\":5,"                     \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1"

TEST(a_qwen3_norms_the_heads_of_queries_and_keys)
{
    struct dt_err err = {0};
    struct dt_shape s = shape_of(Q3 ",\"attention_bias\":false}");
    CHECK_EQ(s.head_dim, 128); /* of its class, whatever the width */
    CHECK(s.qk_norm && !s.qkv_bias);
    s = shape_of(Q3 ",\"head_dim\":6}");
    struct dt_tensor *tensors = dt_shape_tensors(&s, NULL);
    CHECK_STR(tensors[5].name, "model.layers.0.self_attn.q_norm.weight");
    CHECK_STR(tensors[6].name, "model.layers.0.self_attn.k_norm.weight");
    CHECK_EQ(tensors[5].which, DT_LLAMA_Q_NORM);
    CHECK_EQ(tensors[5].index, 4);
    CHECK_EQ(tensors[6].count, 6);
    CHECK(!tensors[5].decay && tensors[5].init_value == 1);
    CHECK_STR(tensors[7].name, "model.layers.0.self_attn.o_proj.weight");
    free(tensors);
    CHECK_FAIL(read_shape(&s, Q3 ",\"attention_bias\":true}", &err), err,
               "attention_bias: only false is implemented");
}

#define GEMMA(model_type, layers)                                                                  \
    "{\"model_type\":\"" model_type "\",\"num_hidden_layers\":" layers ",\"hidden_size\":8,"       \
    "\"intermediate_size\":6,\"max_position_embeddings\":64,\"vocab_size\":5,"                     \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1"

TEST(a_gemma_has_a_weight_of_0_where_others_have_1)
{
    struct dt_err err = {0};
    struct dt_shape s = shape_of(GEMMA("gemma", "2") ",\"hidden_act\":\"gelu_pytorch_tanh\"}");
    CHECK(s.norm_plus_one && s.scaled_words && s.gelu_gate && s.tied && !s.branch_norms);
    CHECK_EQ(s.head_dim, 256);
    struct dt_tensor *tensors = dt_shape_tensors(&s, NULL);
    CHECK_STR(tensors[1].name, "model.layers.0.input_layernorm.weight");
    CHECK(tensors[1].init_value == 0 && tensors[1].init_std == 0 && !tensors[1].decay);
    free(tensors);
    CHECK_FAIL(read_shape(&s, GEMMA("gemma", "2") ",\"hidden_act\":\"gelu\"}", &err), err,
               "hidden_act: only \"gelu_pytorch_tanh\" is implemented");
}

TEST(a_gemma2_has_caps_and_four_norms_and_every_other_layer_a_window)
{
    struct dt_err err = {0};
    struct dt_buf out = {0};
    struct dt_shape s = shape_of(GEMMA("gemma2", "3") "}");
    CHECK(s.score_cap == 50 && s.logit_cap == 30 && s.query_scalar == 256 && s.branch_norms);
    CHECK_EQ(dt_shape_window(&s, 0), 4096);
    CHECK_EQ(dt_shape_window(&s, 1), 0);
    CHECK_EQ(dt_shape_window(&s, 2), 4096);
    CHECK(!dt_shape_is_local(&s, 0));
    dt_shape_write(&s, DT_BF16, &out);
    CHECK(strstr(dt_buf_cstr(&out), "\"architectures\": [\"Gemma2ForCausalLM\"]"));
    CHECK(strstr(dt_buf_cstr(&out), "\"hidden_activation\": \"gelu_pytorch_tanh\""));
    CHECK(strstr(dt_buf_cstr(&out), "\"layer_types\": [\"sliding_attention\", \"full_attention\", "
                                    "\"sliding_attention\"]"));
    dt_buf_finish(&out);
    s = shape_of(GEMMA("gemma2", "3") ",\"attn_logit_softcapping\":null,"
                                      "\"final_logit_softcapping\":12}");
    CHECK(s.score_cap == 0 && s.logit_cap == 12);
    CHECK_FAIL(read_shape(&s, GEMMA("gemma2", "3") ",\"attn_logit_softcapping\":0}", &err), err,
               "attn_logit_softcapping: expected a number above 0, or null for none");
    CHECK_FAIL(read_shape(&s, GEMMA("gemma2", "3") ",\"query_pre_attn_scalar\":0}", &err), err,
               "query_pre_attn_scalar: expected a number above 0");
    CHECK_FAIL(read_shape(&s, GEMMA("gemma2", "3") ",\"sliding_window\":null}", &err), err,
               "sliding_window: layers of this family have a window");
}

TEST(a_gemma3_turns_layers_with_a_window_faster)
{
    struct dt_err err = {0};
    /* In the spelling of its first files, in that of later ones, and in the newest. */
    static const char *const texts[] = {
        ",\"sliding_window_pattern\":2,\"rope_theta\":1e6,\"rope_local_base_freq\":500,"
        "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8},\"sliding_window\":9}",
        ",\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\"],"
        "\"_sliding_window_pattern\":2,\"rope_local_base_freq\":500,\"rope_theta\":1000000,"
        "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8},\"sliding_window\":9}",
        ",\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\"],"
        "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8,"
        "\"rope_theta\":1000000},\"sliding_attention\":{\"rope_type\":\"default\","
        "\"rope_theta\":500}},\"sliding_window\":9}"};
    struct dt_shape s;
    for (size_t i = 0; i < ROWS(texts); i++) {
        char text[800];
        snprintf(text, sizeof text, "%s%s", GEMMA("gemma3_text", "3"), texts[i]);
        CHECK_ROW("%s", text);
        s = shape_of(text);
        CHECK(s.full_every == 2 && s.window == 9 && s.qk_norm && s.score_cap == 0);
        CHECK(dt_shape_is_local(&s, 0) && !dt_shape_is_local(&s, 1) && dt_shape_is_local(&s, 2));
        CHECK(s.rope_theta == 1e6f && s.local_theta == 500);
        CHECK(s.rope.kind == DT_ROPE_LINEAR && s.rope.factor == 8);
    }
    s = shape_of(GEMMA("gemma3_text", "7") "}");
    CHECK(s.rope_theta == 1e6f && s.local_theta == 10000 && s.logit_cap == 0);
    CHECK_EQ(dt_shape_window(&s, 4), 4096);
    CHECK_EQ(dt_shape_window(&s, 5), 0);
    CHECK_FAIL(read_shape(&s,
                          GEMMA("gemma3_text", "3") ",\"layer_types\":[\"full_attention\","
                                                    "\"sliding_attention\",\"full_attention\"]}",
                          &err),
               err, "layer_types: it differs from what the other");
    CHECK_FAIL(read_shape(&s, GEMMA("gemma3_text", "3") ",\"rope_local_base_freq\":0}", &err), err,
               "rope_local_base_freq: rotation needs a base of 1 or more");
    CHECK_FAIL(read_shape(&s,
                          GEMMA("gemma3_text", "3") ",\"rope_parameters\":{\"sliding_attention\":"
                                                    "{\"rope_type\":\"linear\",\"factor\":2}}}",
                          &err),
               err, "sliding_attention: scaled positions of layers with a window");
    CHECK_FAIL(
        read_shape(&s, GEMMA("gemma3_text", "3") ",\"use_bidirectional_attention\":true}", &err),
        err, "use_bidirectional_attention: it changes what a model computes");
}

TEST(the_norms_of_a_gemma3_are_named_as_the_hub_has_them)
{
    static const char *const norms[] = {
        "input_layernorm",          "self_attn.q_norm",          "self_attn.k_norm",
        "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm",
    };
    static const size_t which[] = {DT_LLAMA_INPUT_NORM,  DT_LLAMA_Q_NORM,
                                   DT_LLAMA_K_NORM,      DT_LLAMA_ATTENTION_OUT_NORM,
                                   DT_LLAMA_MLP_IN_NORM, DT_LLAMA_MLP_OUT_NORM};
    struct dt_shape s = shape_of(GEMMA("gemma3_text", "1") "}");
    struct dt_tensor *tensors = dt_shape_tensors(&s, NULL);
    size_t found = 0;
    for (size_t i = 0; i < dt_shape_tensor_count(&s); i++) {
        char name[100];
        if (tensors[i].unit != 1 || tensors[i].rank != 1)
            continue;
        snprintf(name, sizeof name, "model.layers.0.%s.weight", norms[found]);
        CHECK_STR(tensors[i].name, name);
        CHECK_EQ(tensors[i].which, which[found]);
        found++;
    }
    CHECK_EQ(found, ROWS(norms));
    free(tensors);
}

/* Settings as the hub has them, and how many parameters the makers count. */
TEST(models_of_the_hub_have_the_parameters_that_they_are_known_for)
{
    static const struct {
        const char *name, *text;
        size_t params;
    } models[] = {
        {"Llama 3.1 8B",
         "{\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":false,"
         "\"attention_dropout\":0.0,\"bos_token_id\":128000,\"eos_token_id\":[128001,128008,128009]"
         ","
         "\"hidden_act\":\"silu\",\"hidden_size\":4096,\"initializer_range\":0.02,"
         "\"intermediate_size\":14336,\"max_position_embeddings\":131072,\"mlp_bias\":false,"
         "\"model_type\":\"llama\",\"num_attention_heads\":32,\"num_hidden_layers\":32,"
         "\"num_key_value_heads\":8,\"pretraining_tp\":1,\"rms_norm_eps\":1e-05,\"rope_scaling\":"
         "{\"factor\":8.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,"
         "\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},"
         "\"rope_theta\":500000.0,\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\","
         "\"transformers_version\":\"4.42.3\",\"use_cache\":true,\"vocab_size\":128256}",
         8030261248},
        {"Llama 3.2 1B",
         "{\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":false,\"head_dim\":64,"
         "\"hidden_act\":\"silu\",\"hidden_size\":2048,\"intermediate_size\":8192,"
         "\"max_position_embeddings\":131072,\"mlp_bias\":false,\"model_type\":\"llama\","
         "\"num_attention_heads\":32,\"num_hidden_layers\":16,\"num_key_value_heads\":8,"
         "\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4.0,"
         "\"low_freq_factor\":1.0,\"original_max_position_embeddings\":8192,"
         "\"rope_type\":\"llama3\"},\"rope_theta\":500000.0,\"tie_word_embeddings\":true,"
         "\"vocab_size\":128256}",
         1235814400},
        {"Mistral 7B v0.1",
         "{\"architectures\":[\"MistralForCausalLM\"],\"bos_token_id\":1,\"eos_token_id\":2,"
         "\"hidden_act\":\"silu\",\"hidden_size\":4096,\"initializer_range\":0.02,"
         "\"intermediate_size\":14336,\"max_position_embeddings\":32768,"
         "\"model_type\":\"mistral\",\"num_attention_heads\":32,\"num_hidden_layers\":32,"
         "\"num_key_value_heads\":8,\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,"
         "\"sliding_window\":4096,\"tie_word_embeddings\":false,\"vocab_size\":32000}",
         7241732096},
        {"Qwen 2.5 0.5B",
         "{\"architectures\":[\"Qwen2ForCausalLM\"],\"attention_dropout\":0.0,"
         "\"bos_token_id\":151643,\"eos_token_id\":151643,\"hidden_act\":\"silu\","
         "\"hidden_size\":896,\"initializer_range\":0.02,\"intermediate_size\":4864,"
         "\"max_position_embeddings\":32768,\"max_window_layers\":24,\"model_type\":\"qwen2\","
         "\"num_attention_heads\":14,\"num_hidden_layers\":24,\"num_key_value_heads\":2,"
         "\"rms_norm_eps\":1e-06,\"rope_theta\":1000000.0,\"sliding_window\":32768,"
         "\"tie_word_embeddings\":true,\"use_cache\":true,\"use_mrope\":false,"
         "\"use_sliding_window\":false,\"vocab_size\":151936}",
         494032768},
        {"Qwen3 0.6B",
         "{\"architectures\":[\"Qwen3ForCausalLM\"],\"attention_bias\":false,"
         "\"attention_dropout\":0.0,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":1024,"
         "\"initializer_range\":0.02,\"intermediate_size\":3072,"
         "\"max_position_embeddings\":40960,\"max_window_layers\":28,\"model_type\":\"qwen3\","
         "\"num_attention_heads\":16,\"num_hidden_layers\":28,\"num_key_value_heads\":8,"
         "\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":1000000,"
         "\"sliding_window\":null,\"tie_word_embeddings\":true,\"use_sliding_window\":false,"
         "\"vocab_size\":151936}",
         596049920},
        {"Gemma 2B",
         "{\"architectures\":[\"GemmaForCausalLM\"],\"attention_bias\":false,"
         "\"attention_dropout\":0.0,\"bos_token_id\":2,\"eos_token_id\":1,\"head_dim\":256,"
         "\"hidden_act\":\"gelu_pytorch_tanh\",\"hidden_activation\":null,\"hidden_size\":2048,"
         "\"initializer_range\":0.02,\"intermediate_size\":16384,"
         "\"max_position_embeddings\":8192,\"model_type\":\"gemma\",\"num_attention_heads\":8,"
         "\"num_hidden_layers\":18,\"num_key_value_heads\":1,\"pad_token_id\":0,"
         "\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":10000.0,"
         "\"vocab_size\":256000}",
         2506172416},
        {"Gemma 2 2B",
         "{\"architectures\":[\"Gemma2ForCausalLM\"],\"attention_bias\":false,"
         "\"attention_dropout\":0.0,\"attn_logit_softcapping\":50.0,\"bos_token_id\":2,"
         "\"cache_implementation\":\"hybrid\",\"eos_token_id\":[1,107],"
         "\"final_logit_softcapping\":30.0,\"head_dim\":256,"
         "\"hidden_act\":\"gelu_pytorch_tanh\",\"hidden_activation\":\"gelu_pytorch_tanh\","
         "\"hidden_size\":2304,\"initializer_range\":0.02,\"intermediate_size\":9216,"
         "\"max_position_embeddings\":8192,\"model_type\":\"gemma2\","
         "\"num_attention_heads\":8,\"num_hidden_layers\":26,\"num_key_value_heads\":4,"
         "\"pad_token_id\":0,\"query_pre_attn_scalar\":256,\"rms_norm_eps\":1e-06,"
         "\"rope_theta\":10000.0,\"sliding_window\":4096,\"use_cache\":true,"
         "\"vocab_size\":256000}",
         2614341888},
        {"Gemma 3 1B",
         "{\"architectures\":[\"Gemma3ForCausalLM\"],\"attention_bias\":false,"
         "\"attention_dropout\":0.0,\"attn_logit_softcapping\":null,\"bos_token_id\":2,"
         "\"cache_implementation\":\"hybrid\",\"eos_token_id\":[1,106],"
         "\"final_logit_softcapping\":null,\"head_dim\":256,"
         "\"hidden_activation\":\"gelu_pytorch_tanh\",\"hidden_size\":1152,"
         "\"initializer_range\":0.02,\"intermediate_size\":6912,"
         "\"max_position_embeddings\":32768,\"model_type\":\"gemma3_text\","
         "\"num_attention_heads\":4,\"num_hidden_layers\":26,\"num_key_value_heads\":1,"
         "\"pad_token_id\":0,\"query_pre_attn_scalar\":256,\"rms_norm_eps\":1e-06,"
         "\"rope_local_base_freq\":10000,\"rope_scaling\":null,\"rope_theta\":1000000,"
         "\"sliding_window\":512,\"sliding_window_pattern\":6,\"vocab_size\":262144}",
         999885952},
        {"Mixtral 8x7B v0.1",
         "{\"architectures\":[\"MixtralForCausalLM\"],\"attention_dropout\":0.0,\"bos_token_id\":1,"
         "\"eos_token_id\":2,\"hidden_act\":\"silu\",\"hidden_size\":4096,"
         "\"initializer_range\":0.02,\"intermediate_size\":14336,"
         "\"max_position_embeddings\":32768,\"model_type\":\"mixtral\","
         "\"num_attention_heads\":32,\"num_experts_per_tok\":2,\"num_hidden_layers\":32,"
         "\"num_key_value_heads\":8,\"num_local_experts\":8,\"output_router_logits\":false,"
         "\"rms_norm_eps\":1e-05,\"rope_theta\":1000000.0,\"router_aux_loss_coef\":0.02,"
         "\"sliding_window\":null,\"tie_word_embeddings\":false,\"vocab_size\":32000}",
         46702792704},
        {"Qwen 1.5 MoE A2.7B",
         "{\"architectures\":[\"Qwen2MoeForCausalLM\"],\"attention_dropout\":0.0,"
         "\"decoder_sparse_step\":1,\"hidden_act\":\"silu\",\"hidden_size\":2048,"
         "\"initializer_range\":0.02,\"intermediate_size\":5632,"
         "\"max_position_embeddings\":8192,\"max_window_layers\":21,\"model_type\":\"qwen2_moe\","
         "\"moe_intermediate_size\":1408,\"norm_topk_prob\":false,\"num_attention_heads\":16,"
         "\"num_experts\":60,\"num_experts_per_tok\":4,\"num_hidden_layers\":24,"
         "\"num_key_value_heads\":16,\"output_router_logits\":false,\"rms_norm_eps\":1e-06,"
         "\"rope_theta\":1000000.0,\"router_aux_loss_coef\":0.001,"
         "\"shared_expert_intermediate_size\":5632,\"sliding_window\":32768,"
         "\"tie_word_embeddings\":false,\"use_sliding_window\":false,\"vocab_size\":151936}",
         14315784192},
        {"Qwen3 30B A3B",
         "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"attention_bias\":false,"
         "\"decoder_sparse_step\":1,\"head_dim\":128,\"hidden_act\":\"silu\","
         "\"hidden_size\":2048,\"initializer_range\":0.02,\"intermediate_size\":6144,"
         "\"max_position_embeddings\":40960,\"max_window_layers\":48,\"mlp_only_layers\":[],"
         "\"model_type\":\"qwen3_moe\",\"moe_intermediate_size\":768,\"norm_topk_prob\":true,"
         "\"num_attention_heads\":32,\"num_experts\":128,\"num_experts_per_tok\":8,"
         "\"num_hidden_layers\":48,\"num_key_value_heads\":4,\"output_router_logits\":false,"
         "\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":1000000.0,"
         "\"router_aux_loss_coef\":0.001,\"sliding_window\":null,"
         "\"tie_word_embeddings\":false,\"use_sliding_window\":false,\"vocab_size\":151936}",
         30532122624},
    };
    for (size_t i = 0; i < ROWS(models); i++) {
        CHECK_ROW("%s", models[i].name);
        struct dt_shape s = shape_of(models[i].text);
        CHECK_STR(dt_buf_cstr(&notes), "");
        CHECK_EQ(dt_shape_params(&s), models[i].params);
    }
}

TEST(layers_of_another_kind_than_the_family_has_are_refused)
{
    static const char *const types[] = {
        "[\"sliding_attention\"]", "[\"sliding_attention\",\"full_attention\"]",
        "[\"sliding_attention\",\"sliding_attention\",\"sliding_attention\"]", "[1,2]", "[]"};
    for (size_t i = 0; i < ROWS(types); i++) {
        char text[400];
        struct dt_shape s;
        struct dt_err err = {0};
        snprintf(text, sizeof text, M ",\"num_key_value_heads\":1,\"layer_types\":%s}", types[i]);
        CHECK_ROW("%s", types[i]);
        CHECK_FAIL(read_shape(&s, text, &err), err, "layer_types: it differs from what the other");
    }
}

/* What the hub has for GPT-2 and for SmolLM, with all that is beside the model itself. */
TEST(keys_of_other_programs_are_noted_and_passed_over)
{
    struct dt_shape s =
        shape_of(G ",\"n_head\":2,\"n_positions\":16,\"resid_pdrop\":0.1,\"embd_pdrop\":0.1,"
                   "\"attn_pdrop\":0.1,\"bos_token_id\":50256,\"eos_token_id\":50256}");
    CHECK_STR(dt_buf_cstr(&notes), "");
    CHECK(s.bos.count == 1 && s.bos.id[0] == 50256 && s.eos.count == 1 && s.pad.count == 0);
    s = shape_of(L ",\"num_attention_heads\":2,\"is_llama_config\":true,\"rope_interleaved\":false,"
                   "\"auto_map\":{\"AutoConfig\":\"x\"},\"sliding_window\":null,\"foo\":null,"
                   "\"partial_rotary_factor\":1.0,\"pad_token_id\":-1,\"eos_token_id\":[1,2,3]}");
    CHECK_STR(dt_buf_cstr(&notes),
              "is_llama_config, auto_map are not known settings, and are ignored\n");
    CHECK(s.pad.count == 0 && s.eos.count == 3 && s.eos.id[2] == 3);
    shape_of(L ",\"num_attention_heads\":2,\"x\\u001b[2J\":1}");
    CHECK_STR(dt_buf_cstr(&notes), "x\\x1b[2J is not a known setting, and is ignored\n");
    shape_of(L ",\"num_attention_heads\":2,\"q1\":1,\"q2\":1,\"q3\":1,\"q4\":1,\"q5\":1,"
               "\"q6\":1,\"q7\":1,\"q8\":1,\"q9\":1,\"q10\":1}");
    CHECK_STR(dt_buf_cstr(&notes), "q1, q2, q3, q4, q5, q6, q7, q8 and 2 more are not known "
                                   "settings, and are ignored\n");
}

TEST(tokens_with_a_role_are_written_as_they_were_read)
{
    struct dt_shape s = shape_of(L ",\"num_attention_heads\":2,\"bos_token_id\":0,"
                                   "\"eos_token_id\":[128001,128008],\"pad_token_id\":null}");
    struct dt_buf out = {0};
    dt_shape_write(&s, DT_F32, &out);
    CHECK(strstr(dt_buf_cstr(&out), "  \"bos_token_id\": 0,\n"
                                    "  \"eos_token_id\": [128001, 128008],\n"
                                    "  \"torch_dtype\""));
    CHECK(!strstr(dt_buf_cstr(&out), "pad_token_id"));
    dt_buf_finish(&out);
}

/* Llama 3.1's, in the spelling of its own file and in that of newer ones. */
TEST(how_rotary_positions_are_scaled_is_read_and_written)
{
    static const char *const texts[] = {
        L ",\"num_attention_heads\":2,\"rope_theta\":500000.0,\"rope_scaling\":{\"factor\":8.0,"
          "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"rope_type\":\"llama3\","
          "\"original_max_position_embeddings\":8192}}",
        L ",\"num_attention_heads\":2,\"rope_parameters\":{\"factor\":8.0,\"rope_theta\":500000.0,"
          "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"rope_type\":\"llama3\","
          "\"original_max_position_embeddings\":8192}}",
    };
    for (size_t i = 0; i < ROWS(texts); i++) {
        struct dt_buf out = {0};
        struct dt_shape s = shape_of(texts[i]);
        CHECK_ROW("%s", texts[i]);
        CHECK(s.rope.kind == DT_ROPE_LLAMA3 && s.rope.factor == 8 && s.rope.low_freq == 1 &&
              s.rope.high_freq == 4 && s.rope.original == 8192 && s.rope_theta == 500000);
        dt_shape_write(&s, DT_F32, &out);
        CHECK(strstr(dt_buf_cstr(&out),
                     "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
                     "\"original_max_position_embeddings\": 8192, \"low_freq_factor\": 1, "
                     "\"high_freq_factor\": 4},"));
        dt_buf_finish(&out);
    }
}

TEST(yarn_is_read_with_its_defaults)
{
    struct dt_shape s = shape_of(L ",\"num_attention_heads\":2,\"rope_scaling\":{\"type\":\"yarn\","
                                   "\"factor\":4.0,\"mscale\":null,\"attention_factor\":null}}");
    CHECK(s.rope.kind == DT_ROPE_YARN && s.rope.beta_fast == 32 && s.rope.beta_slow == 1);
    CHECK(s.rope.original == 4); /* the model's positions */
    CHECK(s.rope.attention > 1.1386f && s.rope.attention < 1.1387f && !s.rope.exact);
    s = shape_of(L ",\"num_attention_heads\":2,\"rope_scaling\":{\"rope_type\":\"yarn\","
                   "\"factor\":4.0,\"original_max_position_embeddings\":2,\"beta_fast\":16,"
                   "\"beta_slow\":2,\"attention_factor\":1.5,\"truncate\":false}}");
    CHECK(s.rope.beta_fast == 16 && s.rope.beta_slow == 2 && s.rope.original == 2);
    CHECK(s.rope.attention == 1.5f && s.rope.exact);
}

TEST(a_shape_inside_a_larger_document_is_named_from_its_root)
{
    static const char text[] = "{\"model\":{\"config\":{\"model_type\":\"t5\"}}}";
    struct dt_json doc;
    struct dt_shape s;
    struct dt_err err = {0};
    const struct cJSON *model, *config;
    CHECK_OK(dt_json_parse(&doc, text, strlen(text), 1 << 16, &err), err);
    CHECK_OK(dt_json_object(&doc, NULL, "model", &model, &err), err);
    CHECK_OK(dt_json_object(&doc, model, "config", &config, &err), err);
    CHECK_FAIL(dt_shape_read(&s, &doc, config, NULL, &err), err, "model.config.model_type: only");
    dt_json_finish(&doc);
}

/* Each key goes to its own place; a file without them drops nothing. */
TEST(dropout_is_read_and_written)
{
    static const char keys[] = ",\"n_head\":2,\"n_positions\":16,\"resid_pdrop\":0.1,"
                               "\"embd_pdrop\":0.25,\"attn_pdrop\":0.99}";
    struct dt_buf out = {0};
    char text[600];
    snprintf(text, sizeof text, "%s%s", G, keys);
    struct dt_shape s = shape_of(text);
    CHECK(s.branch_dropout == 0.1f && s.embedding_dropout == 0.25f);
    CHECK(s.attention_dropout == 0.99f && dt_shape_drops(&s));
    dt_shape_write(&s, DT_F32, &out);
    CHECK(strstr(dt_buf_cstr(&out), "\"resid_pdrop\": 0.1,"));
    CHECK(strstr(dt_buf_cstr(&out), "\"embd_pdrop\": 0.25,"));
    CHECK(strstr(dt_buf_cstr(&out), "\"attn_pdrop\": 0.99,"));
    dt_buf_finish(&out);
    s = shape_of(L ",\"num_attention_heads\":2,\"attention_dropout\":0.5}");
    CHECK(s.attention_dropout == 0.5f && s.branch_dropout == 0 && s.embedding_dropout == 0);
    s = shape_of(G ",\"n_head\":2,\"n_positions\":16}");
    CHECK(!dt_shape_drops(&s));
}

TEST(what_is_written_is_read_as_the_same_shape)
{
    static const char *const texts[] = {
        gpt2,
        llama,
        L ",\"num_attention_heads\":2,\"head_dim\":10,"
          "\"rms_norm_eps\":1.1754944e-38}",
        L ",\"num_attention_heads\":2,\"rope_scaling\":{\"type\":"
          "\"yarn\",\"factor\":4.1,\"beta_slow\":1.5,"
          "\"attention_factor\":1.3,\"truncate\":false}}",
        L ",\"num_attention_heads\":2,\"rope_scaling\":{\"type\":"
          "\"dynamic\",\"factor\":2}}",
        M ",\"num_key_value_heads\":1}",
        M ",\"num_key_value_heads\":1,\"sliding_window\":null}",
        Q ",\"use_sliding_window\":true,\"max_window_layers\":2}",
        Q "}",
        Q3 ",\"head_dim\":6}",
        MIXTRAL ",\"sliding_window\":3,\"output_router_logits\":true}",
        MIXTRAL ",\"router_aux_loss_coef\":0.7,\"router_z_loss_coef\":0.001}",
        QWEN2_MOE "}",
        QWEN3_MOE ",\"norm_topk_prob\":true,\"head_dim\":2}",
        GEMMA("gemma", "2") "}",
        GEMMA("gemma2", "4") "}",
        GEMMA("gemma2", "3") ",\"attn_logit_softcapping\":null,"
                             "\"final_logit_softcapping\":12.5,"
                             "\"query_pre_attn_scalar\":7,\"sliding_window\":5}",
        GEMMA("gemma3_text", "13") "}",
        GEMMA("gemma3_text", "5") ",\"sliding_window_pattern\":2,"
                                  "\"rope_local_base_freq\":77.5,\"rope_scaling\":"
                                  "{\"rope_type\":\"linear\",\"factor\":8}}"};
    for (size_t i = 0; i < ROWS(texts); i++) {
        CHECK_ROW("%s", texts[i]);
        struct dt_shape s = shape_of(texts[i]), again;
        struct dt_buf out = {0};
        dt_shape_write(&s, DT_BF16, &out);
        again = shape_of(dt_buf_cstr(&out));
        CHECK(s.family == again.family && s.tied == again.tied && s.norm_eps == again.norm_eps &&
              s.rope_theta == again.rope_theta && s.init_std == again.init_std);
        size_t numbers = offsetof(struct dt_rope_scaling, exact);
        CHECK_BYTES(&s.rope, numbers, &again.rope, numbers);
        CHECK_EQ(s.rope.exact, again.rope.exact);
        CHECK_EQ(s.qkv_bias, again.qkv_bias);
        CHECK_EQ(s.qk_norm, again.qk_norm);
        CHECK(s.window == again.window && s.full_layers == again.full_layers);
        CHECK(s.experts == again.experts && s.expert_picks == again.expert_picks &&
              s.expert_inner == again.expert_inner && s.shared_inner == again.shared_inner);
        CHECK(s.weigh_picks == again.weigh_picks && s.balance_experts == again.balance_experts &&
              s.balance_share == again.balance_share && s.z_share == again.z_share);
        CHECK(s.full_every == again.full_every && s.local_theta == again.local_theta);
        CHECK(s.query_scalar == again.query_scalar && s.score_cap == again.score_cap &&
              s.logit_cap == again.logit_cap);
        CHECK(s.layers == again.layers && s.heads == again.heads && s.kv_heads == again.kv_heads &&
              s.width == again.width && s.head_dim == again.head_dim && s.inner == again.inner &&
              s.positions == again.positions && s.vocabulary == again.vocabulary);
        dt_buf_finish(&out);
    }
}

TEST(a_written_config_is_what_transformers_opens)
{
    struct dt_shape s = shape_of(G ",\"n_head\":2,\"n_positions\":16}");
    struct dt_buf out = {0};
    dt_shape_write(&s, DT_F32, &out);
    CHECK_STR(dt_buf_cstr(&out), "{\n"
                                 "  \"architectures\": [\"GPT2LMHeadModel\"],\n"
                                 "  \"model_type\": \"gpt2\",\n"
                                 "  \"n_layer\": 2,\n"
                                 "  \"n_head\": 2,\n"
                                 "  \"n_embd\": 8,\n"
                                 "  \"n_inner\": 32,\n"
                                 "  \"n_ctx\": 16,\n"
                                 "  \"n_positions\": 16,\n"
                                 "  \"vocab_size\": 5,\n"
                                 "  \"layer_norm_epsilon\": 1e-05,\n"
                                 "  \"initializer_range\": 0.02,\n"
                                 "  \"tie_word_embeddings\": true,\n"
                                 "  \"activation_function\": \"gelu_new\",\n"
                                 "  \"resid_pdrop\": 0.0,\n"
                                 "  \"embd_pdrop\": 0.0,\n"
                                 "  \"attn_pdrop\": 0.0,\n"
                                 "  \"scale_attn_weights\": true,\n"
                                 "  \"scale_attn_by_inverse_layer_idx\": false,\n"
                                 "  \"add_cross_attention\": false,\n"
                                 "  \"torch_dtype\": \"float32\"\n"
                                 "}\n");
    dt_buf_finish(&out);
}

/* Names, dimensions, unit, offset in it, and "x.xxx" of a normal start or a constant. */
static void check_tensors(const char *config, const char *const *rows, size_t count)
{
    struct dt_shape s = shape_of(config);
    struct dt_err err = {0};
    struct dt_tensor *tensors = dt_shape_tensors(&s, &err);
    size_t params = 0;
    CHECK(tensors != NULL);
    CHECK_EQ(dt_shape_tensor_count(&s), count);
    for (size_t i = 0; i < count; i++) {
        const struct dt_tensor *t = &tensors[i];
        char text[200], dims[48];
        snprintf(dims, sizeof dims, t->rank == 2 ? "[%zu, %zu]" : "[%zu]", t->dims[0], t->dims[1]);
        snprintf(text, sizeof text, "%s %s %s+%zu %s%g%s", t->name, dims, t->unit_name, t->offset,
                 t->init_std > 0 ? "~" : "=",
                 (double)(t->init_std > 0 ? t->init_std : t->init_value),
                 t->decay ? " decays" : "");
        CHECK_STR(text, rows[i]);
        CHECK_EQ(t->count, t->dims[0] * t->dims[1]);
        params += t->count;
    }
    CHECK_EQ(params, dt_shape_params(&s));
    free(tensors);
}

TEST(the_tensors_of_a_gpt2_are_pinned)
{
    static const char *const rows[] = {
        "wte.weight [5, 8] embed+0 ~0.02 decays",
        "wpe.weight [16, 8] embed+40 ~0.02 decays",
        "h.0.ln_1.weight [8] block.0+0 =1",
        "h.0.ln_1.bias [8] block.0+8 =0",
        "h.0.attn.c_attn.weight [8, 24] block.0+16 ~0.02 decays",
        "h.0.attn.c_attn.bias [24] block.0+208 =0",
        "h.0.attn.c_proj.weight [8, 8] block.0+232 ~0.01 decays",
        "h.0.attn.c_proj.bias [8] block.0+296 =0",
        "h.0.ln_2.weight [8] block.0+304 =1",
        "h.0.ln_2.bias [8] block.0+312 =0",
        "h.0.mlp.c_fc.weight [8, 32] block.0+320 ~0.02 decays",
        "h.0.mlp.c_fc.bias [32] block.0+576 =0",
        "h.0.mlp.c_proj.weight [32, 8] block.0+608 ~0.01 decays",
        "h.0.mlp.c_proj.bias [8] block.0+864 =0",
        "h.1.ln_1.weight [8] block.1+0 =1",
        "h.1.ln_1.bias [8] block.1+8 =0",
        "h.1.attn.c_attn.weight [8, 24] block.1+16 ~0.02 decays",
        "h.1.attn.c_attn.bias [24] block.1+208 =0",
        "h.1.attn.c_proj.weight [8, 8] block.1+232 ~0.01 decays",
        "h.1.attn.c_proj.bias [8] block.1+296 =0",
        "h.1.ln_2.weight [8] block.1+304 =1",
        "h.1.ln_2.bias [8] block.1+312 =0",
        "h.1.mlp.c_fc.weight [8, 32] block.1+320 ~0.02 decays",
        "h.1.mlp.c_fc.bias [32] block.1+576 =0",
        "h.1.mlp.c_proj.weight [32, 8] block.1+608 ~0.01 decays",
        "h.1.mlp.c_proj.bias [8] block.1+864 =0",
        "ln_f.weight [8] head+0 =1",
        "ln_f.bias [8] head+8 =0",
    };
    check_tensors(G ",\"n_head\":2,\"n_positions\":16}", rows, ROWS(rows));
}

TEST(the_tensors_of_a_llama_are_pinned)
{
    static const char *const rows[] = {
        "model.embed_tokens.weight [5, 8] embed+0 ~0.02 decays",
        "model.layers.0.input_layernorm.weight [8] block.0+0 =1",
        "model.layers.0.self_attn.q_proj.weight [16, 8] block.0+8 ~0.02 decays",
        "model.layers.0.self_attn.k_proj.weight [4, 8] block.0+136 ~0.02 decays",
        "model.layers.0.self_attn.v_proj.weight [4, 8] block.0+168 ~0.02 decays",
        "model.layers.0.self_attn.o_proj.weight [8, 16] block.0+200 ~0.02 decays",
        "model.layers.0.post_attention_layernorm.weight [8] block.0+328 =1",
        "model.layers.0.mlp.gate_proj.weight [6, 8] block.0+336 ~0.02 decays",
        "model.layers.0.mlp.up_proj.weight [6, 8] block.0+384 ~0.02 decays",
        "model.layers.0.mlp.down_proj.weight [8, 6] block.0+432 ~0.02 decays",
        "model.norm.weight [8] head+0 =1",
        "lm_head.weight [5, 8] head+8 ~0.02 decays",
    };
    check_tensors(L ",\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":4}", rows,
                  ROWS(rows));
}

TEST(an_untied_gpt2_has_a_head_and_a_prefix_and_a_tied_llama_has_no_head)
{
    struct dt_shape s = shape_of(G ",\"n_head\":2,\"n_positions\":16,"
                                   "\"tie_word_embeddings\":false}");
    struct dt_tensor *t = dt_shape_tensors(&s, NULL);
    CHECK(t != NULL);
    CHECK_STR(t[0].name, "transformer.wte.weight");
    CHECK_STR(t[2].name, "transformer.h.0.ln_1.weight");
    CHECK_STR(t[dt_shape_tensor_count(&s) - 2].name, "transformer.ln_f.bias");
    CHECK_STR(t[dt_shape_tensor_count(&s) - 1].name, "lm_head.weight");
    free(t);
    s = shape_of(L ",\"num_attention_heads\":2,\"tie_word_embeddings\":true}");
    t = dt_shape_tensors(&s, NULL);
    CHECK(t != NULL);
    CHECK_STR(t[dt_shape_tensor_count(&s) - 1].name, "model.norm.weight");
    free(t);
}

TEST(units_hold_their_tensors_in_order)
{
    struct dt_shape s = shape_of(G ",\"n_head\":2,\"n_positions\":16}");
    struct dt_err err = {0};
    struct dt_tensor *tensors = dt_shape_tensors(&s, &err);
    struct dt_unit *units;
    struct dt_param *params;
    CHECK(tensors != NULL);
    CHECK_OK(dt_shape_units(&s, tensors, &units, &params, &err), err);
    CHECK_EQ(dt_shape_unit_count(&s), 4);
    CHECK_STR(units[0].name, "embed");
    CHECK_STR(units[1].name, "block.0");
    CHECK_STR(units[2].name, "block.1");
    CHECK_STR(units[3].name, "head");
    CHECK_EQ(units[0].param_count, 2);
    CHECK_EQ(units[2].param_count, 12);
    CHECK_EQ(units[3].param_count, 2);
    CHECK_STR(units[2].params[11].name, "h.1.mlp.c_proj.bias");
    CHECK_EQ(units[2].params[10].count, 256);
    CHECK(units[2].params[10].decay && !units[2].params[11].decay);
    free(units);
    free(params);
    free(tensors);
}

/* Each expert has a tensor of its own in files, and all of one kind are one piece in memory. */
TEST(the_tensors_of_experts_are_pinned)
{
    static const char *const mixtral[] = {
        "model.layers.0.block_sparse_moe.gate.weight 3x8",
        "model.layers.0.block_sparse_moe.experts.0.w1.weight 6x8",
        "model.layers.0.block_sparse_moe.experts.1.w1.weight 6x8",
        "model.layers.0.block_sparse_moe.experts.2.w1.weight 6x8",
        "model.layers.0.block_sparse_moe.experts.0.w3.weight 6x8",
        "model.layers.0.block_sparse_moe.experts.1.w3.weight 6x8",
        "model.layers.0.block_sparse_moe.experts.2.w3.weight 6x8",
        "model.layers.0.block_sparse_moe.experts.0.w2.weight 8x6",
        "model.layers.0.block_sparse_moe.experts.1.w2.weight 8x6",
        "model.layers.0.block_sparse_moe.experts.2.w2.weight 8x6",
    };
    static const char *const qwen2[] = {
        "model.layers.0.mlp.gate.weight 3x8",
        "model.layers.0.mlp.experts.0.gate_proj.weight 4x8",
        "model.layers.0.mlp.experts.1.gate_proj.weight 4x8",
        "model.layers.0.mlp.experts.2.gate_proj.weight 4x8",
        "model.layers.0.mlp.experts.0.up_proj.weight 4x8",
        "model.layers.0.mlp.experts.1.up_proj.weight 4x8",
        "model.layers.0.mlp.experts.2.up_proj.weight 4x8",
        "model.layers.0.mlp.experts.0.down_proj.weight 8x4",
        "model.layers.0.mlp.experts.1.down_proj.weight 8x4",
        "model.layers.0.mlp.experts.2.down_proj.weight 8x4",
        "model.layers.0.mlp.shared_expert_gate.weight 1x8",
        "model.layers.0.mlp.shared_expert.gate_proj.weight 5x8",
        "model.layers.0.mlp.shared_expert.up_proj.weight 5x8",
        "model.layers.0.mlp.shared_expert.down_proj.weight 8x5",
    };
    const struct {
        const char *text, *const *names;
        size_t count;
    } rows[] = {{MIXTRAL "}", mixtral, ROWS(mixtral)}, {QWEN2_MOE "}", qwen2, ROWS(qwen2)}};
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct dt_shape s = shape_of(rows[r].text);
        struct dt_tensor *tensors = dt_shape_tensors(&s, NULL);
        size_t all = dt_shape_tensor_count(&s), found = 0, params = 0, end = 0;
        for (size_t i = 0; i < all; i++) {
            const struct dt_tensor *t = &tensors[i];
            char text[160];
            end = t->index == 0 ? 0 : end;
            CHECK_EQ(t->offset, end);
            end += t->count;
            params += t->count;
            if (t->unit != 1 || t->which < DT_LLAMA_ROUTER)
                continue;
            snprintf(text, sizeof text, "%s %zux%zu", t->name, t->dims[0], t->dims[1]);
            CHECK(found < rows[r].count);
            CHECK_STR(text, rows[r].names[found++]);
        }
        CHECK_EQ(found, rows[r].count);
        CHECK_EQ(params, dt_shape_params(&s));
        /* Of three experts a token leaves one aside, in each of two layers. */
        CHECK_EQ(params - dt_shape_active_params(&s), 2 * 3 * s.expert_inner * s.width);
        free(tensors);
    }
}

/* -- parts of tensors ------------------------------------------------------------------------- */

static const struct dt_shape cut_shapes[] = {
    {DT_GPT2, 1, 4, 4, 8, 2, 11, 6, 13, 1e-5f, 0, 0.02f, .tied = true},
    {DT_GPT2, 1, 3, 3, 6, 2, 8, 6, 13, 1e-5f, 0, 0.02f, .tied = false},
    {DT_LLAMA, 1, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .tied = false},
    {DT_LLAMA, 1, 8, 4, 16, 2, 12, 6, 9, 1e-5f, 100, 0.02f, .tied = true},
    {DT_QWEN2, 1, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .qkv_bias = true},
    {DT_QWEN2, 1, 8, 2, 10, 4, 8, 6, 13, 1e-5f, 100, 0.02f, .qkv_bias = true},
    {DT_QWEN3, 1, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .qk_norm = true},
    {DT_GEMMA2, 1, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .tied = true, .branch_norms = true},
    {DT_QWEN2_MOE, 1, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .qkv_bias = true, .experts = 3,
     .expert_picks = 2, .expert_inner = 6, .shared_inner = 12},
};

static bool is_whole(const struct dt_tensor *t)
{
    const char *whole[] = {"ln_", "norm", "wpe", "c_proj.bias", "mlp.gate.", "shared_expert_gate"};
    for (size_t i = 0; i < ROWS(whole); i++)
        if (strstr(t->name, whole[i]))
            return true;
    return false;
}

/* How many of PARTS ranks have the same of T. */
static size_t holders_of(const struct dt_shape *s, const struct dt_tensor *t, size_t parts)
{
    bool keys = strstr(t->name, "k_proj") || strstr(t->name, "v_proj");
    if (is_whole(t))
        return parts;
    return keys && parts > s->kv_heads && s->heads % parts == 0 && parts % s->kv_heads == 0
               ? parts / s->kv_heads
               : 1;
}

/* Counts, for each index of the dimension that is cut, the parts that have it. */
static void count_holders(const struct dt_shape *s, const struct dt_tensor *t, size_t parts,
                          int *holders)
{
    for (size_t index = 0; index < parts; index++) {
        struct dt_tensor_part p;
        dt_shape_part(s, t, parts, index, &p);
        for (int i = 0; i < p.stretches; i++) {
            CHECK(p.stretch[i].from <= p.stretch[i].to && p.stretch[i].to <= t->dims[p.dim]);
            for (size_t at = p.stretch[i].from; at < p.stretch[i].to; at++)
                holders[at]++;
        }
    }
}

TEST(the_parts_of_a_tensor_add_up_to_it)
{
    for (size_t i = 0; i < ROWS(cut_shapes); i++) {
        const struct dt_shape *s = &cut_shapes[i];
        struct dt_tensor *tensors = dt_shape_tensors(s, NULL);
        for (const struct dt_tensor *t = tensors; t < tensors + dt_shape_tensor_count(s); t++) {
            for (size_t parts = 1; parts <= 9; parts++) {
                struct dt_tensor_part p;
                dt_shape_part(s, t, parts, 0, &p);
                int *holders = calloc(t->dims[p.dim], sizeof *holders);
                count_holders(s, t, parts, holders);
                for (size_t at = 0; at < t->dims[p.dim]; at++) {
                    CHECK_ROW("%s: %zu of %zu in %zu parts", t->name, at, t->dims[p.dim], parts);
                    CHECK_EQ(holders[at], holders_of(s, t, parts));
                    CHECK_EQ(p.copies, holders_of(s, t, parts));
                }
                free(holders);
            }
        }
        free(tensors);
    }
}

/* Walks through each part from run to run, and counts where they lead to, but for padding, of which
 * there is a row of words at most. */
static void count_runs(const struct dt_shape *s, const struct dt_tensor *t, size_t parts,
                       const struct dt_tensor *own, int *holders)
{
    for (size_t index = 0; index < parts; index++) {
        struct dt_tensor_part p;
        size_t run;
        dt_shape_part(s, t, parts, index, &p);
        for (size_t at = 0; at < own->count; at += run) {
            size_t there = dt_tensor_part_run(t, &p, at, &run);
            if (there == DT_PADDING) {
                CHECK_EQ(own->count - at, p.whole ? 0 : t->dims[1]);
                break;
            }
            CHECK(run > 0 && at + run <= own->count && there + run <= t->count);
            for (size_t i = 0; i < run; i++)
                holders[there + i]++;
        }
    }
}

/* A part has the tensors of a model that is cut as it is. */
TEST(the_runs_of_all_parts_are_the_tensor)
{
    for (size_t i = 0; i < ROWS(cut_shapes); i++) {
        const struct dt_shape *s = &cut_shapes[i];
        struct dt_tensor *tensors = dt_shape_tensors(s, NULL);
        for (size_t parts = 1; parts <= 4; parts++) {
            struct dt_shape cut;
            if (dt_shape_cut(s, parts, &cut, NULL) < 0)
                continue;
            struct dt_tensor *own = dt_shape_tensors(&cut, NULL);
            CHECK_EQ(dt_shape_tensor_count(&cut), dt_shape_tensor_count(s));
            for (size_t n = 0; n < dt_shape_tensor_count(s); n++) {
                const struct dt_tensor *t = &tensors[n];
                int *holders = calloc(t->count, sizeof *holders);
                size_t words = (s->vocabulary + parts - 1) / parts * s->width;
                bool of_words = t->dims[0] == s->vocabulary && t->rank == 2;
                CHECK_EQ(own[n].count, is_whole(t) ? t->count
                                       : of_words  ? words
                                                   : t->count / parts * holders_of(s, t, parts));
                count_runs(s, t, parts, &own[n], holders);
                for (size_t at = 0; at < t->count; at++) {
                    CHECK_ROW("%s: element %zu, %zu parts", t->name, at, parts);
                    CHECK_EQ(holders[at], holders_of(s, t, parts));
                }
                free(holders);
            }
            free(own);
        }
        free(tensors);
    }
}

TEST(what_cannot_be_cut_evenly_is_refused_with_what_can)
{
    static const struct {
        size_t heads, kv_heads, inner, parts, vocabulary; /* INNER: of each expert, too */
        size_t experts, shared_inner;
        const char *words;
    } rows[] = {
        {12, 12, 48, 8, 99, 0, 0,
         "12 heads cannot be cut by 8; this model can be cut by 2, 3, 4, 6 and 12"},
        {12, 2, 48, 3, 99, 0, 0,
         "2 key-value heads cannot be cut by 3; this model can be cut by 2, 4, 6 and 12"},
        {8, 8, 12, 8, 99, 0, 0,
         "12 numbers of inner width cannot be cut by 8; this model can be cut by 2 and 4"},
        {3, 1, 11, 3, 99, 0, 0,
         "11 numbers of inner width cannot be cut by 3; this model can be cut by nothing"},
        {4, 4, 12, 4, 3, 0, 0, "3 words cannot be cut by 4; this model can be cut by 2"},
        {8, 8, 12, 8, 99, 3, 32,
         "12 numbers of an expert's inner width cannot be cut by 8; this model can be cut by 2 "
         "and 4"},
        {8, 8, 16, 4, 99, 5, 6,
         "6 numbers of the shared expert's inner width cannot be cut by 4; this model can be cut "
         "by 2"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_shape s = {.heads = rows[i].heads,
                             .kv_heads = rows[i].kv_heads,
                             .inner = rows[i].inner,
                             .experts = rows[i].experts,
                             .expert_inner = rows[i].inner,
                             .shared_inner = rows[i].shared_inner,
                             .vocabulary = rows[i].vocabulary},
                        cut;
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].words);
        CHECK_FAIL(dt_shape_cut(&s, rows[i].parts, &cut, &err), err, rows[i].words);
    }
}

static struct dt_tensor_part part_of(const struct dt_shape *s, const struct dt_tensor *tensors,
                                     size_t which, size_t parts, size_t index)
{
    struct dt_tensor_part p = {0};
    for (const struct dt_tensor *t = tensors; t < tensors + dt_shape_tensor_count(s); t++)
        if (t->unit == 1 && t->which == which)
            dt_shape_part(s, t, parts, index, &p);
    return p;
}

#define CHECK_STRETCH(a, b) CHECK((a).from == (b).from && (a).to == (b).to)

/* What a column layer gives on a rank is what the row layer behind it takes there. */
TEST(what_a_rank_finds_it_goes_on_with)
{
    static const struct layers {
        size_t q, o, up, down;
        int column, row; /* the dimensions that are cut */
    } all[] = {
        {DT_GPT2_C_ATTN_WEIGHT, DT_GPT2_ATTN_PROJ_WEIGHT, DT_GPT2_C_FC_WEIGHT,
         DT_GPT2_MLP_PROJ_WEIGHT, 1, 0},
        {DT_LLAMA_Q, DT_LLAMA_O, DT_LLAMA_UP, DT_LLAMA_DOWN, 0, 1},
        {DT_LLAMA_Q, DT_LLAMA_O, DT_LLAMA_EXPERT_UP, DT_LLAMA_EXPERT_DOWN, 0, 1},
    };
    for (size_t i = 0; i < 2 * ROWS(cut_shapes); i++) {
        const struct dt_shape *s = &cut_shapes[i / 2];
        struct dt_tensor *tensors = dt_shape_tensors(s, NULL);
        const struct layers *layers = &all[s->experts ? 2 : s->family != DT_GPT2];
        struct dt_tensor_part q = part_of(s, tensors, layers->q, 2, i % 2);
        struct dt_tensor_part o = part_of(s, tensors, layers->o, 2, i % 2);
        struct dt_tensor_part up = part_of(s, tensors, layers->up, 2, i % 2);
        struct dt_tensor_part down = part_of(s, tensors, layers->down, 2, i % 2);
        CHECK_ROW("shape %zu, part %zu of 2", i / 2, i % 2);
        CHECK_STRETCH(q.stretch[0], o.stretch[0]);
        CHECK_STRETCH(up.stretch[0], down.stretch[0]);
        CHECK_EQ(q.dim, layers->column);
        CHECK_EQ(up.dim, layers->column);
        CHECK_EQ(o.dim, layers->row);
        CHECK_EQ(down.dim, layers->row);
        free(tensors);
    }
}

TEST(query_heads_are_with_the_keys_and_values_they_read)
{
    const struct dt_shape *llama_shape = &cut_shapes[3], *gpt2_shape = &cut_shapes[1];
    struct dt_tensor *tensors = dt_shape_tensors(llama_shape, NULL);
    /* Eight heads of two that read four, in three parts. */
    struct dt_tensor_part q = part_of(llama_shape, tensors, DT_LLAMA_Q, 3, 1);
    struct dt_tensor_part k = part_of(llama_shape, tensors, DT_LLAMA_K, 3, 1);
    CHECK_STRETCH(q.stretch[0], ((struct dt_dim_stretch){4, 8})); /* heads 2 and 3 */
    CHECK_STRETCH(k.stretch[0], ((struct dt_dim_stretch){2, 4})); /* which read 1 */
    free(tensors);
    /* Three heads of two, in two parts: one, and two of them. */
    tensors = dt_shape_tensors(gpt2_shape, NULL);
    struct dt_tensor_part qkv = part_of(gpt2_shape, tensors, DT_GPT2_C_ATTN_BIAS, 2, 1);
    CHECK_EQ(qkv.stretches, 3);
    CHECK_STRETCH(qkv.stretch[0], ((struct dt_dim_stretch){2, 6}));
    CHECK_STRETCH(qkv.stretch[1], ((struct dt_dim_stretch){8, 12}));
    CHECK_STRETCH(qkv.stretch[2], ((struct dt_dim_stretch){14, 18}));
    free(tensors);
    /* Eight heads of four that read two, in four parts: the last two parts read the second. */
    const struct dt_shape *shared = &cut_shapes[5];
    tensors = dt_shape_tensors(shared, NULL);
    for (size_t index = 2; index < 4; index++) {
        q = part_of(shared, tensors, DT_LLAMA_Q, 4, index);
        k = part_of(shared, tensors, DT_LLAMA_V_BIAS, 4, index);
        CHECK_STRETCH(q.stretch[0], ((struct dt_dim_stretch){8 * index, 8 * index + 8}));
        CHECK_STRETCH(k.stretch[0], ((struct dt_dim_stretch){4, 8}));
        CHECK_EQ(k.copies, 2);
    }
    free(tensors);
}
