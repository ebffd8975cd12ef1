/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/chat/coder.h"

#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenizer/added.h"
#include "worker_runtime/data/tokenizer/bpe.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define MARKS_MAX 8

struct dt_chat_coder {
    const struct dt_tokenizer *tokenizer; /* NULL: a byte is a token */
    struct dt_encoder *encoder;
    struct mark {
        const char *text;
        struct dt_token_found token;
    } marks[MARKS_MAX];
    struct dt_ids ids, part, *to; /* TO: which of the two gets what is encoded */
    bool *trained;
    size_t trained_len, trained_room;
};

static int take_ids(void *arg, const uint32_t *ids, size_t count, struct dt_err *err)
{
    struct dt_chat_coder *c = arg;
    (void)err;
    dt_ids_put(c->to, ids, count);
    return 0;
}

static bool find_mark(const struct dt_tokenizer *t, const char *text, struct dt_token_found *out)
{
    bool end = strcmp(text, DT_TEMPLATE_END) == 0;
    if (t && !end)
        return dt_tokenizer_find(t, text, out);
    *out = (struct dt_token_found){.id = t ? dt_tokenizer_end(t) : DT_BYTE_END};
    return end && out->id != DT_TOKEN_NONE;
}

static int find_marks(struct dt_chat_coder *c, const struct dt_template *template,
                      struct dt_err *err)
{
    const char *const *texts = dt_template_marks(template);
    for (size_t i = 0; texts[i]; i++) {
        c->marks[i].text = texts[i];
        if (find_mark(c->tokenizer, texts[i], &c->marks[i].token))
            continue;
        if (strcmp(texts[i], DT_TEMPLATE_END) == 0)
            return dt_err_set(err, DT_E_USAGE,
                              "the tokenizer names no token that ends a text (eos_token in "
                              "tokenizer_config.json), which the template needs");
        return dt_err_set(err, DT_E_USAGE,
                          "the tokenizer has no token %s, which the template needs; is it the "
                          "template of another family of models? \"plain\" needs no such token",
                          texts[i]);
    }
    return 0;
}

struct dt_chat_coder *dt_chat_coder_create(const struct dt_tokenizer *t,
                                           const struct dt_template *template, struct dt_err *err)
{
    struct dt_chat_coder *c = calloc(1, sizeof *c);
    if (!c) {
        dt_err_set(err, DT_E_MEMORY, "no memory for conversations");
        return NULL;
    }
    c->tokenizer = t;
    if (t)
        c->encoder = dt_encoder_create(t, 0, take_ids, c, err);
    if ((!t || c->encoder) && find_marks(c, template, err) == 0)
        return c;
    dt_chat_coder_destroy(c);
    return NULL;
}

void dt_chat_coder_destroy(struct dt_chat_coder *c)
{
    if (!c)
        return;
    dt_encoder_destroy(c->encoder);
    dt_ids_finish(&c->ids);
    dt_ids_finish(&c->part);
    free(c->trained);
    free(c);
}

/* FIRST: nothing of the conversation comes before TEXT. */
static int encode(struct dt_chat_coder *c, struct dt_bytes text, bool first, struct dt_ids *to,
                  struct dt_err *err)
{
    c->to = to;
    if (c->encoder)
        return dt_encoder_piece(c->encoder, text, first, err);
    for (size_t i = 0; i < text.len; i++)
        dt_ids_put(to, &(uint32_t){text.at[i]}, 1);
    return 0;
}

/* All ids up to number END that have no flag yet get this one. */
static int flag(struct dt_chat_coder *c, size_t end, bool trained, struct dt_err *err)
{
    if (end > c->trained_room) {
        size_t room = end < 4096 ? 4096 : end + end / 2;
        bool *more = realloc(c->trained, room * sizeof *more);
        if (!more)
            return dt_err_set(err, DT_E_MEMORY, "no memory for %zu tokens", end);
        c->trained = more;
        c->trained_room = room;
    }
    while (c->trained_len < end)
        c->trained[c->trained_len++] = trained;
    return 0;
}

static size_t common(const uint32_t *a, size_t a_len, const uint32_t *b, size_t b_len)
{
    size_t n = 0;
    while (n < a_len && n < b_len && a[n] == b[n])
        n++;
    return n;
}

/* Spans FIRST to END - 1, which are text, as the one TEXT, which begins at byte FROM: some white
 * space of theirs may be missing. Where trained changes in between, the tokens of what stands
 * before are those that both have. */
static int put_texts(struct dt_chat_coder *c, const struct dt_span *first,
                     const struct dt_span *end, struct dt_bytes text, size_t from,
                     struct dt_err *err)
{
    size_t before = c->ids.len;
    if (encode(c, text, before == 0, &c->ids, err) < 0)
        return -1;
    const uint32_t *ids = c->ids.at + before;
    size_t all = c->ids.len - before;
    for (const struct dt_span *s = first; s + 1 < end; s++) {
        size_t cut = s->end > from ? s->end - from : 0;
        struct dt_bytes part = {text.at, cut < text.len ? cut : text.len};
        c->part.len = 0;
        if (encode(c, part, before == 0, &c->part, err) < 0)
            return -1;
        size_t same = common(ids, all, c->part.at, c->part.len);
        if (flag(c, before + same, s->trained, err) < 0)
            return -1;
    }
    return flag(c, before + all, end[-1].trained, err);
}

static const struct dt_token_found *token_of(const struct dt_chat_coder *c, const struct dt_span *s)
{
    for (size_t i = 0; i < MARKS_MAX && c->marks[i].text; i++)
        if (c->marks[i].text == s->token)
            return &c->marks[i].token;
    return NULL;
}

int dt_chat_coder_encode(struct dt_chat_coder *c, const struct dt_rendered *r,
                         struct dt_chat_tokens *out, struct dt_err *err)
{
    const struct dt_span *end = r->spans + r->count;
    const struct dt_token_found *token = NULL; /* that came last */
    c->ids.len = c->trained_len = 0;
    for (const struct dt_span *s = r->spans, *next; s < end; s = next) {
        size_t from = s > r->spans ? s[-1].end : 0;
        next = s + 1;
        if (s->token) {
            token = token_of(c, s);
            dt_ids_put(&c->ids, &token->id, 1);
            if (flag(c, c->ids.len, s->trained, err) < 0)
                return -1;
            continue;
        }
        while (next < end && !next->token)
            next++;
        struct dt_bytes whole = {r->text.at + from, next[-1].end - from}, text = whole;
        if (token && token->eats_behind)
            text = dt_added_trim_start(text);
        if (next < end && token_of(c, next)->eats_before)
            text = dt_added_trim_end(text);
        if (put_texts(c, s, next, text, from + (size_t)(text.at - whole.at), err) < 0)
            return -1;
    }
    if (c->ids.bad || c->part.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the tokens of a conversation");
    *out = (struct dt_chat_tokens){c->ids.at, c->trained, c->ids.len};
    return 0;
}
