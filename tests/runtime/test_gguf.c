/* SPDX-License-Identifier: Apache-2.0 */
/* What a GGUF holds, read by rules of its own; that llama.cpp says with it what we say was seen
 * outside of this tree. */
#include "worker_runtime/export/gguf.h"

#include "tests/runtime/saved_models.h"
#include "worker_runtime/export/export.h"
#include "worker_runtime/export/gguf_model.h"
#include "worker_runtime/export/gguf_vocab.h"
#include "worker_runtime/ops/half.h"

#include <math.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

BEFORE_ALL
{
    folder_make();
}

/* -- a reader --------------------------------------------------------------------------------- */

struct pair {
    char key[80];
    uint32_t kind, element; /* ELEMENT: of an array */
    uint64_t count;
    struct dt_bytes value; /* all of it; of a text the text */
};

struct tensor {
    char name[80];
    uint32_t dims, type;
    uint64_t size[2], offset;
};

struct file {
    struct dt_buf bytes;
    struct pair pairs[64];
    struct tensor tensors[64];
    size_t pair_count, tensor_count, data_at;
};

static void read_name(struct dt_reader *r, char *out, size_t size)
{
    uint64_t len = dt_read_u64(r);
    const uint8_t *at = dt_read_bytes(r, len);
    CHECK(at && len < size);
    memcpy(out, at, len);
    out[len] = '\0';
}

static void skip(struct dt_reader *r, uint32_t kind)
{
    switch (kind) {
    case DT_GGUF_BOOL:
        CHECK(dt_read_u8(r) <= 1);
        break;
    case DT_GGUF_TEXT:
        dt_read_bytes(r, dt_read_u64(r));
        break;
    default:
        CHECK(kind == DT_GGUF_U32 || kind == DT_GGUF_I32 || kind == DT_GGUF_FLOAT);
        dt_read_u32(r);
    }
}

static void read_pair(struct dt_reader *r, struct pair *p)
{
    read_name(r, p->key, sizeof p->key);
    p->kind = dt_read_u32(r);
    p->count = 1;
    p->element = p->kind;
    if (p->kind == DT_GGUF_ARRAY) {
        p->element = dt_read_u32(r);
        p->count = dt_read_u64(r);
    }
    p->value.at = r->at;
    for (uint64_t i = 0; i < p->count && !r->bad; i++)
        skip(r, p->element);
    p->value.len = (size_t)(r->at - p->value.at);
}

static void read_tensor(struct dt_reader *r, struct tensor *t)
{
    read_name(r, t->name, sizeof t->name);
    t->dims = dt_read_u32(r);
    CHECK(t->dims == 1 || t->dims == 2);
    for (uint32_t d = 0; d < t->dims; d++)
        t->size[d] = dt_read_u64(r);
    t->type = dt_read_u32(r);
    t->offset = dt_read_u64(r);
}

static void read_head(struct file *f)
{
    struct dt_reader r = dt_reader_over(f->bytes.at, f->bytes.len);
    const uint8_t *magic = dt_read_bytes(&r, 4);
    CHECK(magic && memcmp(magic, "GGUF", 4) == 0);
    CHECK_EQ(dt_read_u32(&r), 3);
    f->tensor_count = dt_read_u64(&r);
    f->pair_count = dt_read_u64(&r);
    CHECK(f->pair_count <= ROWS(f->pairs) && f->tensor_count <= ROWS(f->tensors));
    for (size_t i = 0; i < f->pair_count; i++)
        read_pair(&r, &f->pairs[i]);
    for (size_t i = 0; i < f->tensor_count; i++)
        read_tensor(&r, &f->tensors[i]);
    CHECK(!r.bad);
    f->data_at = (size_t)(r.at - f->bytes.at);
    f->data_at = (f->data_at + 31) / 32 * 32;
    CHECK(f->data_at <= f->bytes.len);
}

static const struct pair *find(const struct file *f, const char *key)
{
    const struct pair *found = NULL;
    for (size_t i = 0; i < f->pair_count; i++)
        if (strcmp(f->pairs[i].key, key) == 0) {
            CHECK_ROW("%s, twice", key);
            CHECK(!found);
            found = &f->pairs[i];
        }
    return found;
}

static uint32_t number_of(const struct file *f, const char *key)
{
    const struct pair *p = find(f, key);
    CHECK_ROW("%s", key);
    CHECK(p && p->kind == DT_GGUF_U32);
    struct dt_reader r = dt_reader_over(p->value.at, p->value.len);
    return dt_read_u32(&r);
}

static float float_of(const struct file *f, const char *key)
{
    const struct pair *p = find(f, key);
    CHECK_ROW("%s", key);
    CHECK(p && p->kind == DT_GGUF_FLOAT);
    struct dt_reader r = dt_reader_over(p->value.at, p->value.len);
    return dt_bits_float(dt_read_u32(&r));
}

static bool flag_of(const struct file *f, const char *key)
{
    const struct pair *p = find(f, key);
    CHECK_ROW("%s", key);
    CHECK(p && p->kind == DT_GGUF_BOOL);
    return *p->value.at;
}

/* Text number I of an array, or the one text. */
static const char *text_of(const struct file *f, const char *key, size_t i)
{
    static char text[200];
    const struct pair *p = find(f, key);
    CHECK_ROW("%s[%zu]", key, i);
    CHECK(p && p->element == DT_GGUF_TEXT && i < p->count);
    struct dt_reader r = dt_reader_over(p->value.at, p->value.len);
    for (size_t k = 0; k < i; k++)
        skip(&r, DT_GGUF_TEXT);
    read_name(&r, text, sizeof text);
    return text;
}

/* Four bytes of number I of an array. */
static uint32_t word_of(const struct file *f, const char *key, size_t i)
{
    const struct pair *p = find(f, key);
    CHECK_ROW("%s[%zu]", key, i);
    CHECK(p && p->kind == DT_GGUF_ARRAY && i < p->count && p->value.len == 4 * p->count);
    struct dt_reader r = dt_reader_over(p->value.at + 4 * i, 4);
    return dt_read_u32(&r);
}

static const struct tensor *tensor_of(const struct file *f, const char *name)
{
    for (size_t i = 0; i < f->tensor_count; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    CHECK_ROW("tensor %s", name);
    CHECK(false);
    return NULL;
}

/* Element I of T. */
static float element(const struct file *f, const struct tensor *t, size_t i)
{
    const uint8_t *at = f->bytes.at + f->data_at + t->offset;
    uint32_t word;
    uint16_t half;
    switch (t->type) {
    case DT_GGUF_F32:
        memcpy(&word, at + 4 * i, sizeof word);
        return dt_bits_float(word);
    case DT_GGUF_Q8_0:
        memcpy(&half, at + i / 32 * 34, sizeof half);
        return dt_f16_to_float(half) * (float)(int8_t)at[i / 32 * 34 + 2 + i % 32];
    default:
        memcpy(&half, at + 2 * i, sizeof half);
        return t->type == DT_GGUF_F16 ? dt_f16_to_float(half) : dt_bf16_to_float(half);
    }
}

static size_t elements(const struct tensor *t)
{
    return (size_t)(t->size[0] * (t->dims == 2 ? t->size[1] : 1));
}

/* -- rows ------------------------------------------------------------------------------------- */

TEST(numbers_are_rounded_to_their_type)
{
    float row[64];
    uint8_t out[256];
    for (int i = 0; i < 64; i++)
        row[i] = (float)(i - 20) / 8;
    row[63] = 12.7f;

    CHECK_EQ(dt_gguf_row_bytes(DT_GGUF_Q8_0, 64), 68);
    dt_gguf_encode(DT_GGUF_Q8_0, row, 64, out);
    /* 2.5 / 127 = 0.019685, as binary16 0x250a; -2.5 is -127 of them, and 11 / 8 is 70 */
    CHECK_EQ(out[0] | out[1] << 8, 0x250a);
    CHECK_EQ((int8_t)out[2], -127);
    CHECK_EQ((int8_t)out[2 + 20], 0);
    CHECK_EQ((int8_t)out[2 + 31], 70);
    /* 12.7 / 127 = 0.1; 42 / 8 are 52.5 of them, which goes away from 0 */
    CHECK_EQ(out[34] | out[35] << 8, 0x2e66);
    CHECK_EQ((int8_t)out[36 + 31], 127);
    CHECK_EQ((int8_t)out[36 + 30], 53);

    dt_gguf_encode(DT_GGUF_F16, row, 2, out);
    CHECK_BYTES(out, 4, "\x00\xc1\xc0\xc0", 4);
    dt_gguf_encode(DT_GGUF_BF16, row, 2, out);
    CHECK_BYTES(out, 4, "\x20\xc0\x18\xc0", 4);
    dt_gguf_encode(DT_GGUF_F32, row, 1, out);
    CHECK_BYTES(out, 4, "\x00\x00\x20\xc0", 4);

    memset(row, 0, sizeof row);
    dt_gguf_encode(DT_GGUF_Q8_0, row, 32, out);
    for (int i = 0; i < 34; i++)
        CHECK_EQ(out[i], 0);
    CHECK(dt_gguf_takes(DT_GGUF_Q8_0, 96) && !dt_gguf_takes(DT_GGUF_Q8_0, 48));
    CHECK(dt_gguf_takes(DT_GGUF_F16, 48));
}

TEST(a_block_that_eight_bits_cannot_hold_is_all_zeros_or_no_numbers)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    float row[32] = {1, -1};
    uint8_t out[34], zeros[34] = {0};
    for (size_t i = 0; i < ROWS(odd); i++) {
        CHECK_ROW("%g", (double)odd[i]);
        row[5] = odd[i];
        dt_gguf_encode(DT_GGUF_Q8_0, row, 32, out);
        CHECK(isnan(dt_f16_to_float((uint16_t)(out[0] | out[1] << 8))));
        CHECK_BYTES(out + 2, 32, zeros, 32);
    }
    for (int i = 0; i < 32; i++)
        row[i] = (float)i * 1e-41f;
    dt_gguf_encode(DT_GGUF_Q8_0, row, 32, out);
    CHECK_BYTES(out, 34, zeros, 34);
}

/* -- models ----------------------------------------------------------------------------------- */

static const struct dt_shape gpt2 = {
    DT_GPT2, 2, 4, 4, 64, 16, 128, 20, 320, 1e-5f, 0, 0.02f, .tied = true, .eos = {1, {256}}};
static const struct dt_shape llama = {
    DT_LLAMA, 2, 4, 2, 64, 8, 96, 30, 320, 1e-6f, 500000, 0.02f, .tied = false, .eos = {1, {256}}};

/* Each element of a model is another, and all types have them exactly but Q8_0. */
static float value_of(const struct dt_tensor *t, size_t i)
{
    size_t row = t->rank == 2 ? i / t->dims[1] : 0, column = t->rank == 2 ? i % t->dims[1] : i;
    return (float)((row * 7 + column * 3 + t->unit * 5 + strlen(t->name)) % 255) / 16 - 8;
}

static void export(const struct dt_shape *s, enum dt_export_type type, struct file *f)
{
    struct dt_err err = {0};
    struct dt_buf notes = {0};
    char out[100];
    snprintf(out, sizeof out, "%s", at("out.gguf"));
    saved_make(at("model"), s, DT_F32, value_of);
    const struct dt_export_options o = {.model = at("model"), .out = out, .type = type};
    CHECK_OK(dt_export_gguf(&o, &notes, &err), err);
    CHECK_STR(dt_buf_cstr(&notes), "");
    *f = (struct file){0};
    CHECK_OK(dt_fs_read(out, (size_t)16 << 20, &f->bytes, &err), err);
    read_head(f);
    dt_buf_finish(&notes);
}

/* Where every tensor ends the next begins, and the last one is the end. */
static void check_places(const struct file *f)
{
    uint64_t end = 0;
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct tensor *t = &f->tensors[i];
        CHECK_ROW("%s", t->name);
        CHECK_EQ(t->offset, end);
        CHECK_EQ(t->offset % 32, 0);
        end += dt_gguf_row_bytes(t->type, (size_t)t->size[0]) * (t->dims == 2 ? t->size[1] : 1);
        end = (end + 31) / 32 * 32;
    }
    CHECK_EQ(f->data_at + end, f->bytes.len);
}

/* What each of our tensors is called there, its sizes there, and how its element (R, C) is found in
 * ours: as it is, transposed, of the rows of a head in pairs, or 1 more. */
static void check_tensor(const struct file *f, const struct dt_shape *s,
                         const struct dt_tensor *ours, const char *theirs, char turn)
{
    const struct tensor *t = tensor_of(f, theirs);
    size_t width = (size_t)t->size[0], d = s->head_dim;
    CHECK_EQ(elements(t), ours->count);
    for (size_t i = 0; i < ours->count; i++) {
        size_t r = i / width, c = i % width, from = i;
        if (turn == 'T')
            from = c * ours->dims[1] + r;
        if (turn == 'P')
            from = (r / d * d + (r % d % 2 ? d / 2 : 0) + r % d / 2) * width + c;
        float v = value_of(ours, from) + (turn == '+' ? 1 : 0), got = element(f, t, i);
        CHECK_ROW("%s, (%zu, %zu): %g, expected %g", theirs, r, c, (double)got, (double)v);
        CHECK(fabsf(got - v) <= (t->type == DT_GGUF_Q8_0 ? 0.04f : 0.0f));
    }
}

struct name {
    const char *ours, *theirs;
    char turn;
};

static void check_names(const struct file *f, const struct dt_shape *s, const struct name *names,
                        size_t count)
{
    struct dt_err err = {0};
    struct dt_tensor *tensors = dt_shape_tensors(s, &err);
    size_t n = dt_shape_tensor_count(s), found = 0;
    CHECK_EQ(f->tensor_count, n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++)
            if (strcmp(tensors[i].name, names[k].ours) == 0) {
                check_tensor(f, s, &tensors[i], names[k].theirs, names[k].turn);
                found++;
            }
    CHECK_EQ(found, count);
    free(tensors);
}

static const enum dt_export_type types[] = {DT_EXPORT_AS_IT_IS, DT_EXPORT_F32, DT_EXPORT_F16,
                                            DT_EXPORT_BF16, DT_EXPORT_Q8_0};
static const uint32_t expected_types[] = {0, 0, 1, 30, 8}, file_types[] = {0, 0, 1, 32, 7};

TEST(a_gpt2_has_its_matrices_turned)
{
    static const struct name names[] = {
        {"wte.weight", "token_embd.weight", '='},
        {"wpe.weight", "position_embd.weight", '='},
        {"h.0.ln_1.weight", "blk.0.attn_norm.weight", '='},
        {"h.1.ln_1.bias", "blk.1.attn_norm.bias", '='},
        {"h.1.attn.c_attn.weight", "blk.1.attn_qkv.weight", 'T'},
        {"h.0.attn.c_attn.bias", "blk.0.attn_qkv.bias", '='},
        {"h.0.attn.c_proj.weight", "blk.0.attn_output.weight", 'T'},
        {"h.1.ln_2.weight", "blk.1.ffn_norm.weight", '='},
        {"h.0.mlp.c_fc.weight", "blk.0.ffn_up.weight", 'T'},
        {"h.1.mlp.c_proj.weight", "blk.1.ffn_down.weight", 'T'},
        {"h.1.mlp.c_proj.bias", "blk.1.ffn_down.bias", '='},
        {"ln_f.weight", "output_norm.weight", '='},
        {"ln_f.bias", "output_norm.bias", '='},
    };
    for (size_t i = 0; i < ROWS(types); i++) {
        struct file f;
        export(&gpt2, types[i], &f);
        CHECK_STR(text_of(&f, "general.architecture", 0), "gpt2");
        CHECK_EQ(number_of(&f, "general.file_type"), file_types[i]);
        CHECK_EQ(number_of(&f, "gpt2.context_length"), 20);
        CHECK_EQ(number_of(&f, "gpt2.embedding_length"), 64);
        CHECK_EQ(number_of(&f, "gpt2.block_count"), 2);
        CHECK_EQ(number_of(&f, "gpt2.feed_forward_length"), 128);
        CHECK_EQ(number_of(&f, "gpt2.attention.head_count"), 4);
        CHECK(float_of(&f, "gpt2.attention.layer_norm_epsilon") == 1e-5f);
        CHECK_EQ(tensor_of(&f, "blk.0.ffn_up.weight")->type, expected_types[i]);
        CHECK_EQ(tensor_of(&f, "blk.0.ffn_up.bias")->type, 0);
        CHECK_EQ(tensor_of(&f, "position_embd.weight")->type, 0);
        check_places(&f);
        check_names(&f, &gpt2, names, ROWS(names));
        dt_buf_finish(&f.bytes);
    }
}

TEST(a_llama_has_rows_of_its_heads_in_pairs)
{
    static const struct name names[] = {
        {"model.embed_tokens.weight", "token_embd.weight", '='},
        {"model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight", '='},
        {"model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight", 'P'},
        {"model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight", 'P'},
        {"model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight", '='},
        {"model.layers.1.self_attn.o_proj.weight", "blk.1.attn_output.weight", '='},
        {"model.layers.1.post_attention_layernorm.weight", "blk.1.ffn_norm.weight", '='},
        {"model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight", '='},
        {"model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight", '='},
        {"model.layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight", '='},
        {"model.norm.weight", "output_norm.weight", '='},
        {"lm_head.weight", "output.weight", '='},
    };
    for (size_t i = 0; i < ROWS(types); i++) {
        struct file f;
        export(&llama, types[i], &f);
        CHECK_STR(text_of(&f, "general.architecture", 0), "llama");
        CHECK_EQ(number_of(&f, "llama.attention.head_count_kv"), 2);
        CHECK_EQ(number_of(&f, "llama.attention.key_length"), 8);
        CHECK_EQ(number_of(&f, "llama.attention.value_length"), 8);
        CHECK_EQ(number_of(&f, "llama.rope.dimension_count"), 8);
        CHECK(float_of(&f, "llama.rope.freq_base") == 500000);
        CHECK(float_of(&f, "llama.attention.layer_norm_rms_epsilon") == 1e-6f);
        CHECK_EQ(number_of(&f, "llama.vocab_size"), 320);
        CHECK_EQ(tensor_of(&f, "blk.0.ffn_up.weight")->type, expected_types[i]);
        CHECK_EQ(tensor_of(&f, "output.weight")->type, expected_types[i]);
        check_places(&f);
        check_names(&f, &llama, names, ROWS(names));
        dt_buf_finish(&f.bytes);
    }
}

TEST(a_qwen_has_biases_and_norms_and_its_rows_as_they_are)
{
    static const struct name names[] = {
        {"model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight", '='},
        {"model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight", '='},
        {"model.layers.0.self_attn.q_proj.bias", "blk.0.attn_q.bias", '='},
        {"model.layers.1.self_attn.k_proj.bias", "blk.1.attn_k.bias", '='},
        {"model.layers.1.self_attn.v_proj.bias", "blk.1.attn_v.bias", '='},
        {"model.layers.0.self_attn.q_norm.weight", "blk.0.attn_q_norm.weight", '='},
        {"model.layers.1.self_attn.k_norm.weight", "blk.1.attn_k_norm.weight", '='},
    };
    struct dt_shape qwen = llama;
    struct file f;
    qwen.family = DT_QWEN2;
    qwen.qkv_bias = true;
    export(&qwen, DT_EXPORT_F32, &f);
    CHECK_STR(text_of(&f, "general.architecture", 0), "qwen2");
    CHECK_EQ(number_of(&f, "qwen2.attention.head_count_kv"), 2);
    check_places(&f);
    check_names(&f, &qwen, names, 5);
    dt_buf_finish(&f.bytes);
    qwen.family = DT_QWEN3;
    qwen.qkv_bias = false;
    qwen.qk_norm = true;
    export(&qwen, DT_EXPORT_F32, &f);
    CHECK_STR(text_of(&f, "general.architecture", 0), "qwen3");
    check_names(&f, &qwen, names + 5, 2);
    dt_buf_finish(&f.bytes);
}

static const struct dt_shape gemma3 = {DT_GEMMA3_TEXT,
                                       2,
                                       4,
                                       2,
                                       64,
                                       8,
                                       96,
                                       30,
                                       320,
                                       1e-6f,
                                       1e6f,
                                       0.02f,
                                       .tied = true,
                                       .norm_plus_one = true,
                                       .branch_norms = true,
                                       .qk_norm = true,
                                       .query_scalar = 8,
                                       .window = 9,
                                       .full_every = 6,
                                       .local_theta = 10000,
                                       .rope = {.kind = DT_ROPE_LINEAR, .factor = 8},
                                       .eos = {1, {256}}};

TEST(a_gemma_has_1_more_in_its_norms_and_its_rows_as_they_are)
{
    static const struct name names[] = {
        {"model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight", '='},
        {"model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight", '+'},
        {"model.layers.0.self_attn.k_norm.weight", "blk.0.attn_k_norm.weight", '+'},
        {"model.layers.1.post_attention_layernorm.weight", "blk.1.post_attention_norm.weight", '+'},
        {"model.layers.1.pre_feedforward_layernorm.weight", "blk.1.ffn_norm.weight", '+'},
        {"model.layers.0.post_feedforward_layernorm.weight", "blk.0.post_ffw_norm.weight", '+'},
        {"model.norm.weight", "output_norm.weight", '+'},
    };
    static const struct name first[] = {
        {"model.layers.1.post_attention_layernorm.weight", "blk.1.ffn_norm.weight", '+'},
    };
    struct dt_shape s = gemma3;
    struct file f;
    export(&s, DT_EXPORT_F32, &f);
    CHECK_STR(text_of(&f, "general.architecture", 0), "gemma3");
    CHECK_EQ(number_of(&f, "gemma3.attention.sliding_window"), 9);
    CHECK(float_of(&f, "gemma3.rope.freq_base") == 1e6f);
    CHECK(float_of(&f, "gemma3.rope.scaling.factor") == 8);
    CHECK(!find(&f, "gemma3.final_logit_softcapping"));
    check_places(&f);
    check_names(&f, &s, names, ROWS(names));
    dt_buf_finish(&f.bytes);
    s.family = DT_GEMMA2;
    s.qk_norm = false;
    s.full_every = 2;
    s.local_theta = 0;
    s.rope.kind = DT_ROPE_PLAIN;
    s.score_cap = 50;
    s.logit_cap = 30;
    export(&s, DT_EXPORT_F32, &f);
    CHECK_STR(text_of(&f, "general.architecture", 0), "gemma2");
    CHECK(float_of(&f, "gemma2.attn_logit_softcapping") == 50);
    CHECK(float_of(&f, "gemma2.final_logit_softcapping") == 30);
    dt_buf_finish(&f.bytes);
    s = llama;
    s.family = DT_GEMMA;
    s.norm_plus_one = s.tied = true;
    export(&s, DT_EXPORT_F32, &f);
    CHECK_STR(text_of(&f, "general.architecture", 0), "gemma");
    check_names(&f, &s, first, ROWS(first));
    dt_buf_finish(&f.bytes);
}

TEST(a_gemma_of_which_llama_cpp_knows_nothing_is_refused)
{
    static const char no_head[] =
        "tie_word_embeddings: llama.cpp has this family with the vectors of tokens as its head "
        "alone, and this model has a head of its own; write a folder of Hugging Face's, by --to hf";
    struct dt_shape others[8];
    static const char *const says[] = {
        "query_pre_attn_scalar: llama.cpp has a model of this size with no other than 8",
        "sliding_window_pattern: llama.cpp has this family with no other than 6",
        "rope_local_base_freq: llama.cpp has this family with no other than 10000",
        "attn_logit_softcapping: llama.cpp has this family without one alone",
        "final_logit_softcapping: llama.cpp has this family with one alone",
        no_head,
        no_head,
        NULL, /* a Gemma 3 may have a head */
    };
    for (size_t i = 0; i < ROWS(others); i++)
        others[i] = gemma3;
    others[0].query_scalar = 9;
    others[1].full_every = 2;
    others[2].local_theta = 500;
    others[3].score_cap = 50;
    others[4].family = DT_GEMMA2;
    others[4].full_every = 2;
    others[4].local_theta = 0;
    others[4].score_cap = 50;
    others[5].family = DT_GEMMA;
    others[6] = others[4];
    others[6].logit_cap = 30;
    others[5].tied = others[6].tied = others[7].tied = false;
    for (size_t i = 0; i < ROWS(others); i++) {
        struct dt_gguf g = {0};
        struct dt_err err = {0};
        CHECK_ROW("%zu", i);
        CHECK_EQ(dt_gguf_put_model(&g, &others[i], DT_GGUF_F32, &err), says[i] ? -1 : 0);
        CHECK_STR(err.text, says[i] ? says[i] : "");
        dt_gguf_finish(&g);
    }
}

TEST(scaled_rotary_positions_are_told)
{
    struct dt_shape s = llama;
    struct file f;
    s.rope = (struct dt_rope_scaling){.kind = DT_ROPE_LINEAR, .factor = 4};
    export(&s, DT_EXPORT_F32, &f);
    CHECK_STR(text_of(&f, "llama.rope.scaling.type", 0), "linear");
    CHECK(float_of(&f, "llama.rope.scaling.factor") == 4);
    dt_buf_finish(&f.bytes);

    s.rope = (struct dt_rope_scaling){.kind = DT_ROPE_YARN,
                                      .factor = 4,
                                      .original = 16,
                                      .beta_fast = 32,
                                      .beta_slow = 1,
                                      .attention = 1.3f};
    export(&s, DT_EXPORT_F32, &f);
    CHECK_STR(text_of(&f, "llama.rope.scaling.type", 0), "yarn");
    CHECK_EQ(number_of(&f, "llama.rope.scaling.original_context_length"), 16);
    /* 1 + 0.1 ln 4 = 1.13863 */
    CHECK(fabsf(float_of(&f, "llama.rope.scaling.attn_factor") - 1.3f / 1.13863f) < 1e-5f);
    dt_buf_finish(&f.bytes);

    s.rope = (struct dt_rope_scaling){
        .kind = DT_ROPE_LLAMA3, .factor = 8, .original = 16, .low_freq = 1, .high_freq = 4};
    export(&s, DT_EXPORT_F32, &f);
    CHECK(!find(&f, "llama.rope.scaling.type"));
    const struct tensor *t = tensor_of(&f, "rope_freqs.weight");
    CHECK_EQ(t->dims, 1);
    CHECK_EQ(t->size[0], 4);
    /* Pair 0 turns 16 / 2 pi = 2.5 times: 1 / (0.5155 + 0.4845 / 8). The others, not once. */
    CHECK(fabsf(element(&f, t, 0) - 1.7359f) < 1e-3f);
    for (size_t i = 1; i < 4; i++)
        CHECK(element(&f, t, i) == 8);
    check_places(&f);
    dt_buf_finish(&f.bytes);
}

TEST(what_llama_cpp_computes_otherwise_is_refused_or_told)
{
    struct dt_err err = {0};
    struct dt_buf notes = {0};
    struct dt_shape s = llama;
    const struct dt_export_options o = {.model = at("model"), .out = at("other.gguf")};
    s.rope = (struct dt_rope_scaling){.kind = DT_ROPE_YARN,
                                      .factor = 4,
                                      .original = 16,
                                      .beta_fast = 16,
                                      .beta_slow = 1,
                                      .attention = 1};
    saved_make(o.model, &s, DT_F32, value_of);
    CHECK(dt_export_gguf(&o, &notes, &err) < 0);
    CHECK(strstr(err.text, "llama.cpp has yarn with a beta_fast of 32") != NULL);
    s = llama;
    s.family = DT_MISTRAL;
    s.window = 9;
    saved_make(o.model, &s, DT_F32, value_of);
    CHECK_OK(dt_export_gguf(&o, &notes, &err), err);
    CHECK(strstr(dt_buf_cstr(&notes), "layers of this model read the last 9 tokens") != NULL);
    CHECK(strstr(dt_buf_cstr(&notes), "; run it with -c 9\n") != NULL);
    s = llama;
    s.family = DT_QWEN2;
    s.qkv_bias = true;
    s.window = 9;
    s.full_layers = s.layers; /* which leaves none with a window */
    saved_make(o.model, &s, DT_F32, value_of);
    dt_buf_clear(&notes);
    CHECK_OK(dt_export_gguf(&o, &notes, &err), err);
    CHECK_STR(dt_buf_cstr(&notes), "");
    dt_buf_finish(&notes);
}

TEST(rows_that_have_no_whole_blocks_keep_sixteen_bits)
{
    struct dt_shape odd = llama;
    struct dt_err err = {0};
    struct dt_buf notes = {0};
    odd.inner = 40;
    saved_make(at("model"), &odd, DT_BF16, value_of);
    const struct dt_export_options o = {
        .model = at("model"), .out = at("odd.gguf"), .type = DT_EXPORT_Q8_0};
    CHECK_OK(dt_export_gguf(&o, &notes, &err), err);
    CHECK_STR(dt_buf_cstr(&notes), "2 of 21 tensors are F16: their rows are no multiple of 32\n");
    dt_buf_finish(&notes);
}

TEST(a_tensor_without_a_place_is_refused)
{
    struct dt_tensor t = {
        .name = "model.layers.0.self_attn.q_norm.weight", .rank = 1, .dims = {8, 1}};
    struct dt_gguf_tensor out;
    struct dt_err err = {0};
    const enum dt_gguf_type type = DT_GGUF_F32;
    CHECK(dt_gguf_model_tensors(&llama, &t, 1, &type, &out, &err) < 0);
    CHECK(strstr(err.text, "q_norm.weight has no place in a GGUF") != NULL);
}

/* -- tokenizers ------------------------------------------------------------------------------- */

static void read_vocab(struct dt_gguf *g, struct file *f)
{
    *f = (struct file){0};
    dt_gguf_put_head(g, &f->bytes);
    CHECK(!f->bytes.bad);
    read_head(f);
    dt_gguf_finish(g);
}

static const char *folder_of(const char *family)
{
    struct dt_err err = {0};
    struct dt_buf text = {0};
    char path[600];
    const char *folder = at(family);
    CHECK_OK(dt_fs_mkdir_p(folder, 0755, &err), err);
    snprintf(path, sizeof path, "%s/%s.json", DT_TOKENIZERS_DIR, family);
    CHECK_OK(dt_fs_read(path, (size_t)64 << 20, &text, &err), err);
    saved_write(folder, "tokenizer.json", &text);
    dt_buf_finish(&text);
    return folder;
}

TEST(tokenizers_have_the_names_that_llama_cpp_knows)
{
    static const struct {
        const char *family, *model, *pre;
        int add_space; /* -1: not told */
        bool add_bos;
    } rows[] = {
        {"gpt2", "gpt2", "gpt-2", -1, false},     {"llama3", "gpt2", "llama-bpe", -1, true},
        {"qwen2", "gpt2", "qwen2", -1, false},    {"tekken", "gpt2", "tekken", -1, true},
        {"smollm", "gpt2", "smollm", -1, false},  {"llama2", "llama", "default", 1, true},
        {"mistral", "llama", "default", 1, true}, {"gemma", "llama", "default", 0, true},
    };
    const struct dt_shape s = {.vocabulary = 900};
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_gguf g = {0};
        struct dt_err err = {0};
        struct file f;
        CHECK_ROW("%s", rows[i].family);
        CHECK_OK(dt_gguf_put_vocab(&g, folder_of(rows[i].family), &s, &err), err);
        read_vocab(&g, &f);
        CHECK_STR(text_of(&f, "tokenizer.ggml.model", 0), rows[i].model);
        CHECK_STR(text_of(&f, "tokenizer.ggml.pre", 0), rows[i].pre);
        CHECK_EQ(flag_of(&f, "tokenizer.ggml.add_bos_token"), rows[i].add_bos);
        CHECK_EQ(find(&f, "tokenizer.ggml.tokens")->count, 900);
        CHECK_EQ(find(&f, "tokenizer.ggml.token_type")->count, 900);
        CHECK_STR(text_of(&f, "tokenizer.ggml.tokens", 899), "[PAD899]");
        CHECK_EQ(word_of(&f, "tokenizer.ggml.token_type", 899), 5);
        CHECK_EQ(find(&f, "tokenizer.ggml.scores") != NULL, rows[i].add_space >= 0);
        CHECK_EQ(find(&f, "tokenizer.ggml.merges") != NULL, rows[i].add_space < 0);
        if (rows[i].add_space >= 0)
            CHECK_EQ(flag_of(&f, "tokenizer.ggml.add_space_prefix"), rows[i].add_space);
        dt_buf_finish(&f.bytes);
    }
}

TEST(tokens_of_bytes_and_merges_have_their_types_and_scores)
{
    const struct dt_shape s = {.vocabulary = 808, .eos = {1, {2}}};
    struct dt_gguf g = {0};
    struct dt_err err = {0};
    struct file f;
    CHECK_OK(dt_gguf_put_vocab(&g, folder_of("llama2"), &s, &err), err);
    read_vocab(&g, &f);
    CHECK_STR(text_of(&f, "tokenizer.ggml.tokens", 0), "<unk>");
    CHECK_EQ(word_of(&f, "tokenizer.ggml.token_type", 0), 2);
    CHECK_EQ(word_of(&f, "tokenizer.ggml.token_type", 1), 3);
    CHECK_EQ(number_of(&f, "tokenizer.ggml.bos_token_id"), 1);
    CHECK_EQ(number_of(&f, "tokenizer.ggml.eos_token_id"), 2);
    CHECK_STR(text_of(&f, "tokenizer.ggml.tokens", 3), "<0x00>");
    CHECK_EQ(word_of(&f, "tokenizer.ggml.token_type", 3), 6);
    /* The first merge makes two blanks, the second four. */
    CHECK_STR(text_of(&f, "tokenizer.ggml.tokens", 794), "\xe2\x96\x81\xe2\x96\x81");
    CHECK(dt_bits_float(word_of(&f, "tokenizer.ggml.scores", 794)) == 0);
    CHECK(dt_bits_float(word_of(&f, "tokenizer.ggml.scores", 796)) == -1);
    CHECK(dt_bits_float(word_of(&f, "tokenizer.ggml.scores", 1)) < -1e5f);
    dt_buf_finish(&f.bytes);
}

TEST(merges_and_special_tokens_of_bytes_are_told)
{
    const struct dt_shape s = {.vocabulary = 700, .pad = {1, {0}}};
    struct dt_gguf g = {0};
    struct dt_err err = {0};
    struct file f;
    struct dt_buf text = {0};
    const char *folder = folder_of("llama3");
    dt_buf_put_str(&text, "{\"eos_token\": \"<|im_end|>\", \"chat_template\": \"{{ a }}\"}");
    saved_write(folder, "tokenizer_config.json", &text);
    CHECK_OK(dt_gguf_put_vocab(&g, folder, &s, &err), err);
    read_vocab(&g, &f);
    uint32_t end = number_of(&f, "tokenizer.ggml.eos_token_id");
    CHECK_STR(text_of(&f, "tokenizer.ggml.tokens", end), "<|im_end|>");
    CHECK_EQ(word_of(&f, "tokenizer.ggml.token_type", end), 3);
    CHECK_EQ(number_of(&f, "tokenizer.ggml.padding_token_id"), 0);
    CHECK_STR(text_of(&f, "tokenizer.ggml.merges", 0), "\xc4\xa0 \xc4\xa0");
    CHECK_STR(text_of(&f, "tokenizer.chat_template", 0), "{{ a }}");
    dt_buf_finish(&f.bytes);
    dt_buf_finish(&text);
}

TEST(a_model_of_bytes_has_the_alphabet_for_tokenizer)
{
    struct file f;
    export(&gpt2, DT_EXPORT_F32, &f);
    CHECK_STR(text_of(&f, "tokenizer.ggml.model", 0), "gpt2");
    CHECK_STR(text_of(&f, "tokenizer.ggml.tokens", 'a'), "a");
    CHECK_STR(text_of(&f, "tokenizer.ggml.tokens", ' '), "\xc4\xa0");
    CHECK_STR(text_of(&f, "tokenizer.ggml.tokens", 0xad), "\xc5\x83");
    CHECK_STR(text_of(&f, "tokenizer.ggml.tokens", 0xff), "\xc3\xbf");
    CHECK_STR(text_of(&f, "tokenizer.ggml.tokens", 256), "<|end|>");
    CHECK_EQ(word_of(&f, "tokenizer.ggml.token_type", 255), 1);
    CHECK_EQ(word_of(&f, "tokenizer.ggml.token_type", 256), 3);
    CHECK_EQ(word_of(&f, "tokenizer.ggml.token_type", 257), 5);
    CHECK_EQ(find(&f, "tokenizer.ggml.merges")->count, 0);
    CHECK_EQ(number_of(&f, "tokenizer.ggml.eos_token_id"), 256);
    dt_buf_finish(&f.bytes);
}

TEST(what_llama_cpp_would_cut_otherwise_is_refused)
{
    const struct dt_shape s = {.vocabulary = 900}, small = {.vocabulary = 300};
    struct dt_gguf g = {0};
    struct dt_err err = {0};
    CHECK(dt_gguf_put_vocab(&g, folder_of("removed"), &s, &err) < 0);
    CHECK(strstr(err.text, "removed/tokenizer.json: pre_tokenizer: llama.cpp has no name") != NULL);
    CHECK(dt_gguf_put_vocab(&g, folder_of("gpt2"), &small, &err) < 0);
    CHECK(strstr(err.text, "it is another model's") != NULL);
    CHECK(dt_gguf_put_vocab(&g, at("nowhere"), &s, &err) < 0);
    dt_gguf_finish(&g);
}
