/* SPDX-License-Identifier: Apache-2.0 */
/* llama.cpp knows two kinds: "gpt2", where characters of tokens stand for bytes, with the merges
 * and the name of a pre-tokenizer; and "llama", where two symbols become one if both are a token,
 * the one with the highest score first. There the score is what the rank of a merge is in the file.
 */
#include "worker_runtime/export/gguf_vocab.h"

#include "base/fs.h"
#include "base/json.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenizer/alphabet.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"
#include "worker_runtime/export/gguf_cuts.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)128 << 20)
#define TEMPLATE_MAX ((size_t)1 << 20)
#define NEVER_MERGED (-1e6f)

enum token_type { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

struct vocab {
    const struct dt_tokenizer *tokenizer; /* NULL: bytes */
    struct dt_json doc;                   /* its file */
    const struct cJSON *model;            /* of it */
    size_t count;                         /* as many as the model has words */
    int32_t *types;
    float *scores;
};

static int open_vocab(struct vocab *v, size_t count, struct dt_err *err)
{
    v->count = count;
    v->types = calloc(count, sizeof *v->types);
    v->scores = calloc(count, sizeof *v->scores);
    if (!v->types || !v->scores)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu tokens", count);
    for (size_t i = 0; i < count; i++) {
        v->types[i] = UNUSED;
        v->scores[i] = NEVER_MERGED;
    }
    return 0;
}

static void close_vocab(struct vocab *v)
{
    dt_json_finish(&v->doc);
    free(v->types);
    free(v->scores);
}

/* NULL: there is no such list. */
static const struct cJSON *first_in(const struct cJSON *list)
{
    return list ? dt_json_first(list) : NULL;
}

/* -- what both kinds have --------------------------------------------------------------------- */

static struct dt_bytes text_of(const struct vocab *v, size_t id, char room[32])
{
    struct dt_bytes text = {NULL, 0};
    if (v->tokenizer)
        text = dt_tokenizer_text(v->tokenizer, (uint32_t)id);
    if (text.len)
        return text;
    snprintf(room, 32, "[PAD%zu]", id);
    return dt_bytes_of(room);
}

static void put_types(struct dt_gguf *g, const struct vocab *v)
{
    dt_gguf_put_array(g, "tokenizer.ggml.token_type", DT_GGUF_I32, v->count);
    for (size_t i = 0; i < v->count; i++)
        dt_gguf_add_i32(g, v->types[i]);
}

static void put_tokens(struct dt_gguf *g, const struct vocab *v)
{
    char room[32];
    dt_gguf_put_array(g, "tokenizer.ggml.tokens", DT_GGUF_TEXT, v->count);
    for (size_t i = 0; i < v->count; i++)
        dt_gguf_add_text(g, text_of(v, i, room));
}

static void put_id(struct dt_gguf *g, const char *key, int64_t id)
{
    if (id >= 0)
        dt_gguf_put_u32(g, key, (uint32_t)id);
}

static int64_t first_of(const struct dt_token_ids *ids)
{
    return ids->count ? ids->id[0] : -1;
}

static void put_ids(struct dt_gguf *g, const struct vocab *v, const struct dt_shape *s)
{
    size_t n;
    const uint32_t *front = dt_tokenizer_front(v->tokenizer, &n);
    uint32_t end = dt_tokenizer_end(v->tokenizer);
    put_id(g, "tokenizer.ggml.bos_token_id", n ? (int64_t)front[0] : first_of(&s->bos));
    put_id(g, "tokenizer.ggml.eos_token_id",
           end != DT_TOKEN_NONE ? (int64_t)end : first_of(&s->eos));
    put_id(g, "tokenizer.ggml.padding_token_id", first_of(&s->pad));
    dt_gguf_put_bool(g, "tokenizer.ggml.add_bos_token", n > 0);
}

/* -- of which type ---------------------------------------------------------------------------- */

static bool is_byte(struct dt_bytes text)
{
    return text.len == 6 && memcmp(text.at, "<0x", 3) == 0 && text.at[5] == '>';
}

static void mark(struct vocab *v, const struct cJSON *text, enum token_type type)
{
    uint32_t id = cJSON_IsString(text)
                      ? dt_tokenizer_id(v->tokenizer, dt_bytes_of(text->valuestring))
                      : DT_TOKEN_NONE;
    if (id < v->count)
        v->types[id] = type;
}

static void mark_all(struct vocab *v, bool bytes)
{
    for (size_t i = 0; i < v->count; i++) {
        struct dt_bytes text = dt_tokenizer_text(v->tokenizer, (uint32_t)i);
        if (text.len)
            v->types[i] = bytes && is_byte(text) ? BYTE : NORMAL;
    }
    const struct cJSON *added = cJSON_GetObjectItemCaseSensitive(v->doc.root, "added_tokens");
    for (const struct cJSON *a = first_in(added); a; a = dt_json_next(a))
        mark(v, cJSON_GetObjectItemCaseSensitive(a, "content"),
             cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(a, "special")) ? CONTROL : USER_DEFINED);
    if (bytes)
        mark(v, cJSON_GetObjectItemCaseSensitive(v->model, "unk_token"), UNKNOWN);
}

/* -- merges ----------------------------------------------------------------------------------- */

/* "a b", or ["a", "b"]; the file was read before, so it is one of them. */
static void join_merge(const struct cJSON *merge, const char *between, struct dt_buf *out)
{
    const struct cJSON *a = dt_json_first(merge), *b = a ? dt_json_next(a) : NULL;
    const char *blank = cJSON_IsString(merge) ? strchr(merge->valuestring, ' ') : NULL;
    dt_buf_clear(out);
    if (blank)
        dt_buf_printf(out, "%.*s%s%s", (int)(blank - merge->valuestring), merge->valuestring,
                      between, blank + 1);
    else if (cJSON_IsString(a) && cJSON_IsString(b))
        dt_buf_printf(out, "%s%s%s", a->valuestring, between, b->valuestring);
}

static const struct cJSON *merges_of(const struct vocab *v)
{
    return cJSON_GetObjectItemCaseSensitive(v->model, "merges");
}

static void put_merges(struct dt_gguf *g, const struct vocab *v)
{
    const struct cJSON *merges = merges_of(v);
    struct dt_buf text = {0};
    dt_gguf_put_array(g, "tokenizer.ggml.merges", DT_GGUF_TEXT,
                      (uint64_t)cJSON_GetArraySize(merges));
    for (const struct cJSON *m = first_in(merges); m; m = dt_json_next(m)) {
        join_merge(m, " ", &text);
        dt_gguf_add_text(g, (struct dt_bytes){text.at, text.len});
    }
    g->pairs.bad = g->pairs.bad || text.bad;
    dt_buf_finish(&text);
}

/* The first merge that makes a token counts. */
static int find_scores(struct vocab *v, struct dt_err *err)
{
    struct dt_buf text = {0};
    float rank = 0;
    for (const struct cJSON *m = first_in(merges_of(v)); m; m = dt_json_next(m)) {
        join_merge(m, "", &text);
        uint32_t id = dt_tokenizer_id(v->tokenizer, (struct dt_bytes){text.at, text.len});
        if (id < v->count && v->scores[id] <= NEVER_MERGED)
            v->scores[id] = -rank;
        rank++;
    }
    int rc = text.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for merges") : 0;
    dt_buf_finish(&text);
    return rc;
}

static void put_scores(struct dt_gguf *g, const struct vocab *v)
{
    dt_gguf_put_array(g, "tokenizer.ggml.scores", DT_GGUF_FLOAT, v->count);
    for (size_t i = 0; i < v->count; i++)
        dt_gguf_add_float(g, v->scores[i]);
}

/* -- the two kinds ---------------------------------------------------------------------------- */

static bool is_type(const struct cJSON *step, const char *type)
{
    const struct cJSON *t = cJSON_GetObjectItemCaseSensitive(step, "type");
    return cJSON_IsString(t) && strcmp(t->valuestring, type) == 0;
}

static int put_byte_level(struct dt_gguf *g, struct vocab *v, struct dt_err *err)
{
    const char *cuts = dt_gguf_cuts_name(v->doc.root);
    if (!cuts)
        return dt_err_set(err, DT_E_USAGE,
                          "pre_tokenizer: llama.cpp has no name that is known here for where it "
                          "cuts a text; those of GPT-2, Llama 3, Qwen2 and 3, Mistral and SmolLM "
                          "have one");
    dt_gguf_put_text(g, "tokenizer.ggml.model", dt_bytes_of("gpt2"));
    dt_gguf_put_text(g, "tokenizer.ggml.pre", dt_bytes_of(cuts));
    mark_all(v, false);
    put_tokens(g, v);
    put_types(g, v);
    put_merges(g, v);
    return 0;
}

/* Whether a blank is put in front of a text: by the normalizer, or by the pre-tokenizer. */
static bool adds_blank(const struct vocab *v)
{
    const struct cJSON *n = cJSON_GetObjectItemCaseSensitive(v->doc.root, "normalizer");
    const struct cJSON *p = cJSON_GetObjectItemCaseSensitive(v->doc.root, "pre_tokenizer");
    const struct cJSON *steps = cJSON_GetObjectItemCaseSensitive(n, "normalizers");
    const struct cJSON *scheme = cJSON_GetObjectItemCaseSensitive(p, "prepend_scheme");
    const struct cJSON *old = cJSON_GetObjectItemCaseSensitive(p, "add_prefix_space");
    for (const struct cJSON *s = first_in(steps); s; s = dt_json_next(s))
        if (is_type(s, "Prepend"))
            return true;
    if (is_type(n, "Prepend"))
        return true;
    if (!is_type(p, "Metaspace") || cJSON_IsFalse(old))
        return false;
    return !cJSON_IsString(scheme) || strcmp(scheme->valuestring, "never") != 0;
}

static int put_llama(struct dt_gguf *g, struct vocab *v, struct dt_err *err)
{
    dt_gguf_put_text(g, "tokenizer.ggml.model", dt_bytes_of("llama"));
    dt_gguf_put_text(g, "tokenizer.ggml.pre", dt_bytes_of("default"));
    if (find_scores(v, err) < 0)
        return -1;
    mark_all(v, true);
    put_tokens(g, v);
    put_scores(g, v);
    put_types(g, v);
    dt_gguf_put_bool(g, "tokenizer.ggml.add_space_prefix", adds_blank(v));
    return 0;
}

/* -- the template of conversations ------------------------------------------------------------ */

static void put_template_text(struct dt_gguf *g, struct dt_bytes text)
{
    if (text.len)
        dt_gguf_put_text(g, "tokenizer.chat_template", text);
}

/* In a file of its own, or in the tokenizer's; a file that cannot be read has none. */
static void put_template(struct dt_gguf *g, const char *folder)
{
    char path[PATH_MAX + 32];
    struct dt_buf text = {0};
    struct dt_json doc = {0};
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    if (dt_fs_exists(path)) {
        if (dt_fs_read(path, TEMPLATE_MAX, &text, NULL) == 0)
            put_template_text(g, (struct dt_bytes){text.at, text.len});
    } else {
        snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
        if (dt_fs_exists(path) && dt_fs_read(path, TEMPLATE_MAX * 16, &text, NULL) == 0 &&
            dt_json_parse(&doc, (const char *)text.at, text.len, TEMPLATE_MAX * 16, NULL) == 0) {
            const struct cJSON *t = cJSON_GetObjectItemCaseSensitive(doc.root, "chat_template");
            put_template_text(g, cJSON_IsString(t) ? dt_bytes_of(t->valuestring)
                                                   : (struct dt_bytes){NULL, 0});
        }
    }
    dt_json_finish(&doc);
    dt_buf_finish(&text);
}

/* -- all of it -------------------------------------------------------------------------------- */

static int read_file(struct vocab *v, const char *folder, struct dt_err *err)
{
    char path[PATH_MAX + 32];
    struct dt_buf text = {0};
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    int rc = dt_fs_read(path, FILE_MAX, &text, err);
    if (rc == 0)
        rc = dt_json_parse(&v->doc, (const char *)text.at, text.len, FILE_MAX, err);
    dt_buf_finish(&text);
    v->model = rc == 0 ? cJSON_GetObjectItemCaseSensitive(v->doc.root, "model") : NULL;
    return rc;
}

static int put_all(struct dt_gguf *g, struct vocab *v, const char *folder, const struct dt_shape *s,
                   struct dt_err *err)
{
    if (dt_tokenizer_vocabulary(v->tokenizer) > s->vocabulary)
        return dt_err_set(err, DT_E_USAGE,
                          "it has %u tokens, and the model %zu; it is another model's",
                          dt_tokenizer_vocabulary(v->tokenizer), s->vocabulary);
    if (open_vocab(v, s->vocabulary, err) < 0 || read_file(v, folder, err) < 0)
        return -1;
    bool fallback = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(v->model, "byte_fallback"));
    if ((fallback ? put_llama(g, v, err) : put_byte_level(g, v, err)) < 0)
        return -1;
    put_ids(g, v, s);
    put_template(g, folder);
    return 0;
}

int dt_gguf_put_vocab(struct dt_gguf *g, const char *folder, const struct dt_shape *s,
                      struct dt_err *err)
{
    struct vocab v = {0};
    struct dt_tokenizer *t = dt_tokenizer_open(folder, err); /* so that its file is one, in full */
    v.tokenizer = t;
    int rc = t ? put_all(g, &v, folder, s, err) : -1;
    if (t && rc < 0)
        dt_err_wrap(err, "%s/tokenizer.json", folder);
    close_vocab(&v);
    dt_tokenizer_close(t);
    return rc;
}

/* The alphabet of the bytes, the end of a document, and what the model has beyond. */
static void put_byte_token(struct dt_gguf *g, struct vocab *v, size_t id)
{
    char room[32];
    struct dt_buf byte = {0};
    struct dt_bytes text = text_of(v, id, room);
    v->types[id] = id < DT_BYTE_END ? NORMAL : id == DT_BYTE_END ? CONTROL : UNUSED;
    if (id < DT_BYTE_END) {
        dt_alphabet_put((uint8_t)id, &byte);
        text = (struct dt_bytes){byte.at, byte.len};
    } else if (id == DT_BYTE_END) {
        text = dt_bytes_of("<|end|>");
    }
    dt_gguf_add_text(g, text);
    g->pairs.bad = g->pairs.bad || byte.bad;
    dt_buf_finish(&byte);
}

int dt_gguf_put_bytes_vocab(struct dt_gguf *g, const struct dt_shape *s, struct dt_err *err)
{
    struct vocab v = {0};
    int rc = open_vocab(&v, s->vocabulary, err);
    if (rc == 0) {
        dt_gguf_put_text(g, "tokenizer.ggml.model", dt_bytes_of("gpt2"));
        dt_gguf_put_text(g, "tokenizer.ggml.pre", dt_bytes_of("gpt-2"));
        dt_gguf_put_array(g, "tokenizer.ggml.tokens", DT_GGUF_TEXT, v.count);
        for (size_t i = 0; i < v.count; i++)
            put_byte_token(g, &v, i);
        put_types(g, &v);
        dt_gguf_put_array(g, "tokenizer.ggml.merges", DT_GGUF_TEXT, 0);
        put_id(g, "tokenizer.ggml.bos_token_id", DT_BYTE_END);
        put_id(g, "tokenizer.ggml.eos_token_id", DT_BYTE_END);
        dt_gguf_put_bool(g, "tokenizer.ggml.add_bos_token", false);
    }
    close_vocab(&v);
    return rc;
}
