/* SPDX-License-Identifier: Apache-2.0 */
/* What of a config.json is read, refused, passed over and written. */
#include "tests/runtime/shape_text.h"

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
