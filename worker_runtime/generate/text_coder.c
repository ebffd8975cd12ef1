/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/generate/text_coder.h"

#include "worker_runtime/data/chat/coder.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int dt_text_coder_open(struct dt_text_coder *c, const char *tokenizer, struct dt_err *err)
{
    *c = (struct dt_text_coder){.answer_end = -1};
    if (*tokenizer == '\0')
        return 0;
    c->tokenizer = dt_tokenizer_open(tokenizer, err);
    c->decoder = c->tokenizer ? dt_decoder_create(c->tokenizer, err) : NULL;
    if (c->decoder)
        return 0;
    dt_text_coder_finish(c);
    return -1;
}

void dt_text_coder_finish(struct dt_text_coder *c)
{
    dt_decoder_destroy(c->decoder);
    dt_tokenizer_close(c->tokenizer);
    *c = (struct dt_text_coder){0};
}

/* -- to tokens -------------------------------------------------------------------------------- */

static int add_id(struct dt_prompt *ids, uint32_t id, struct dt_err *err)
{
    if (ids->count == ids->size) {
        size_t size = ids->size ? 2 * ids->size : 256;
        int32_t *at = reallocarray(ids->at, size, sizeof *at);
        if (!at)
            return dt_err_set(err, DT_E_MEMORY, "no memory for the tokens of a text");
        ids->at = at;
        ids->size = size;
    }
    ids->at[ids->count++] = (int32_t)id;
    return 0;
}

static int take_ids(void *arg, const uint32_t *ids, size_t count, struct dt_err *err)
{
    for (size_t i = 0; i < count; i++)
        if (add_id(arg, ids[i], err) < 0)
            return -1;
    return 0;
}

/* What a file puts behind each text would end what is to be gone on with. */
static void drop_back(const struct dt_tokenizer *t, struct dt_prompt *ids)
{
    size_t n;
    dt_tokenizer_back(t, &n);
    ids->count -= n < ids->count ? n : ids->count;
}

static int encode_by_tokenizer(const struct dt_text_coder *c, struct dt_bytes text,
                               struct dt_prompt *ids, struct dt_err *err)
{
    struct dt_encoder *e = dt_encoder_create(c->tokenizer, 0, take_ids, ids, err);
    int rc = e && dt_encoder_put(e, text, err) == 0 && dt_encoder_end(e, DT_TOKEN_NONE, err) == 0 &&
                     dt_encoder_drain(e, err) == 0
                 ? 0
                 : -1;
    dt_encoder_destroy(e);
    if (rc == 0)
        drop_back(c->tokenizer, ids);
    return rc;
}

static int encode_bytes(struct dt_bytes text, struct dt_prompt *ids, struct dt_err *err)
{
    for (size_t i = 0; i < text.len; i++)
        if (add_id(ids, text.at[i], err) < 0)
            return -1;
    return 0;
}

/* Where no token is said to begin a text, the one that ended the text before stood there when the
 * model was trained. */
static int add_beginning(const struct dt_text_coder *c, const struct dt_shape *shape,
                         struct dt_prompt *ids, struct dt_err *err)
{
    uint32_t end = c->tokenizer ? dt_tokenizer_end(c->tokenizer) : DT_BYTE_END;
    if (shape->bos.count)
        return add_id(ids, (uint32_t)shape->bos.id[0], err);
    if (end != DT_TOKEN_NONE)
        return add_id(ids, end, err);
    return dt_err_set(err, DT_E_USAGE,
                      "the prompt is empty, and no token is known that begins a text of this "
                      "model; give a prompt");
}

/* What stands before decides what the first of the tokens that come means. */
static void prime(struct dt_text_coder *c, const struct dt_prompt *ids)
{
    struct dt_buf said = {0};
    for (size_t i = 0; c->decoder && i < ids->count; i++)
        dt_decoder_put(c->decoder, (uint32_t)ids->at[i], &said);
    dt_buf_finish(&said);
}

int dt_text_coder_encode(struct dt_text_coder *c, struct dt_bytes text,
                         const struct dt_shape *shape, struct dt_prompt *ids, struct dt_err *err)
{
    *ids = (struct dt_prompt){0};
    int rc = c->tokenizer ? encode_by_tokenizer(c, text, ids, err) : encode_bytes(text, ids, err);
    if (rc == 0 && ids->count == 0)
        rc = add_beginning(c, shape, ids, err);
    if (rc == 0)
        prime(c, ids);
    return rc;
}

/* -- questions -------------------------------------------------------------------------------- */

static int render(const struct dt_template *template, const char *system,
                  struct dt_exchange exchange, struct dt_rendered *out, struct dt_err *err)
{
    const struct dt_template_options options = {.system = system};
    const struct dt_conversation c = {.exchanges = &exchange, .count = 1};
    return dt_template_render(template, &options, &c, 0, 1, out, err);
}

/* The token of the template that models learn to say behind an answer; where that is the end of a
 * text it is known without. */
static int find_end(struct dt_text_coder *c, const struct dt_template *template, struct dt_err *err)
{
    char question[] = "?", answer[] = "!";
    struct dt_rendered all = {0};
    struct dt_token_found found;
    int rc = render(template, NULL, (struct dt_exchange){question, answer}, &all, err);
    for (size_t i = 0; rc == 0 && c->tokenizer && i < all.count; i++)
        if (all.spans[i].token && all.spans[i].trained &&
            dt_tokenizer_find(c->tokenizer, all.spans[i].token, &found))
            c->answer_end = (int32_t)found.id;
    dt_rendered_finish(&all);
    return rc;
}

static int encode_question(struct dt_text_coder *c, struct dt_chat_coder *coder,
                           const struct dt_template *template, const char *system, char *question,
                           struct dt_prompt *ids, struct dt_err *err)
{
    struct dt_rendered text = {0};
    struct dt_chat_tokens tokens;
    int rc = render(template, system, (struct dt_exchange){question, NULL}, &text, err);
    if (rc == 0)
        rc = dt_chat_coder_encode(coder, &text, &tokens, err);
    if (rc == 0)
        rc = take_ids(ids, tokens.ids, tokens.count, err);
    dt_rendered_finish(&text);
    return rc < 0 ? -1 : find_end(c, template, err);
}

/* A conversation's texts end at their first NUL. */
static int end_question(struct dt_bytes question, struct dt_buf *text, struct dt_err *err)
{
    const uint8_t *nul = question.len ? memchr(question.at, '\0', question.len) : NULL;
    if (nul)
        return dt_err_set(err, DT_E_USAGE,
                          "byte %zu of the prompt is 0, and a question is text; without --template "
                          "a prompt is taken as it is",
                          (size_t)(nul - question.at));
    dt_buf_put(text, question.at, question.len);
    dt_buf_put_u8(text, 0);
    return text->bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a question") : 0;
}

int dt_text_coder_ask(struct dt_text_coder *c, const struct dt_template *template,
                      const char *system, struct dt_bytes question, struct dt_prompt *ids,
                      struct dt_err *err)
{
    *ids = (struct dt_prompt){0};
    struct dt_chat_coder *coder = dt_chat_coder_create(c->tokenizer, template, err);
    struct dt_buf text = {0};
    int rc = coder ? end_question(question, &text, err) : -1;
    if (rc == 0)
        rc = encode_question(c, coder, template, system, (char *)text.at, ids, err);
    if (rc == 0)
        prime(c, ids);
    dt_buf_finish(&text);
    dt_chat_coder_destroy(coder);
    return rc;
}

/* -- from tokens ------------------------------------------------------------------------------ */

void dt_text_coder_put(struct dt_text_coder *c, int32_t id, struct dt_buf *out)
{
    if (c->tokenizer)
        dt_decoder_put(c->decoder, (uint32_t)id, out);
    else if (id < DT_BYTE_END)
        dt_buf_put_u8(out, (uint8_t)id);
}

void dt_text_coder_end(struct dt_text_coder *c, struct dt_buf *out)
{
    if (c->tokenizer)
        dt_decoder_end(c->decoder, out);
}

bool dt_text_coder_ends(const struct dt_text_coder *c, const struct dt_shape *shape, int32_t id)
{
    if (id == c->answer_end)
        return true;
    for (int i = 0; i < shape->eos.count; i++)
        if (shape->eos.id[i] == id)
            return true;
    return c->tokenizer ? (uint32_t)id == dt_tokenizer_end(c->tokenizer) : id == DT_BYTE_END;
}
