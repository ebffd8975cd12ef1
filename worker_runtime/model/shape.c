/* SPDX-License-Identifier: Apache-2.0 */
/* A config.json is read by a table per family: each key Hugging Face writes is a row that says
 * where its value goes, what it has to be, or that it changes nothing in training. Files of the hub
 * have keys of other programs, too: one without a row is noted and left alone, unless its name is
 * nearly that of a row, which is a slip of the pen. */
#include "worker_runtime/model/inside.h"

#include "base/json.h"
#include "base/str.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#define NAMES_SHOWN 8

static void add_name(struct dt_shape_names *n, const char *name)
{
    char text[64];
    if (n->count++ < NAMES_SHOWN)
        dt_buf_printf(&n->text, "%s%s", n->text.len ? ", " : "",
                      dt_str_printable(dt_bytes_of(name), text, sizeof text));
}

/* "model.config.NAME: WHY" */
int dt_shape_refuse(const struct dt_shape_reading *r, const char *name, const char *why)
{
    char path[200];
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(r->object, name);
    return dt_err_set(r->err, DT_E_USAGE, "%s: %s", dt_json_path(r->doc, v, path, sizeof path),
                      why);
}

static int read_count(const struct dt_shape_reading *r, const struct dt_shape_key *k, size_t *out)
{
    int64_t n;
    if (dt_json_int(r->doc, r->object, k->name, 1, (int64_t)k->most, &n, r->err) < 0)
        return -1;
    *out = (size_t)n;
    return 0;
}

int dt_shape_read_real(const struct dt_shape_reading *r, const char *name, double most, float *out)
{
    double x;
    if (dt_json_number(r->doc, r->object, name, &x, r->err) < 0)
        return -1;
    char why[80];
    snprintf(why, sizeof why, "expected a number from 0 to %g, found %g", most, x);
    if (x < 0 || x > most)
        return dt_shape_refuse(r, name, why);
    *out = (float)x;
    return 0;
}

static int read_cap(const struct dt_shape_reading *r, const struct dt_shape_key *k, float *out)
{
    if (dt_shape_read_real(r, k->name, k->most, out) < 0)
        return -1;
    return *out > 0 ? 0
                    : dt_shape_refuse(r, k->name, "expected a number above 0, or null for none");
}

static int read_word(const struct dt_shape_reading *r, const struct dt_shape_key *k)
{
    const char *word;
    char why[80];
    if (dt_json_string(r->doc, r->object, k->name, &word, r->err) < 0)
        return -1;
    snprintf(why, sizeof why, "only \"%s\" is implemented", k->word);
    return strcmp(word, k->word) == 0 ? 0 : dt_shape_refuse(r, k->name, why);
}

static int read_fixed(const struct dt_shape_reading *r, const char *name, bool only)
{
    bool is;
    if (dt_json_bool(r->doc, r->object, name, &is, r->err) < 0)
        return -1;
    return is == only
               ? 0
               : dt_shape_refuse(r, name,
                                 only ? "only true is implemented" : "only false is implemented");
}

static int read_off(const struct dt_shape_reading *r, const struct dt_shape_key *k)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(r->object, k->name);
    bool off = cJSON_IsFalse(v);
    if (cJSON_IsNumber(v))
        off = v->valuedouble == k->most;
    else if (cJSON_IsArray(v) || cJSON_IsObject(v))
        off = !v->child;
    return off ? 0
               : dt_shape_refuse(r, k->name,
                                 "it changes what a model computes, and is not implemented");
}

static int read_token(const struct dt_shape_reading *r, const char *name, const struct cJSON *v,
                      struct dt_token_ids *out)
{
    double id = cJSON_IsNumber(v) ? v->valuedouble : -2;
    if (!(id >= -1 && id <= INT32_MAX) || id != (double)(int32_t)id)
        return dt_shape_refuse(r, name, "expected a token's number, or a list of them");
    if (id < 0)
        return 0;
    if (out->count == DT_TOKEN_IDS_MOST)
        return dt_shape_refuse(r, name, "there are more tokens in it than are taken");
    out->id[out->count++] = (int32_t)id;
    return 0;
}

static int read_tokens(const struct dt_shape_reading *r, const char *name, struct dt_token_ids *out)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(r->object, name);
    if (!cJSON_IsArray(v))
        return read_token(r, name, v, out);
    for (const struct cJSON *one = v->child; one; one = one->next)
        if (read_token(r, name, one, out) < 0)
            return -1;
    return 0;
}

static bool is_null(const struct dt_shape_reading *r, const char *name)
{
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(r->object, name));
}

static int read_key(const struct dt_shape_reading *r, const struct dt_shape_key *k)
{
    void *at = (char *)r->shape + k->at;
    if (k->kind == DT_SHAPE_CAP && is_null(r, k->name))
        *(float *)at = 0;
    if (!dt_json_has(r->object, k->name))
        return 0;
    switch (k->kind) {
    case DT_SHAPE_COUNT:
        return read_count(r, k, at);
    case DT_SHAPE_REAL:
    case DT_SHAPE_MORE:
        return dt_shape_read_real(r, k->name, k->most, at);
    case DT_SHAPE_CAP:
        return read_cap(r, k, at);
    case DT_SHAPE_FLAG:
        return dt_json_bool(r->doc, r->object, k->name, at, r->err);
    case DT_SHAPE_TRUE:
    case DT_SHAPE_FALSE:
        return read_fixed(r, k->name, k->kind == DT_SHAPE_TRUE);
    case DT_SHAPE_WORD:
        return read_word(r, k);
    case DT_SHAPE_DROPOUT:
        return dt_shape_read_real(r, k->name, DT_DROPOUT_MOST, at);
    case DT_SHAPE_ROPE:
    case DT_SHAPE_ROPE_TOO:
        return dt_shape_read_rope(r, k->name);
    case DT_SHAPE_OFF:
        return read_off(r, k);
    case DT_SHAPE_TOKENS:
        return read_tokens(r, k->name, at);
    case DT_SHAPE_STORAGE:
        return dt_shape_read_quantized(r, k->name);
    case DT_SHAPE_WINDOW:
    case DT_SHAPE_IDLE:
        return 0;
    }
    return 0;
}

/* A name without a row. */
static int pass_over(const struct dt_shape_reading *r, const char *name,
                     const struct dt_shape_keys *tables, size_t count)
{
    size_t best = dt_str_slip(name);
    const char *meant = NULL;
    char why[120];
    for (const struct dt_shape_keys *t = tables; t < tables + count; t++)
        for (size_t i = 0; i < t->count; i++) {
            size_t far = dt_str_distance(name, t->keys[i].name);
            if (far == 0)
                return 0;
            if (far <= best) {
                best = far - 1;
                meant = t->keys[i].name;
            }
        }
    if (!meant) {
        add_name(r->unknown, name);
        return 0;
    }
    snprintf(why, sizeof why, "there is no such setting; did you mean %s?", meant);
    return dt_shape_refuse(r, name, why);
}

static int read_keys(const struct dt_shape_reading *r)
{
    const struct dt_shape_family *f = dt_shape_family(r->shape->family);
    const struct dt_shape_keys tables[] = {f->keys[0], f->keys[1], dt_shape_common_keys,
                                           dt_shape_token_keys};
    for (const struct cJSON *v = r->object->child; v; v = v->next)
        if (!cJSON_IsNull(v) && pass_over(r, v->string, tables, DT_ROWS(tables)) < 0)
            return -1;
    for (const struct dt_shape_keys *t = tables; t < tables + DT_ROWS(tables); t++)
        for (size_t i = 0; i < t->count; i++)
            if (read_key(r, &t->keys[i]) < 0)
                return -1;
    return 0;
}

int dt_shape_missing(const struct dt_shape_reading *r, const char *name)
{
    char path[200];
    return dt_err_set(r->err, DT_E_USAGE, "%s: \"%s\" is missing",
                      dt_json_path(r->doc, r->object, path, sizeof path), name);
}

static int whole(const struct dt_shape_reading *r, const char *what, size_t a, const char *by,
                 size_t b)
{
    char path[200];
    if (a % b == 0)
        return 0;
    return dt_err_set(r->err, DT_E_USAGE, "%s: %s %zu is no multiple of %s %zu",
                      dt_json_path(r->doc, r->object, path, sizeof path), what, a, by, b);
}

static int settle_gpt2(const struct dt_shape_reading *r)
{
    struct dt_shape *s = r->shape;
    if (!s->layers || !s->heads || !s->width || !s->positions || !s->vocabulary)
        return dt_shape_missing(r, !s->layers      ? "n_layer"
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

/* The row of "head_dim" bounds one that is written; this is for one that follows from the width. */
static int check_head(const struct dt_shape_reading *r)
{
    const struct dt_shape *s = r->shape;
    char path[200];
    if (s->head_dim <= DT_HEAD_DIM_MOST)
        return 0;
    return dt_err_set(r->err, DT_E_USAGE,
                      "%s: hidden_size %zu by num_attention_heads %zu makes heads of %zu numbers; "
                      "at most %d are taken",
                      dt_json_path(r->doc, r->object, path, sizeof path), s->width, s->heads,
                      s->head_dim, DT_HEAD_DIM_MOST);
}

static int settle_rope(const struct dt_shape_reading *r)
{
    struct dt_shape *s = r->shape;
    if (s->rope.kind == DT_ROPE_YARN && s->rope.original < 1)
        s->rope.original = (float)s->positions;
    if (s->rope.kind == DT_ROPE_YARN && s->rope_theta <= 1)
        return dt_shape_refuse(r, "rope_theta", "yarn needs a base above 1");
    if (s->rope_theta < 1)
        return dt_shape_refuse(r, "rope_theta", "rotation needs a base of 1 or more");
    if (dt_shape_family(s->family)->start.local_theta > 0 && s->local_theta < 1)
        return dt_shape_refuse(r, "rope_local_base_freq", "rotation needs a base of 1 or more");
    /* Rotation turns pairs. */
    return whole(r, "head_dim", s->head_dim, "a pair,", 2);
}

static int settle_experts(const struct dt_shape_reading *r)
{
    struct dt_shape *s = r->shape;
    bool mixtral = s->family == DT_MIXTRAL;
    if (mixtral)
        s->expert_inner = s->inner;
    if (!s->experts || !s->expert_picks || !s->expert_inner)
        return dt_shape_missing(r, s->experts && s->expert_picks ? "moe_intermediate_size"
                                   : s->experts                  ? "num_experts_per_tok"
                                   : mixtral                     ? "num_local_experts"
                                                                 : "num_experts");
    if (s->family == DT_QWEN2_MOE && !s->shared_inner)
        return dt_shape_missing(r, "shared_expert_intermediate_size");
    if (s->expert_picks > s->experts)
        return dt_shape_refuse(r, "num_experts_per_tok", "there are fewer experts than that");
    if (s->experts * s->layers > DT_EXPERTS_MOST_OF_ALL)
        return dt_shape_refuse(r, mixtral ? "num_local_experts" : "num_experts",
                               "all layers together have more experts than are taken, 65536");
    return 0;
}

static bool has_experts(const struct dt_shape *s)
{
    return s->family == DT_MIXTRAL || s->family == DT_QWEN2_MOE || s->family == DT_QWEN3_MOE;
}

static int settle_llama(const struct dt_shape_reading *r)
{
    struct dt_shape *s = r->shape;
    if (!s->layers || !s->heads || !s->width || !s->inner || !s->positions || !s->vocabulary)
        return dt_shape_missing(r, !s->layers      ? "num_hidden_layers"
                                   : !s->heads     ? "num_attention_heads"
                                   : !s->width     ? "hidden_size"
                                   : !s->inner     ? "intermediate_size"
                                   : !s->positions ? "max_position_embeddings"
                                                   : "vocab_size");
    /* Only Llama's class knows what it is where it is left out. */
    if (!s->kv_heads && s->family != DT_LLAMA)
        return dt_shape_missing(r, "num_key_value_heads");
    s->kv_heads = s->kv_heads ? s->kv_heads : s->heads;
    if (!s->head_dim && whole(r, "hidden_size", s->width, "num_attention_heads", s->heads) < 0)
        return -1;
    s->head_dim = s->head_dim ? s->head_dim : s->width / s->heads;
    if (check_head(r) < 0 ||
        whole(r, "num_attention_heads", s->heads, "num_key_value_heads", s->kv_heads) < 0)
        return -1;
    if (s->branch_norms && s->query_scalar <= 0)
        return dt_shape_refuse(r, "query_pre_attn_scalar", "expected a number above 0");
    if (has_experts(s) && settle_experts(r) < 0)
        return -1;
    return settle_rope(r) < 0 ? -1 : dt_shape_read_window(r);
}

static int refuse_family(const struct dt_shape_reading *r, const char *model_type)
{
    struct dt_buf why = {0};
    if (strcmp(model_type, "gemma3") == 0)
        return dt_shape_refuse(r, "model_type",
                               "a \"gemma3\" reads images, too, which is not implemented; a folder "
                               "of its language model alone has the model_type \"gemma3_text\"");
    dt_buf_printf(&why, "only ");
    dt_shape_family_names(&why);
    dt_buf_printf(&why, " are implemented");
    dt_shape_refuse(r, "model_type", dt_buf_cstr(&why));
    dt_buf_finish(&why);
    return -1;
}

static int read_family(const struct dt_shape_reading *r)
{
    const char *model_type;
    if (dt_json_string(r->doc, r->object, "model_type", &model_type, r->err) < 0)
        return -1;
    const struct dt_shape_family *family = dt_shape_family_of(model_type);
    if (!family)
        return refuse_family(r, model_type);
    *r->shape = family->start;
    if (read_keys(r) < 0)
        return -1;
    return r->shape->family == DT_GPT2 ? settle_gpt2(r) : settle_llama(r);
}

static void note_unknown(struct dt_buf *notes, struct dt_shape_names *n)
{
    if (!notes || !n->count)
        return;
    dt_buf_printf(notes, "%s", dt_buf_cstr(&n->text));
    if (n->count > NAMES_SHOWN)
        dt_buf_printf(notes, " and %zu more", n->count - NAMES_SHOWN);
    dt_buf_printf(notes, " %s\n",
                  n->count == 1 ? "is not a known setting, and is ignored"
                                : "are not known settings, and are ignored");
}

int dt_shape_read(struct dt_shape *s, const struct dt_json *doc, const struct cJSON *object,
                  struct dt_buf *notes, struct dt_err *err)
{
    struct dt_shape_names unknown = {0};
    const struct dt_shape_reading r = {s, doc, object ? object : doc->root, &unknown, err};
    int rc = read_family(&r);
    if (rc == 0)
        note_unknown(notes, &unknown);
    dt_buf_finish(&unknown.text);
    return rc;
}
