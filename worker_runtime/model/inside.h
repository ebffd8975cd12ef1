/* SPDX-License-Identifier: Apache-2.0 */
/* A config.json as tables: each key Hugging Face writes is a row that says where its value goes,
 * what it has to be, or that it changes nothing in training. What reads and what writes one go
 * through the same rows. */
#ifndef DT_WORKER_RUNTIME_MODEL_INSIDE_H
#define DT_WORKER_RUNTIME_MODEL_INSIDE_H

#include "worker_runtime/model/shape.h"

struct dt_json_writer;

#define DT_ROWS(t) (sizeof(t) / sizeof *(t))
#define DT_ROPE_THETA_MOST 1e12

enum dt_shape_kind {
    DT_SHAPE_COUNT,   /* 1 to .most, into the size_t at .at; null is as if not written */
    DT_SHAPE_REAL,    /* 0 to .most, into the float at .at */
    DT_SHAPE_MORE,    /* the same; written above 0 alone, as most files have none */
    DT_SHAPE_CAP,     /* a real above 0; null is none, and 0 at .at */
    DT_SHAPE_FLAG,    /* into the bool at .at */
    DT_SHAPE_TRUE,    /* only true is ours */
    DT_SHAPE_FALSE,   /* only false is */
    DT_SHAPE_WORD,    /* only .word is */
    DT_SHAPE_DROPOUT, /* 0 to DT_DROPOUT_MOST, into the float at .at */
    DT_SHAPE_OFF, /* changes the arithmetic, unless it is null, false, empty, or the number .most */
    DT_SHAPE_TOKENS,   /* a token or a list of tokens, into the dt_token_ids at .at; -1: none */
    DT_SHAPE_ROPE,     /* how rotary positions are scaled, into the dt_rope_scaling at .at */
    DT_SHAPE_ROPE_TOO, /* the same under a newer name, which is not written */
    DT_SHAPE_STORAGE,  /* how weights are stored: shape_quantized.c */
    DT_SHAPE_WINDOW,   /* which layers have a window: shape_window.c */
    DT_SHAPE_IDLE,     /* changes nothing in training */
};

struct dt_shape_key {
    const char *name;
    enum dt_shape_kind kind;
    size_t at;
    double most;
    const char *word;
};

struct dt_shape_keys {
    const struct dt_shape_key *keys;
    size_t count;
};

/* How a family says which layers have a window: shape_window.c. */
enum dt_window_rule {
    DT_WINDOW_NONE,
    DT_WINDOW_ALWAYS,   /* sliding_window, of all layers */
    DT_WINDOW_IF_SAID,  /* the same; without the key there is none */
    DT_WINDOW_BY_LAYER, /* where use_sliding_window is true, of layers from max_window_layers on */
    DT_WINDOW_IN_TURNS, /* sliding_window, of all layers but each so many'th */
};

struct dt_shape_family {
    const char *model_type, *architecture, *title;
    struct dt_shape start;        /* what a file need not say */
    struct dt_shape_keys keys[2]; /* the block's and the family's; none is empty */
    enum dt_window_rule window;
};

const struct dt_shape_family *dt_shape_family(enum dt_model_family family);
const struct dt_shape_family *dt_shape_family_of(const char *model_type); /* NULL: none */
void dt_shape_family_names(struct dt_buf *out);         /* of all: "\"gpt2\" and \"llama\"" */
extern const struct dt_shape_keys dt_shape_common_keys; /* of all families, and not written */
extern const struct dt_shape_keys dt_shape_token_keys;  /* of all families */

/* Names that are said in one sentence. */
struct dt_shape_names {
    size_t count;
    struct dt_buf text; /* the first of them */
};

/* A config.json on its way into a shape. */
struct dt_shape_reading {
    struct dt_shape *shape;
    const struct dt_json *doc;
    const struct cJSON *object;
    struct dt_shape_names *unknown;
    struct dt_err *err;
};

/* -1 and "model.config.NAME: WHY". */
int dt_shape_refuse(const struct dt_shape_reading *r, const char *name, const char *why);
int dt_shape_missing(const struct dt_shape_reading *r, const char *name);
int dt_shape_read_real(const struct dt_shape_reading *r, const char *name, double most, float *out);
int dt_shape_read_rope(const struct dt_shape_reading *r, const char *name);
int dt_shape_read_quantized(const struct dt_shape_reading *r, const char *name);
int dt_shape_read_window(const struct dt_shape_reading *r); /* once the layers are known */

void dt_shape_put_float(struct dt_json_writer *w, const char *name, float x);
void dt_shape_put_rope(struct dt_json_writer *w, const char *name, const struct dt_rope_scaling *s);
void dt_shape_put_window(struct dt_json_writer *w, const struct dt_shape *s);

#endif
