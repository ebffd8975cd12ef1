/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/tokenizer/read.h"

#include "base/fs.h"
#include "worker_runtime/data/tokenizer/added.h"
#include "worker_runtime/lfs_pointer.h"
#include "worker_runtime/no_folder.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

/* Those of models with 256,000 tokens have 35 MB. */
#define FILE_MAX ((size_t)128 << 20)
#define SMALL_FILE_MAX ((size_t)16 << 20)

const struct cJSON *dt_read_part(const struct dt_reading *r, const struct cJSON *object,
                                 const char *name)
{
    const struct cJSON *of = object ? object : r->doc.root;
    return dt_json_has(of, name) ? cJSON_GetObjectItemCaseSensitive(of, name) : NULL;
}

int dt_read_flag(struct dt_reading *r, const struct cJSON *object, const char *name, bool *out)
{
    return dt_json_has(object, name) ? dt_json_bool(&r->doc, object, name, out, r->err) : 0;
}

int dt_read_refuse(struct dt_reading *r, const struct cJSON *node, const char *fmt, ...)
{
    char path[200];
    struct dt_buf why = {0};
    va_list ap;
    va_start(ap, fmt);
    dt_buf_vprintf(&why, fmt, ap);
    va_end(ap);
    dt_err_set(r->err, DT_E_USAGE, "%s: %s", dt_json_path(&r->doc, node, path, sizeof path),
               dt_buf_cstr(&why));
    dt_buf_finish(&why);
    return -1;
}

char *dt_read_copy(struct dt_reading *r, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        dt_err_set(r->err, DT_E_MEMORY, "no memory for a tokenizer");
    return copy;
}

int dt_read_add_step(struct dt_reading *r, struct dt_step step)
{
    struct dt_tokenizer *t = r->tokenizer;
    if (t->step_count < DT_STEPS_MAX) {
        t->steps[t->step_count++] = step;
        return 0;
    }
    dt_step_finish(&step);
    return dt_err_set(r->err, DT_E_LIMIT, "more than %d steps from text to words", DT_STEPS_MAX);
}

/* -- the whole file --------------------------------------------------------------------------- */

static int read_parts(struct dt_reading *r)
{
    const char *version;
    if (!cJSON_IsObject(r->doc.root))
        return dt_read_refuse(r, r->doc.root, "it is no object, and so no tokenizer");
    if (dt_json_string(&r->doc, NULL, "version", &version, r->err) < 0)
        return -1;
    if (strcmp(version, "1.0") != 0)
        return dt_read_refuse(r, dt_read_part(r, NULL, "version"),
                              "it is \"%.20s\"; this program reads 1.0", version);
    if (dt_read_model(r) < 0)
        return -1;
    r->tokenizer->own = r->tokenizer->texts.limit;
    if (dt_read_added_ids(r) < 0 || dt_read_steps(r) < 0)
        return -1;
    return dt_read_post_processor(r) < 0 ? -1 : dt_read_decoder(r);
}

struct dt_tokenizer *dt_tokenizer_read(struct dt_bytes text, struct dt_err *err)
{
    struct dt_reading r = {.tokenizer = calloc(1, sizeof *r.tokenizer), .growth = 1, .err = err};
    if (!r.tokenizer) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    r.tokenizer->end = DT_TOKEN_NONE;
    int rc = dt_json_parse(&r.doc, (const char *)text.at, text.len, FILE_MAX, err);
    if (rc == 0)
        rc = read_parts(&r);
    dt_json_finish(&r.doc);
    if (rc == 0)
        return r.tokenizer;
    dt_tokenizer_close(r.tokenizer);
    return NULL;
}

void dt_tokenizer_close(struct dt_tokenizer *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->step_count; i++)
        dt_step_finish(&t->steps[i]);
    for (int i = 0; i < t->decoding.replacement_count; i++) {
        free(t->decoding.replacements[i].from);
        free(t->decoding.replacements[i].to);
    }
    free(t->decoding.metaspace);
    free(t->decoding.strip);
    dt_bpe_finish(&t->bpe);
    dt_vocab_finish(&t->texts);
    dt_vocab_finish(&t->shown);
    dt_ids_finish(&t->front);
    dt_ids_finish(&t->back);
    free(t);
}

/* -- the folder ------------------------------------------------------------------------------- */

/* The token that FILE names as "eos_token": a text, or an object with "content". */
static int read_end(struct dt_tokenizer *t, const struct dt_json *doc, struct dt_err *err)
{
    const struct cJSON *end = cJSON_GetObjectItemCaseSensitive(doc->root, "eos_token");
    if (cJSON_IsObject(end))
        end = cJSON_GetObjectItemCaseSensitive(end, "content");
    if (!cJSON_IsString(end))
        return 0;
    int64_t id = dt_vocab_find(&t->texts, dt_bytes_of(end->valuestring));
    if (id < 0)
        return dt_err_set(err, DT_E_USAGE, "eos_token: \"%.60s\" is no token of tokenizer.json",
                          end->valuestring);
    t->end = (uint32_t)id;
    return 0;
}

static int read_end_of(struct dt_tokenizer *t, const char *folder, const char *name,
                       struct dt_err *err)
{
    char path[4096];
    struct dt_buf text = {0};
    struct dt_json doc = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (t->end != DT_TOKEN_NONE || !dt_fs_exists(path))
        return 0;
    int rc = dt_fs_read(path, SMALL_FILE_MAX, &text, err);
    if (rc == 0)
        rc = dt_json_parse(&doc, (const char *)text.at, text.len, SMALL_FILE_MAX, err);
    if (rc == 0)
        rc = read_end(t, &doc, err);
    dt_json_finish(&doc);
    dt_buf_finish(&text);
    return rc < 0 ? dt_err_wrap(err, "%s", path) : 0;
}

/* How many words the folder's model has. One with fewer than the file's own is another's, and one
 * that cannot be read is for others to tell of. */
static void read_words(struct dt_tokenizer *t, const char *folder)
{
    char path[4096];
    struct dt_buf text = {0};
    struct dt_json doc = {0};
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (dt_fs_exists(path) && dt_fs_read(path, SMALL_FILE_MAX, &text, NULL) == 0 &&
        dt_json_parse(&doc, (const char *)text.at, text.len, SMALL_FILE_MAX, NULL) == 0) {
        const struct cJSON *size = cJSON_GetObjectItemCaseSensitive(doc.root, "vocab_size");
        double words = cJSON_IsNumber(size) ? size->valuedouble : 0;
        if (words >= (double)t->own && words > 0 && words < (double)t->texts.limit)
            t->words = (uint32_t)words;
    }
    dt_json_finish(&doc);
    dt_buf_finish(&text);
}

int dt_tokenizer_check_folder(const char *folder, struct dt_err *err)
{
    char path[4096];
    if (!dt_fs_exists(folder))
        return dt_no_folder(folder, err);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (dt_fs_exists(path))
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "%.100s has no tokenizer.json; copy that of the model that it comes from "
                      "into it (of a tokenizer.model AutoTokenizer's save_pretrained() makes one)",
                      folder);
}

struct dt_tokenizer *dt_tokenizer_open(const char *folder, struct dt_err *err)
{
    char path[4096];
    struct dt_buf text = {0};
    struct dt_tokenizer *t = NULL;
    if (dt_tokenizer_check_folder(folder, err) < 0)
        return NULL;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (dt_fs_read(path, FILE_MAX, &text, err) == 0) {
        if (dt_is_lfs_pointer((struct dt_bytes){text.at, text.len}))
            dt_err_set(err, DT_E_USAGE, DT_LFS_POINTER_TEXT);
        else
            t = dt_tokenizer_read((struct dt_bytes){text.at, text.len}, err);
        if (!t)
            dt_err_wrap(err, "%s", path);
    }
    dt_buf_finish(&text);
    if (t && (read_end_of(t, folder, "tokenizer_config.json", err) < 0 ||
              read_end_of(t, folder, "special_tokens_map.json", err) < 0)) {
        dt_tokenizer_close(t);
        return NULL;
    }
    if (t && t->end == DT_TOKEN_NONE && t->back.len)
        t->end = t->back.at[t->back.len - 1];
    if (t)
        read_words(t, folder);
    return t;
}

/* -- what others ask -------------------------------------------------------------------------- */

uint32_t dt_tokenizer_vocabulary(const struct dt_tokenizer *t)
{
    return t->words ? t->words : t->texts.limit;
}

uint32_t dt_tokenizer_end(const struct dt_tokenizer *t)
{
    return t->end;
}

bool dt_tokenizer_find(const struct dt_tokenizer *t, const char *text, struct dt_token_found *out)
{
    int64_t id = dt_vocab_find(&t->texts, dt_bytes_of(text));
    *out = (struct dt_token_found){.id = id < 0 ? DT_TOKEN_NONE : (uint32_t)id};
    for (int i = 0; id >= 0 && i < t->step_count; i++) {
        const struct dt_step *s = &t->steps[i];
        const struct dt_added_token *a =
            s->kind == DT_STEP_ADDED ? dt_added_find(s->added, out->id) : NULL;
        if (a) {
            out->eats_before = a->eats_before;
            out->eats_behind = a->eats_behind;
        }
    }
    return id >= 0;
}

const uint32_t *dt_tokenizer_front(const struct dt_tokenizer *t, size_t *n)
{
    *n = t->front.len;
    return t->front.at;
}

const uint32_t *dt_tokenizer_back(const struct dt_tokenizer *t, size_t *n)
{
    *n = t->back.len;
    return t->back.at;
}

struct dt_bytes dt_tokenizer_text(const struct dt_tokenizer *t, uint32_t id)
{
    return dt_vocab_text(&t->texts, id);
}

uint32_t dt_tokenizer_id(const struct dt_tokenizer *t, struct dt_bytes text)
{
    int64_t id = dt_vocab_find(&t->texts, text);
    return id < 0 ? DT_TOKEN_NONE : (uint32_t)id;
}
