/* SPDX-License-Identifier: Apache-2.0 */
/* What each family of models has of its own, and models that people know. */
#include "tests/runtime/shape_text.h"

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
