/* SPDX-License-Identifier: Apache-2.0 */
/* The model: vocabulary, merges, flags. */
#include "worker_runtime/data/tokenizer/alphabet.h"
#include "worker_runtime/data/tokenizer/read.h"

#include <cjson/cJSON.h>

#define MERGES_MAX ((size_t)1 << 24)

static int no_memory(struct dt_reading *r)
{
    return dt_err_set(r->err, DT_E_MEMORY, "no memory for a tokenizer");
}

/* -- vocabulary ------------------------------------------------------------------------------- */

/* Of a byte-level model a word can only be in its alphabet: what else the vocabulary has, such as
 * added tokens, has no bytes. SCRATCH is for them. */
static int put_token(struct dt_reading *r, struct dt_bytes text, uint32_t id,
                     struct dt_buf *scratch)
{
    struct dt_tokenizer *t = r->tokenizer;
    struct dt_bytes word = text;
    bool is_word = true;
    if (t->bpe.byte_level) {
        dt_buf_clear(scratch);
        is_word = dt_alphabet_bytes(text, scratch);
        word = (struct dt_bytes){scratch->at, scratch->len};
    }
    if (scratch->bad || dt_vocab_add(&t->texts, id, text) < 0)
        return no_memory(r);
    return is_word && dt_vocab_add(&t->bpe.words, id, word) < 0 ? no_memory(r) : 0;
}

static int check_token(struct dt_reading *r, const struct cJSON *token)
{
    double id = token->valuedouble;
    if (!cJSON_IsNumber(token) || !(id >= 0 && id < DT_VOCAB_IDS_MAX) || id != (uint32_t)id)
        return dt_read_refuse(r, token, "a token's id is a whole number from 0 to %u",
                              DT_VOCAB_IDS_MAX - 1);
    if (dt_vocab_has(&r->tokenizer->texts, (uint32_t)id))
        return dt_read_refuse(r, token, "another token has the id %u, too", (uint32_t)id);
    if (strlen(token->string) > DT_TOKEN_BYTES_MAX)
        return dt_read_refuse(r, token, "a token of more than %zu bytes", DT_TOKEN_BYTES_MAX);
    return 0;
}

static int read_vocabulary(struct dt_reading *r, const struct cJSON *model)
{
    const struct cJSON *vocab;
    struct dt_buf scratch = {0};
    int rc = dt_json_object(&r->doc, model, "vocab", &vocab, r->err);
    for (const struct cJSON *v = rc < 0 ? NULL : vocab->child; v && rc == 0; v = v->next) {
        rc = check_token(r, v);
        if (rc == 0)
            rc = put_token(r, dt_bytes_of(v->string), (uint32_t)v->valuedouble, &scratch);
    }
    dt_buf_finish(&scratch);
    return rc;
}

/* -- merges ----------------------------------------------------------------------------------- */

/* "a b", or ["a", "b"] where a token may have a blank. */
static int split_merge(struct dt_reading *r, const struct cJSON *merge, struct dt_bytes *left,
                       struct dt_bytes *right)
{
    const struct cJSON *a = dt_json_first(merge), *b = a ? dt_json_next(a) : NULL;
    if (cJSON_IsString(merge)) {
        const char *text = merge->valuestring, *blank = strchr(text, ' ');
        if (blank && !strchr(blank + 1, ' ')) {
            *left = (struct dt_bytes){(const uint8_t *)text, (size_t)(blank - text)};
            *right = dt_bytes_of(blank + 1);
            return 0;
        }
    } else if (cJSON_IsArray(merge) && cJSON_IsString(a) && cJSON_IsString(b) && !b->next) {
        *left = dt_bytes_of(a->valuestring);
        *right = dt_bytes_of(b->valuestring);
        return 0;
    }
    return dt_read_refuse(r, merge, "a merge is \"a b\" or [\"a\", \"b\"]");
}

static int token_of(struct dt_reading *r, const struct cJSON *merge, struct dt_bytes text,
                    uint32_t *id)
{
    int64_t found = dt_vocab_find(&r->tokenizer->texts, text);
    if (found < 0)
        return dt_read_refuse(r, merge, "\"%.*s\" is not in the vocabulary",
                              text.len < 60 ? (int)text.len : 60, (const char *)text.at);
    *id = (uint32_t)found;
    return 0;
}

static int read_merge(struct dt_reading *r, const struct cJSON *merge, uint32_t rank,
                      struct dt_buf *both)
{
    struct dt_bytes left, right;
    struct dt_bpe_merge m = {.rank = rank};
    if (split_merge(r, merge, &left, &right) < 0)
        return -1;
    dt_buf_clear(both);
    dt_buf_put(both, left.at, left.len);
    dt_buf_put(both, right.at, right.len);
    if (both->bad)
        return no_memory(r);
    if (token_of(r, merge, left, &m.left) < 0 || token_of(r, merge, right, &m.right) < 0 ||
        token_of(r, merge, (struct dt_bytes){both->at, both->len}, &m.result) < 0)
        return -1;
    dt_bpe_put_merge(&r->tokenizer->bpe, &m);
    return 0;
}

static int read_merges(struct dt_reading *r, const struct cJSON *model)
{
    const struct cJSON *merges;
    struct dt_buf both = {0};
    size_t count = 0;
    uint32_t rank = 0;
    if (dt_json_array(&r->doc, model, "merges", &merges, r->err) < 0)
        return -1;
    for (const struct cJSON *m = dt_json_first(merges); m; m = dt_json_next(m))
        count++;
    if (count > MERGES_MAX)
        return dt_read_refuse(r, merges, "more than %zu merges", MERGES_MAX);
    int rc = dt_bpe_reserve(&r->tokenizer->bpe, count, r->err);
    for (const struct cJSON *m = dt_json_first(merges); m && rc == 0; m = dt_json_next(m))
        rc = read_merge(r, m, rank++, &both);
    dt_buf_finish(&both);
    return rc;
}

/* -- the rest --------------------------------------------------------------------------------- */

/* What would change tokens and is not done here. */
static int check_absent(struct dt_reading *r, const struct cJSON *model)
{
    static const char *const names[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const struct cJSON *dropout = dt_read_part(r, model, "dropout");
    if (dropout && !(cJSON_IsNumber(dropout) && dropout->valuedouble == 0))
        return dt_read_refuse(r, dropout, "it makes tokens a matter of chance; set it to null");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct cJSON *v = dt_read_part(r, model, names[i]);
        if (v && !(cJSON_IsString(v) && v->valuestring[0] == '\0'))
            return dt_read_refuse(r, v, "only models without one are read");
    }
    return 0;
}

static int read_flags(struct dt_reading *r, const struct cJSON *model)
{
    struct dt_bpe *b = &r->tokenizer->bpe;
    b->byte_level = dt_read_is_byte_level(r);
    if (dt_read_flag(r, model, "byte_fallback", &b->byte_fallback) < 0 ||
        dt_read_flag(r, model, "fuse_unk", &b->fuse_unknown) < 0 ||
        dt_read_flag(r, model, "ignore_merges", &b->whole_words_first) < 0)
        return -1;
    if (b->byte_level && b->byte_fallback)
        return dt_read_refuse(r, dt_read_part(r, model, "byte_fallback"),
                              "behind ByteLevel there are no characters that could fall back");
    return 0;
}

static int read_unknown(struct dt_reading *r, const struct cJSON *model)
{
    struct dt_tokenizer *t = r->tokenizer;
    const char *text = "";
    t->bpe.unknown = DT_BPE_NONE;
    if (dt_json_has(model, "unk_token") &&
        dt_json_string(&r->doc, model, "unk_token", &text, r->err) < 0)
        return -1;
    return *text ? token_of(r, dt_read_part(r, model, "unk_token"), dt_bytes_of(text),
                            &t->bpe.unknown)
                 : 0;
}

int dt_read_model(struct dt_reading *r)
{
    const struct cJSON *model;
    const char *type = "BPE"; /* old files do not say it */
    if (dt_json_object(&r->doc, NULL, "model", &model, r->err) < 0)
        return -1;
    if (dt_json_has(model, "type") && dt_json_string(&r->doc, model, "type", &type, r->err) < 0)
        return -1;
    if (strcmp(type, "BPE") != 0)
        return dt_read_refuse(r, dt_read_part(r, model, "type"),
                              "\"%.40s\" is not known here; BPE is", type);
    if (check_absent(r, model) < 0 || read_flags(r, model) < 0 || read_vocabulary(r, model) < 0 ||
        read_merges(r, model) < 0 || read_unknown(r, model) < 0)
        return -1;
    dt_bpe_find_bytes(&r->tokenizer->bpe);
    return 0;
}
