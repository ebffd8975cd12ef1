/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors that a shape has, and the units that hold them. */
#include "tests/runtime/shape_text.h"

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
