/* SPDX-License-Identifier: Apache-2.0 */
/* A config.json is read by a table per family: each key Hugging Face writes is a row that says
 * where its value goes, what it has to be, or that it changes nothing in training. Files of the hub
 * have keys of other programs, too: one without a row is noted and left alone, unless its name is
 * nearly that of a row, which is a slip of the pen. */
#include "worker_runtime/model/shape.h"

#include "base/json.h"
#include "base/json_write.h"
#include "base/str.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))
#define NAMES_SHOWN 8

/* The largest model these allow has fewer than 2^57 parameters: their bytes, with gradients and
 * optimizer state, still fit in 64 bits. */
#define HEADS_MOST 4096
#define HEAD_DIM_MOST 4096
#define WIDTH_MOST (1 << 18)
#define INNER_MOST (1 << 20)
#define POSITIONS_MOST (1 << 24)
#define VOCABULARY_MOST (1 << 28)

enum kind {
    COUNT,   /* 1 to .most, into the size_t at .at; null is as if not written */
    REAL,    /* 0 to .most, into the float at .at */
    FLAG,    /* into the bool at .at */
    TRUE,    /* only true is ours */
    FALSE,   /* only false is */
    WORD,    /* only .word is */
    DROPOUT, /* noted above 0; there is none here */
    OFF,     /* changes the arithmetic, unless it is null, false, empty, or the number .most */
    TOKENS,  /* a token or a list of tokens, into the dt_token_ids at .at; -1: none */
    ROPE,    /* only plain rotation is */
    IDLE,    /* changes nothing in training */
};

struct key {
    const char *name;
    enum kind kind;
    size_t at;
    double most;
    const char *word;
};

#define AT(field) offsetof(struct dt_shape, field)

/* clang-format off */
static const struct key gpt2_keys[] = {
    {"model_type", .kind = WORD, .word = "gpt2"},
    {"n_layer", .kind = COUNT, .at = AT(layers), .most = DT_LAYERS_MOST},
    {"n_head", .kind = COUNT, .at = AT(heads), .most = HEADS_MOST},
    {"n_embd", .kind = COUNT, .at = AT(width), .most = WIDTH_MOST},
    {"n_inner", .kind = COUNT, .at = AT(inner), .most = INNER_MOST},
    {"n_ctx", .kind = COUNT, .at = AT(positions), .most = POSITIONS_MOST}, /* the old name; the next one counts more */
    {"n_positions", .kind = COUNT, .at = AT(positions), .most = POSITIONS_MOST},
    {"vocab_size", .kind = COUNT, .at = AT(vocabulary), .most = VOCABULARY_MOST},
    {"layer_norm_epsilon", .kind = REAL, .at = AT(norm_eps), .most = 1},
    {"initializer_range", .kind = REAL, .at = AT(init_std), .most = 1},
    {"tie_word_embeddings", .kind = FLAG, .at = AT(tied)},
    {"activation_function", .kind = WORD, .word = "gelu_new"},
    {"resid_pdrop", .kind = DROPOUT},
    {"embd_pdrop", .kind = DROPOUT},
    {"attn_pdrop", .kind = DROPOUT},
    {"scale_attn_weights", .kind = TRUE},
    {"scale_attn_by_inverse_layer_idx", .kind = FALSE},
    {"add_cross_attention", .kind = FALSE},
    {"reorder_and_upcast_attn", .kind = IDLE},
    {"summary_activation", .kind = IDLE},
    {"summary_first_dropout", .kind = IDLE},
    {"summary_proj_to_labels", .kind = IDLE},
    {"summary_type", .kind = IDLE},
    {"summary_use_proj", .kind = IDLE},
    {"rotary_dim", .kind = OFF},
    {"multi_query", .kind = OFF},
};

static const struct key llama_keys[] = {
    {"model_type", .kind = WORD, .word = "llama"},
    {"num_hidden_layers", .kind = COUNT, .at = AT(layers), .most = DT_LAYERS_MOST},
    {"num_attention_heads", .kind = COUNT, .at = AT(heads), .most = HEADS_MOST},
    {"num_key_value_heads", .kind = COUNT, .at = AT(kv_heads), .most = HEADS_MOST},
    {"head_dim", .kind = COUNT, .at = AT(head_dim), .most = HEAD_DIM_MOST},
    {"hidden_size", .kind = COUNT, .at = AT(width), .most = WIDTH_MOST},
    {"intermediate_size", .kind = COUNT, .at = AT(inner), .most = INNER_MOST},
    {"max_position_embeddings", .kind = COUNT, .at = AT(positions), .most = POSITIONS_MOST},
    {"vocab_size", .kind = COUNT, .at = AT(vocabulary), .most = VOCABULARY_MOST},
    {"rms_norm_eps", .kind = REAL, .at = AT(norm_eps), .most = 1},
    {"rope_theta", .kind = REAL, .at = AT(rope_theta), .most = 1e12},
    {"initializer_range", .kind = REAL, .at = AT(init_std), .most = 1},
    {"tie_word_embeddings", .kind = FLAG, .at = AT(tied)},
    {"hidden_act", .kind = WORD, .word = "silu"},
    {"rope_scaling", .kind = ROPE},
    {"rope_parameters", .kind = ROPE}, /* where newer files have the two */
    {"attention_dropout", .kind = DROPOUT},
    {"attention_bias", .kind = FALSE},
    {"mlp_bias", .kind = FALSE},
    {"pretraining_tp", .kind = IDLE},
    {"max_sequence_length", .kind = IDLE},
    {"rope_interleaved", .kind = OFF},
    {"partial_rotary_factor", .kind = OFF, .most = 1},
    {"no_rope_layers", .kind = OFF},
    {"qk_norm", .kind = OFF},
    {"use_qk_norm", .kind = OFF},
    {"clip_qkv", .kind = OFF},
    {"qkv_bias", .kind = OFF},
    {"attention_multiplier", .kind = OFF},
    {"embedding_multiplier", .kind = OFF, .most = 1},
    {"residual_multiplier", .kind = OFF, .most = 1},
    {"logits_scaling", .kind = OFF, .most = 1},
    {"logit_scale", .kind = OFF, .most = 1},
    {"attn_logit_softcapping", .kind = OFF},
    {"final_logit_softcapping", .kind = OFF},
    {"num_experts", .kind = OFF},
    {"num_local_experts", .kind = OFF},
    {"n_routed_experts", .kind = OFF},
};

static const struct key common_keys[] = {
    {"_name_or_path", .kind = IDLE},
    {"_attn_implementation_autoset", .kind = IDLE},
    {"architectures", .kind = IDLE},
    {"alibi", .kind = OFF},
    {"layer_types", .kind = OFF},
    {"quantization_config", .kind = OFF},
    {"sliding_window", .kind = OFF},
    {"use_parallel_residual", .kind = OFF},
    {"use_sliding_window", .kind = OFF},
    {"cls_token_id", .kind = IDLE},
    {"decoder_start_token_id", .kind = IDLE},
    {"mask_token_id", .kind = IDLE},
    {"sep_token_id", .kind = IDLE},
    {"unk_token_id", .kind = IDLE},
    {"dtype", .kind = IDLE},
    {"torch_dtype", .kind = IDLE},
    {"gradient_checkpointing", .kind = IDLE},
    {"id2label", .kind = IDLE},
    {"label2id", .kind = IDLE},
    {"num_labels", .kind = IDLE},
    {"output_past", .kind = IDLE},
    {"task_specific_params", .kind = IDLE},
    {"transformers_version", .kind = IDLE},
    {"use_cache", .kind = IDLE},
};

static const struct key token_keys[] = {
    {"bos_token_id", .kind = TOKENS, .at = AT(bos)},
    {"eos_token_id", .kind = TOKENS, .at = AT(eos)},
    {"pad_token_id", .kind = TOKENS, .at = AT(pad)},
};
/* clang-format on */

/* Names that are said in one sentence. */
struct names {
    size_t count;
    struct dt_buf text; /* the first of them */
};

struct reading {
    struct dt_shape *shape;
    const struct dt_json *doc;
    const struct cJSON *object;
    struct names *dropouts, *unknown;
    struct dt_err *err;
};

static void add_name(struct names *n, const char *name)
{
    char text[64];
    if (n->count++ < NAMES_SHOWN)
        dt_buf_printf(&n->text, "%s%s", n->text.len ? ", " : "",
                      dt_str_printable(dt_bytes_of(name), text, sizeof text));
}

/* "model.config.NAME: WHY" */
static int refuse(const struct reading *r, const char *name, const char *why)
{
    char path[200];
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(r->object, name);
    return dt_err_set(r->err, DT_E_USAGE, "%s: %s", dt_json_path(r->doc, v, path, sizeof path),
                      why);
}

static int read_count(const struct reading *r, const struct key *k, size_t *out)
{
    int64_t n;
    if (dt_json_int(r->doc, r->object, k->name, 1, (int64_t)k->most, &n, r->err) < 0)
        return -1;
    *out = (size_t)n;
    return 0;
}

static int read_real(const struct reading *r, const char *name, double most, float *out)
{
    double x;
    if (dt_json_number(r->doc, r->object, name, &x, r->err) < 0)
        return -1;
    char why[80];
    snprintf(why, sizeof why, "expected a number from 0 to %g, found %g", most, x);
    if (x < 0 || x > most)
        return refuse(r, name, why);
    *out = (float)x;
    return 0;
}

static int read_word(const struct reading *r, const struct key *k)
{
    const char *word;
    char why[80];
    if (dt_json_string(r->doc, r->object, k->name, &word, r->err) < 0)
        return -1;
    snprintf(why, sizeof why, "only \"%s\" is implemented", k->word);
    return strcmp(word, k->word) == 0 ? 0 : refuse(r, k->name, why);
}

static int read_fixed(const struct reading *r, const char *name, bool only)
{
    bool is;
    if (dt_json_bool(r->doc, r->object, name, &is, r->err) < 0)
        return -1;
    return is == only
               ? 0
               : refuse(r, name, only ? "only true is implemented" : "only false is implemented");
}

static int read_dropout(const struct reading *r, const char *name)
{
    float x;
    if (read_real(r, name, 1, &x) < 0)
        return -1;
    if (x > 0)
        add_name(r->dropouts, name);
    return 0;
}

static int read_off(const struct reading *r, const struct key *k)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(r->object, k->name);
    bool off = cJSON_IsFalse(v);
    if (cJSON_IsNumber(v))
        off = v->valuedouble == k->most;
    else if (cJSON_IsArray(v) || cJSON_IsObject(v))
        off = !v->child;
    return off ? 0 : refuse(r, k->name, "it changes what a model computes, and is not implemented");
}

static int read_token(const struct reading *r, const char *name, const struct cJSON *v,
                      struct dt_token_ids *out)
{
    double id = cJSON_IsNumber(v) ? v->valuedouble : -2;
    if (id != (double)(int32_t)id || id < -1)
        return refuse(r, name, "expected a token's number, or a list of them");
    if (id < 0)
        return 0;
    if (out->count == DT_TOKEN_IDS_MOST)
        return refuse(r, name, "there are more tokens in it than are taken");
    out->id[out->count++] = (int32_t)id;
    return 0;
}

static int read_tokens(const struct reading *r, const char *name, struct dt_token_ids *out)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(r->object, name);
    if (!cJSON_IsArray(v))
        return read_token(r, name, v, out);
    for (const struct cJSON *one = v->child; one; one = one->next)
        if (read_token(r, name, one, out) < 0)
            return -1;
    return 0;
}

/* { "rope_type": "default" }, with "rope_theta" in newer files; older ones call it "type". */
static int read_rope(const struct reading *r, const char *name)
{
    static const char *const known[] = {"rope_type", "type", "rope_theta", NULL};
    static const struct key type[] = {{"rope_type", .kind = WORD, .word = "default"},
                                      {"type", .kind = WORD, .word = "default"}};
    struct reading inner = *r;
    if (dt_json_object(r->doc, r->object, name, &inner.object, r->err) < 0)
        return -1;
    for (size_t i = 0; i < ROWS(type); i++)
        if (dt_json_has(inner.object, type[i].name) && read_word(&inner, &type[i]) < 0)
            return -1;
    if (dt_json_only(r->doc, inner.object, known, r->err) < 0)
        return -1;
    if (!dt_json_has(inner.object, "rope_theta"))
        return 0;
    return read_real(&inner, "rope_theta", 1e12, &r->shape->rope_theta);
}

static int read_key(const struct reading *r, const struct key *k)
{
    void *at = (char *)r->shape + k->at;
    if (!dt_json_has(r->object, k->name))
        return 0;
    switch (k->kind) {
    case COUNT:
        return read_count(r, k, at);
    case REAL:
        return read_real(r, k->name, k->most, at);
    case FLAG:
        return dt_json_bool(r->doc, r->object, k->name, at, r->err);
    case TRUE:
    case FALSE:
        return read_fixed(r, k->name, k->kind == TRUE);
    case WORD:
        return read_word(r, k);
    case DROPOUT:
        return read_dropout(r, k->name);
    case ROPE:
        return read_rope(r, k->name);
    case OFF:
        return read_off(r, k);
    case TOKENS:
        return read_tokens(r, k->name, at);
    case IDLE:
        return 0;
    }
    return 0;
}

struct table {
    const struct key *keys;
    size_t count;
};

/* A name without a row. */
static int pass_over(const struct reading *r, const char *name, const struct table *tables,
                     size_t count)
{
    size_t best = dt_str_slip(name);
    const char *meant = NULL;
    char why[120];
    for (const struct table *t = tables; t < tables + count; t++)
        for (const struct key *k = t->keys; k < t->keys + t->count; k++) {
            size_t far = dt_str_distance(name, k->name);
            if (far == 0)
                return 0;
            if (far <= best) {
                best = far - 1;
                meant = k->name;
            }
        }
    if (!meant) {
        add_name(r->unknown, name);
        return 0;
    }
    snprintf(why, sizeof why, "there is no such setting; did you mean %s?", meant);
    return refuse(r, name, why);
}

static int read_keys(const struct reading *r, const struct key *keys, size_t count)
{
    const struct table tables[] = {
        {keys, count}, {common_keys, ROWS(common_keys)}, {token_keys, ROWS(token_keys)}};
    for (const struct cJSON *v = r->object->child; v; v = v->next)
        if (!cJSON_IsNull(v) && pass_over(r, v->string, tables, ROWS(tables)) < 0)
            return -1;
    for (const struct table *t = tables; t < tables + ROWS(tables); t++)
        for (const struct key *k = t->keys; k < t->keys + t->count; k++)
            if (read_key(r, k) < 0)
                return -1;
    return 0;
}

static int missing(const struct reading *r, const char *name)
{
    char path[200];
    return dt_err_set(r->err, DT_E_USAGE, "%s: \"%s\" is missing",
                      dt_json_path(r->doc, r->object, path, sizeof path), name);
}

static int whole(const struct reading *r, const char *what, size_t a, const char *by, size_t b)
{
    char path[200];
    if (a % b == 0)
        return 0;
    return dt_err_set(r->err, DT_E_USAGE, "%s: %s %zu is no multiple of %s %zu",
                      dt_json_path(r->doc, r->object, path, sizeof path), what, a, by, b);
}

static int read_gpt2(const struct reading *r)
{
    struct dt_shape *s = r->shape;
    *s = (struct dt_shape){.family = DT_GPT2, .norm_eps = 1e-5f, .init_std = 0.02f, .tied = true};
    if (read_keys(r, gpt2_keys, ROWS(gpt2_keys)) < 0)
        return -1;
    if (!s->layers || !s->heads || !s->width || !s->positions || !s->vocabulary)
        return missing(r, !s->layers      ? "n_layer"
                          : !s->heads     ? "n_head"
                          : !s->width     ? "n_embd"
                          : !s->positions ? "n_positions"
                                          : "vocab_size");
    if (whole(r, "n_embd", s->width, "n_head", s->heads) < 0)
        return -1;
    s->kv_heads = s->heads;
    s->head_dim = s->width / s->heads;
    s->inner = s->inner ? s->inner : 4 * s->width;
    return 0;
}

static int read_llama(const struct reading *r)
{
    struct dt_shape *s = r->shape;
    *s = (struct dt_shape){
        .family = DT_LLAMA, .norm_eps = 1e-6f, .rope_theta = 10000, .init_std = 0.02f};
    if (read_keys(r, llama_keys, ROWS(llama_keys)) < 0)
        return -1;
    if (!s->layers || !s->heads || !s->width || !s->inner || !s->positions || !s->vocabulary)
        return missing(r, !s->layers      ? "num_hidden_layers"
                          : !s->heads     ? "num_attention_heads"
                          : !s->width     ? "hidden_size"
                          : !s->inner     ? "intermediate_size"
                          : !s->positions ? "max_position_embeddings"
                                          : "vocab_size");
    s->kv_heads = s->kv_heads ? s->kv_heads : s->heads;
    if (!s->head_dim && whole(r, "hidden_size", s->width, "num_attention_heads", s->heads) < 0)
        return -1;
    s->head_dim = s->head_dim ? s->head_dim : s->width / s->heads;
    if (whole(r, "num_attention_heads", s->heads, "num_key_value_heads", s->kv_heads) < 0)
        return -1;
    if (s->rope_theta < 1)
        return refuse(r, "rope_theta", "rotation needs a base of 1 or more");
    /* Rotation turns pairs. */
    return whole(r, "head_dim", s->head_dim, "a pair,", 2);
}

static int read_family(const struct reading *r)
{
    const char *family;
    if (dt_json_string(r->doc, r->object, "model_type", &family, r->err) < 0)
        return -1;
    if (strcmp(family, "gpt2") == 0)
        return read_gpt2(r);
    if (strcmp(family, "llama") == 0)
        return read_llama(r);
    return refuse(r, "model_type", "only \"gpt2\" and \"llama\" are implemented");
}

static void note(struct dt_buf *notes, struct names *n, const char *one, const char *many)
{
    if (!notes || !n->count)
        return;
    dt_buf_printf(notes, "%s", dt_buf_cstr(&n->text));
    if (n->count > NAMES_SHOWN)
        dt_buf_printf(notes, " and %zu more", n->count - NAMES_SHOWN);
    dt_buf_printf(notes, " %s\n", n->count == 1 ? one : many);
}

int dt_shape_read(struct dt_shape *s, const struct dt_json *doc, const struct cJSON *object,
                  struct dt_buf *notes, struct dt_err *err)
{
    struct names dropouts = {0}, unknown = {0};
    const struct reading r = {s, doc, object ? object : doc->root, &dropouts, &unknown, err};
    int rc = read_family(&r);
    if (rc == 0) {
        note(notes, &dropouts, "is above 0; dropout is not implemented, and training goes without",
             "are above 0; dropout is not implemented, and training goes without");
        note(notes, &unknown, "is not a known setting, and is ignored",
             "are not known settings, and are ignored");
    }
    dt_buf_finish(&dropouts.text);
    dt_buf_finish(&unknown.text);
    return rc;
}

/* The shortest decimal that is read as this float: 1e-05, and not 9.99999975e-06. */
static void put_float(struct dt_json_writer *w, const char *name, float x)
{
    char text[32];
    int digits = 1;
    do
        snprintf(text, sizeof text, "%.*g", digits++, (double)x);
    while (digits <= 9 && strtof(text, NULL) != x);
    dt_json_put_raw(w, name, "%s", text);
}

/* One as a number, several as a list, none not at all. */
static void put_tokens(struct dt_json_writer *w, const char *name, const struct dt_token_ids *t)
{
    if (t->count == 0)
        return;
    if (t->count > 1)
        dt_json_put_array(w, name);
    for (int i = 0; i < t->count; i++)
        dt_json_put_int(w, t->count > 1 ? NULL : name, t->id[i]);
    if (t->count > 1)
        dt_json_put_end(w);
}

static void put_key(struct dt_json_writer *w, const struct key *k, const void *at)
{
    switch (k->kind) {
    case COUNT:
        dt_json_put_uint(w, k->name, *(const size_t *)at);
        break;
    case REAL:
        put_float(w, k->name, *(const float *)at);
        break;
    case FLAG:
        dt_json_put_bool(w, k->name, *(const bool *)at);
        break;
    case WORD:
        dt_json_put_text(w, k->name, k->word);
        break;
    case TOKENS:
        put_tokens(w, k->name, at);
        break;
    case DROPOUT:
        dt_json_put_raw(w, k->name, "0.0");
        break;
    case TRUE:
    case FALSE:
        dt_json_put_bool(w, k->name, k->kind == TRUE);
        break;
    case OFF:
    case ROPE:
    case IDLE:
        break; /* what we leave out means the same */
    }
}

static void put_keys(struct dt_json_writer *w, const struct dt_shape *s, const struct key *keys,
                     size_t count)
{
    for (const struct key *k = keys; k < keys + count; k++)
        put_key(w, k, (const char *)s + k->at);
}

void dt_shape_write(const struct dt_shape *s, enum dt_dtype type, struct dt_buf *out)
{
    bool gpt2 = s->family == DT_GPT2;
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED, .lines = 1};
    dt_json_put_object(&w, NULL);
    dt_json_put_array(&w, "architectures");
    dt_json_put_text(&w, NULL, gpt2 ? "GPT2LMHeadModel" : "LlamaForCausalLM");
    dt_json_put_end(&w);
    if (gpt2)
        put_keys(&w, s, gpt2_keys, ROWS(gpt2_keys));
    else
        put_keys(&w, s, llama_keys, ROWS(llama_keys));
    put_keys(&w, s, token_keys, ROWS(token_keys));
    dt_json_put_text(&w, "torch_dtype",
                     type == DT_BF16  ? "bfloat16"
                     : type == DT_F16 ? "float16"
                                      : "float32");
    dt_json_put_end(&w);
    dt_buf_put_u8(out, '\n');
}
