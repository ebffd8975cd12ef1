/* SPDX-License-Identifier: Apache-2.0 */
/* The stages that need no tables: UTF-8, and texts in front of pieces. */
#include "worker_runtime/data/tokenizer/stage.h"

#include "base/list.h"
#include "worker_runtime/data/tokenizer/added.h"
#include "worker_runtime/data/tokenizer/lossy.h"
#include "worker_runtime/data/tokenizer/pattern.h"

#include <stdlib.h>

/* What is longer than this and not over is looked at again when it has doubled: else a word of many
 * megabytes would be read from its beginning with each part. */
#define LONG 256

bool dt_stage_has_room(struct dt_stage *s, const struct dt_buf *buf)
{
    if (buf->bad && s->flow->err.code == DT_E_NONE)
        dt_err_set(&s->flow->err, DT_E_MEMORY, "no memory for a piece of %zu bytes", buf->len);
    return !buf->bad;
}

bool dt_stage_hold(struct dt_stage *s, struct dt_buf *held, struct dt_bytes rest)
{
    struct dt_flow *flow = s->flow;
    if (flow->err.code == DT_E_NONE && rest.len > flow->piece_max - held->len)
        dt_err_set(&flow->err, DT_E_LIMIT,
                   "more than %zu MiB of text in which this tokenizer finds no place to cut",
                   flow->piece_max >> 20);
    if (flow->err.code != DT_E_NONE)
        return false;
    dt_buf_put(held, rest.at, rest.len);
    return dt_stage_has_room(s, held);
}

bool dt_stage_cut(struct dt_stage *s, struct dt_stage_rest *r, struct dt_bytes part, bool end,
                  dt_stage_cut_fn *cut)
{
    struct dt_buf *held = &r->held;
    if (s->flow->err.code != DT_E_NONE)
        return false;
    if (held->len == 0) {
        size_t done = cut(s, part, end);
        dt_stage_hold(s, held, (struct dt_bytes){part.at + done, part.len - done});
    } else {
        if (!dt_stage_hold(s, held, part) || (!end && held->len < r->enough))
            return false;
        dt_buf_consume(held, cut(s, (struct dt_bytes){held->at, held->len}, end));
    }
    r->enough = held->len > LONG ? 2 * held->len : 0;
    return true;
}

/* -- UTF-8 ------------------------------------------------------------------------------------ */

struct utf8_stage {
    struct dt_stage stage;
    struct dt_lossy lossy;
    struct dt_buf out;
};

static void push_utf8(struct dt_stage *stage, struct dt_bytes part, bool end)
{
    struct utf8_stage *s = dt_container_of(stage, struct utf8_stage, stage);
    size_t plain = s->lossy.len ? 0 : dt_lossy_whole(part);
    if (plain)
        stage->next->push(stage->next, (struct dt_bytes){part.at, plain}, false);
    part = (struct dt_bytes){part.at + plain, part.len - plain};
    dt_buf_clear(&s->out);
    dt_lossy_put(&s->lossy, part, end, &s->out);
    if (dt_stage_has_room(stage, &s->out) && (s->out.len || end))
        stage->next->push(
            stage->next, s->out.len ? (struct dt_bytes){s->out.at, s->out.len} : dt_stage_nothing(),
            end);
}

static void destroy_utf8(struct dt_stage *stage)
{
    struct utf8_stage *s = dt_container_of(stage, struct utf8_stage, stage);
    dt_buf_finish(&s->out);
    free(s);
}

struct dt_stage *dt_stage_utf8(struct dt_err *err)
{
    struct utf8_stage *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    s->stage = (struct dt_stage){.push = push_utf8, .destroy = destroy_utf8};
    return &s->stage;
}

/* -- a text in front -------------------------------------------------------------------------- */

struct prepend_stage {
    struct dt_stage stage;
    const struct dt_step *step;
    bool open; /* within a piece */
};

static bool begins_with(struct dt_bytes piece, struct dt_bytes text)
{
    return piece.len >= text.len && memcmp(piece.at, text.at, text.len) == 0;
}

/* PART: the first of a piece. The text is one character where it matters whether it is there, so
 * the part is long enough. */
static bool wants_text(const struct prepend_stage *s, struct dt_bytes part)
{
    switch (s->step->where) {
    case DT_PREPEND_ALWAYS:
        return true;
    case DT_PREPEND_FIRST:
        if (s->stage.flow->begun)
            return false;
        break;
    case DT_PREPEND_UNLESS_THERE:
        break;
    }
    return !begins_with(part, dt_bytes_of(s->step->text));
}

static void push_prepend(struct dt_stage *stage, struct dt_bytes part, bool end)
{
    struct prepend_stage *s = dt_container_of(stage, struct prepend_stage, stage);
    if (!s->open && part.len == 0)
        return;
    if (!s->open && wants_text(s, part))
        stage->next->push(stage->next, dt_bytes_of(s->step->text), false);
    if (s->step->where == DT_PREPEND_FIRST)
        stage->flow->begun = true;
    s->open = !end;
    stage->next->push(stage->next, part, end);
}

static void destroy_prepend(struct dt_stage *stage)
{
    free(dt_container_of(stage, struct prepend_stage, stage));
}

static struct dt_stage *create_prepend(const struct dt_step *step, struct dt_err *err)
{
    struct prepend_stage *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    s->step = step;
    s->stage = (struct dt_stage){.push = push_prepend, .destroy = destroy_prepend};
    return &s->stage;
}

/* -- any of them ------------------------------------------------------------------------------ */

struct dt_stage *dt_stage_create(const struct dt_step *step, struct dt_err *err)
{
    switch (step->kind) {
    case DT_STEP_ADDED:
        return dt_stage_added(step, err);
    case DT_STEP_NFC:
        return dt_stage_nfc(step, err);
    case DT_STEP_PREPEND:
        return create_prepend(step, err);
    case DT_STEP_SPLIT:
        return dt_stage_split(step, err);
    }
    return NULL;
}

void dt_step_finish(struct dt_step *step)
{
    free(step->text);
    dt_pattern_destroy(step->pattern);
    dt_added_destroy(step->added);
}
