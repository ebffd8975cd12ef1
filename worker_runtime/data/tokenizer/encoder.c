/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "worker_runtime/data/tokenizer/crowd.h"
#include "worker_runtime/data/tokenizer/inside.h"

#include <stdlib.h>

#define BLOCK_TEXT ((size_t)128 << 10) /* bytes of words from which on a block is handed over */
#define BLOCK_ITEMS ((size_t)64 << 10)
#define GROWTH_SPARE ((uint64_t)1 << 20) /* bytes that may come of any text */

struct dt_encoder {
    const struct dt_tokenizer *tokenizer;
    struct dt_flow flow;
    struct dt_stage *first; /* of the stages; the last one is WORDS */
    struct dt_stage words;
    struct dt_crowd *crowd;
    uint64_t given, made; /* bytes of texts so far, and of their words */
    size_t open;          /* bytes of a word that goes on */
    bool in_text;         /* the front tokens of this text have been put */
};

/* -- where words and tokens go ---------------------------------------------------------------- */

static void put_item(struct dt_encoder *e, uint32_t item)
{
    struct dt_block *b = dt_crowd_block(e->crowd);
    dt_ids_put(&b->items, &item, 1);
    if (b->items.bad || b->text.bad)
        dt_err_set(&e->flow.err, DT_E_MEMORY, "no memory for words");
    else if (b->text.len >= BLOCK_TEXT || b->items.len >= BLOCK_ITEMS)
        dt_crowd_submit(e->crowd, &e->flow.err);
}

/* Whether the word that goes on may have MORE bytes. Replacements one behind the other multiply, so
 * that few bytes of text may become words without end. */
static int check_word(struct dt_encoder *e, size_t more)
{
    if (more > e->flow.piece_max - e->open)
        return dt_err_set(&e->flow.err, DT_E_LIMIT,
                          "a word of more than %zu MiB: this tokenizer does not cut it",
                          e->flow.piece_max >> 20);
    if (e->made + more > DT_GROWTH_MAX * e->given + GROWTH_SPARE)
        return dt_err_set(&e->flow.err, DT_E_LIMIT,
                          "this tokenizer makes more than %zu bytes of each one of the text",
                          DT_GROWTH_MAX);
    return 0;
}

static void push_word(struct dt_stage *stage, struct dt_bytes part, bool end)
{
    struct dt_encoder *e = dt_container_of(stage, struct dt_encoder, words);
    if (e->flow.err.code != DT_E_NONE || check_word(e, part.len) < 0)
        return;
    dt_buf_put(&dt_crowd_block(e->crowd)->text, part.at, part.len);
    e->open += part.len;
    e->made += part.len;
    if (!end || e->open == 0)
        return;
    uint32_t len = (uint32_t)e->open;
    e->open = 0;
    put_item(e, len);
}

static void put_token(struct dt_flow *flow, uint32_t id)
{
    struct dt_encoder *e = dt_container_of(flow, struct dt_encoder, flow);
    if (flow->err.code == DT_E_NONE)
        put_item(e, id | DT_BLOCK_TOKEN);
}

/* -- stages ----------------------------------------------------------------------------------- */

static struct dt_stage **link_stage(struct dt_encoder *e, struct dt_stage **at,
                                    struct dt_stage *stage)
{
    stage->flow = &e->flow;
    stage->next = &e->words;
    *at = stage;
    return &stage->next;
}

static int make_stages(struct dt_encoder *e, struct dt_err *err)
{
    const struct dt_tokenizer *t = e->tokenizer;
    struct dt_stage **at = &e->first, *stage = dt_stage_utf8(err);
    e->words = (struct dt_stage){.push = push_word, .flow = &e->flow};
    e->first = &e->words;
    for (int i = 0; stage; i++) {
        at = link_stage(e, at, stage);
        if (i == t->step_count)
            return 0;
        stage = dt_stage_create(&t->steps[i], err);
    }
    return -1;
}

struct dt_encoder *dt_encoder_create(const struct dt_tokenizer *t, int threads, dt_ids_fn *take,
                                     void *arg, struct dt_err *err)
{
    struct dt_encoder *e = calloc(1, sizeof *e);
    if (!e) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    e->tokenizer = t;
    e->flow.piece_max = DT_PIECE_MAX;
    e->flow.take_token = put_token;
    e->crowd = dt_crowd_create(&t->bpe, threads, take, arg, err);
    if (make_stages(e, err) == 0 && e->crowd)
        return e;
    dt_encoder_destroy(e);
    return NULL;
}

void dt_encoder_destroy(struct dt_encoder *e)
{
    if (!e)
        return;
    for (struct dt_stage *s = e->first, *next; s != &e->words; s = next) {
        next = s->next;
        s->destroy(s);
    }
    dt_crowd_destroy(e->crowd);
    free(e);
}

/* -- texts ------------------------------------------------------------------------------------ */

static int outcome(const struct dt_encoder *e, struct dt_err *err)
{
    if (e->flow.err.code == DT_E_NONE)
        return 0;
    return dt_err_set(err, e->flow.err.code, "%s", e->flow.err.text);
}

static void put_tokens(struct dt_encoder *e, const struct dt_ids *ids)
{
    for (size_t i = 0; i < ids->len; i++)
        put_token(&e->flow, ids->at[i]);
}

static void begin_text(struct dt_encoder *e)
{
    if (!e->in_text)
        put_tokens(e, &e->tokenizer->front);
    e->in_text = true;
}

int dt_encoder_put(struct dt_encoder *e, struct dt_bytes part, struct dt_err *err)
{
    begin_text(e);
    e->given += part.len;
    if (part.len && e->flow.err.code == DT_E_NONE)
        e->first->push(e->first, part, false);
    return outcome(e, err);
}

int dt_encoder_end(struct dt_encoder *e, uint32_t id, struct dt_err *err)
{
    const struct dt_ids *back = &e->tokenizer->back;
    begin_text(e);
    if (e->flow.err.code == DT_E_NONE)
        e->first->push(e->first, dt_stage_nothing(), true);
    put_tokens(e, back);
    if (id != DT_TOKEN_NONE && !(back->len && back->at[back->len - 1] == id))
        put_token(&e->flow, id);
    e->in_text = false;
    e->flow.begun = false;
    return outcome(e, err);
}

int dt_encoder_piece(struct dt_encoder *e, struct dt_bytes piece, bool first, struct dt_err *err)
{
    e->flow.plain = true;
    e->flow.begun = !first;
    e->given += piece.len;
    if (piece.len && e->flow.err.code == DT_E_NONE)
        e->first->push(e->first, piece, true);
    return dt_encoder_drain(e, err);
}

int dt_encoder_drain(struct dt_encoder *e, struct dt_err *err)
{
    if (outcome(e, err) < 0)
        return -1;
    if (dt_crowd_block(e->crowd)->items.len && dt_crowd_submit(e->crowd, err) < 0)
        return -1;
    return dt_crowd_drain(e->crowd, err);
}
