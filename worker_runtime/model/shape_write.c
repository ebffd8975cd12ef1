/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/inside.h"

#include "base/json_write.h"

#include <stdio.h>
#include <stdlib.h>

/* The shortest decimal that is read as this float: 1e-05, and not 9.99999975e-06. */
void dt_shape_put_float(struct dt_json_writer *w, const char *name, float x)
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

static void put_key(struct dt_json_writer *w, const struct dt_shape_key *k, const void *at)
{
    switch (k->kind) {
    case DT_SHAPE_COUNT:
        dt_json_put_uint(w, k->name, *(const size_t *)at);
        break;
    case DT_SHAPE_REAL:
        dt_shape_put_float(w, k->name, *(const float *)at);
        break;
    case DT_SHAPE_MORE:
        if (*(const float *)at > 0)
            dt_shape_put_float(w, k->name, *(const float *)at);
        break;
    case DT_SHAPE_CAP:
        if (*(const float *)at > 0)
            dt_shape_put_float(w, k->name, *(const float *)at);
        else
            dt_json_put_null(w, k->name);
        break;
    case DT_SHAPE_FLAG:
        dt_json_put_bool(w, k->name, *(const bool *)at);
        break;
    case DT_SHAPE_WORD:
        dt_json_put_text(w, k->name, k->word);
        break;
    case DT_SHAPE_TOKENS:
        put_tokens(w, k->name, at);
        break;
    case DT_SHAPE_DROPOUT:
        if (*(const float *)at > 0)
            dt_shape_put_float(w, k->name, *(const float *)at);
        else
            dt_json_put_raw(w, k->name, "0.0");
        break;
    case DT_SHAPE_TRUE:
    case DT_SHAPE_FALSE:
        dt_json_put_bool(w, k->name, k->kind == DT_SHAPE_TRUE);
        break;
    case DT_SHAPE_ROPE:
        dt_shape_put_rope(w, k->name, at);
        break;
    case DT_SHAPE_OFF:
    case DT_SHAPE_STORAGE:
    case DT_SHAPE_ROPE_TOO:
    case DT_SHAPE_WINDOW:
    case DT_SHAPE_IDLE:
        break; /* what we leave out means the same */
    }
}

static void put_keys(struct dt_json_writer *w, const struct dt_shape *s, struct dt_shape_keys keys)
{
    for (size_t i = 0; i < keys.count; i++)
        put_key(w, &keys.keys[i], (const char *)s + keys.keys[i].at);
}

static const char *type_name(enum dt_dtype type)
{
    return type == DT_BF16 ? "bfloat16" : type == DT_F16 ? "float16" : "float32";
}

/* As transformers writes it for weights that bitsandbytes has packed. */
static void put_nf4(struct dt_json_writer *w, enum dt_dtype type)
{
    dt_json_put_object(w, "quantization_config");
    dt_json_put_text(w, "bnb_4bit_compute_dtype", type_name(type));
    dt_json_put_text(w, "bnb_4bit_quant_storage", "uint8");
    dt_json_put_text(w, "bnb_4bit_quant_type", "nf4");
    dt_json_put_bool(w, "bnb_4bit_use_double_quant", true);
    dt_json_put_bool(w, "load_in_4bit", true);
    dt_json_put_bool(w, "load_in_8bit", false);
    dt_json_put_text(w, "quant_method", "bitsandbytes");
    dt_json_put_end(w);
}

static void write_shape(const struct dt_shape *s, enum dt_dtype type, bool nf4, struct dt_buf *out)
{
    const struct dt_shape_family *family = dt_shape_family(s->family);
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED, .lines = 1};
    dt_json_put_object(&w, NULL);
    dt_json_put_array(&w, "architectures");
    dt_json_put_text(&w, NULL, family->architecture);
    dt_json_put_end(&w);
    dt_json_put_text(&w, "model_type", family->model_type);
    put_keys(&w, s, family->keys[0]);
    put_keys(&w, s, family->keys[1]);
    dt_shape_put_window(&w, s);
    put_keys(&w, s, dt_shape_token_keys);
    if (nf4)
        put_nf4(&w, type);
    dt_json_put_text(&w, "torch_dtype", type_name(type));
    dt_json_put_end(&w);
    dt_buf_put_u8(out, '\n');
}

void dt_shape_write(const struct dt_shape *s, enum dt_dtype type, struct dt_buf *out)
{
    write_shape(s, type, false, out);
}

void dt_shape_write_nf4(const struct dt_shape *s, enum dt_dtype type, struct dt_buf *out)
{
    write_shape(s, type, true, out);
}
