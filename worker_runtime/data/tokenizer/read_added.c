/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens. Their "id" in the file means nothing to the library: a text that the model knows
 * has the model's id, and others get the next free ones. */
#include "worker_runtime/data/tokenizer/added.h"
#include "worker_runtime/data/tokenizer/read.h"

#include "base/list.h"

#include <cjson/cJSON.h>

#define ADDED_MAX 100000u
#define ADDED_BYTES_MAX ((size_t)16 << 20) /* of all of them */

struct collector {
    struct dt_stage stage;
    struct dt_buf text;
    bool full; /* there was more than a token may have */
};

static void collect(struct dt_stage *stage, struct dt_bytes part, bool end)
{
    struct collector *c = dt_container_of(stage, struct collector, stage);
    (void)end;
    c->full |= part.len > DT_TOKEN_BYTES_MAX - c->text.len;
    if (!c->full)
        dt_buf_put(&c->text, part.at, part.len);
}

/* TEXT, which A says, by the normalizer, whose steps are those from number I on. */
static int normalize(struct dt_reading *r, const struct cJSON *a, int i, struct dt_bytes text,
                     struct dt_stage *last)
{
    const struct dt_tokenizer *t = r->tokenizer;
    if (i == t->step_count) {
        last->push(last, text, true);
        return 0;
    }
    struct dt_flow flow = {.piece_max = DT_PIECE_MAX};
    struct collector out = {.stage = {.push = collect}};
    struct dt_stage *stage = dt_stage_create(&t->steps[i], r->err);
    if (!stage)
        return -1;
    stage->flow = &flow;
    stage->next = &out.stage;
    stage->push(stage, text, true);
    stage->destroy(stage);
    int rc;
    if (flow.err.code)
        rc = dt_err_set(r->err, flow.err.code, "added_tokens: %s", flow.err.text);
    else if (out.text.bad)
        rc = dt_err_set(r->err, DT_E_MEMORY, "no memory for added tokens");
    else if (out.full)
        rc = dt_read_refuse(r, a, "the normalizer makes more than %zu bytes of it",
                            DT_TOKEN_BYTES_MAX);
    else
        rc = normalize(r, a, i + 1, (struct dt_bytes){out.text.at, out.text.len}, last);
    dt_buf_finish(&out.text);
    return rc;
}

static const struct cJSON *first_token(struct dt_reading *r)
{
    const struct cJSON *list = dt_read_part(r, NULL, "added_tokens");
    return list ? dt_json_first(list) : NULL;
}

int dt_read_added_ids(struct dt_reading *r)
{
    struct dt_vocab *texts = &r->tokenizer->texts;
    uint32_t count = 0, added = 0, greatest = 0;
    const struct cJSON *list;
    if (dt_read_part(r, NULL, "added_tokens") &&
        dt_json_array(&r->doc, NULL, "added_tokens", &list, r->err) < 0)
        return -1;
    for (uint32_t id = 0; id < texts->limit; id++)
        count += dt_vocab_has(texts, id);
    for (const struct cJSON *a = first_token(r); a; a = dt_json_next(a)) {
        const char *content;
        if (++added > ADDED_MAX)
            return dt_read_refuse(r, a, "more than %u added tokens", ADDED_MAX);
        if (dt_json_string(&r->doc, a, "content", &content, r->err) < 0)
            return -1;
        if (!*content)
            continue;
        if (strlen(content) > DT_TOKEN_BYTES_MAX)
            return dt_read_refuse(r, a, "a token of more than %zu bytes", DT_TOKEN_BYTES_MAX);
        int64_t known = dt_vocab_find(texts, dt_bytes_of(content));
        uint32_t id = known < 0 ? (greatest < count ? count : greatest + 1) : (uint32_t)known;
        if (known < 0 && (id >= DT_VOCAB_IDS_MAX || dt_vocab_has(texts, id)))
            return dt_read_refuse(r, a, "its id would be %u, which is not free", id);
        if (known < 0 && dt_vocab_add(texts, id, dt_bytes_of(content)) < 0)
            return dt_err_set(r->err, DT_E_MEMORY, "no memory for added tokens");
        greatest = id > greatest ? id : greatest;
    }
    return 0;
}

static int put_token(struct dt_reading *r, const struct cJSON *a, struct dt_added *to, int first)
{
    const char *content;
    bool word = false;
    struct dt_added_token token = {0};
    struct collector text = {.stage = {.push = collect}};
    if (dt_json_string(&r->doc, a, "content", &content, r->err) < 0 ||
        dt_read_flag(r, a, "lstrip", &token.eats_before) < 0 ||
        dt_read_flag(r, a, "rstrip", &token.eats_behind) < 0 ||
        dt_read_flag(r, a, "special", &token.special) < 0 ||
        dt_read_flag(r, a, "single_word", &word) < 0)
        return -1;
    if (word)
        return dt_read_refuse(r, a, "single_word is not done here");
    if (!*content)
        return 0;
    token.id = (uint32_t)dt_vocab_find(&r->tokenizer->texts, dt_bytes_of(content));
    int rc = normalize(r, a, first, dt_bytes_of(content), &text.stage);
    struct dt_bytes normal = {text.text.at, text.text.len};
    r->added_bytes += normal.len;
    if (rc == 0 && r->added_bytes > ADDED_BYTES_MAX)
        rc = dt_read_refuse(r, a, "added tokens of more than %zu MiB", ADDED_BYTES_MAX >> 20);
    if (rc == 0 && normal.len)
        rc = dt_added_put(to, normal, token, r->err);
    if (rc == 0 && !dt_bytes_equal(normal, dt_bytes_of(content)) &&
        dt_vocab_add(&r->tokenizer->shown, token.id, normal) < 0)
        rc = dt_err_set(r->err, DT_E_MEMORY, "no memory for added tokens");
    dt_buf_finish(&text.text);
    return rc;
}

int dt_read_added_step(struct dt_reading *r, bool normalized, int first)
{
    struct dt_step step = {.kind = DT_STEP_ADDED, .added = dt_added_create(r->err)};
    int rc = step.added ? 0 : -1;
    for (const struct cJSON *a = first_token(r); a && rc == 0; a = dt_json_next(a)) {
        bool special = false, of_normalized;
        rc = dt_read_flag(r, a, "special", &special);
        of_normalized = !special; /* where the file does not say it */
        if (rc == 0)
            rc = dt_read_flag(r, a, "normalized", &of_normalized);
        if (rc == 0 && of_normalized == normalized)
            rc = put_token(r, a, step.added, normalized ? first : r->tokenizer->step_count);
    }
    if (rc == 0 && !dt_added_is_empty(step.added))
        return dt_read_add_step(r, step);
    dt_step_finish(&step);
    return rc;
}
