/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts pieces where a pattern matches. Matches and the gaps between them take turns; what the step
 * says of a match decides which of them begin a piece and which end one. A gap may be passed on
 * before its end is known, a match never. */
#include "worker_runtime/data/tokenizer/stage.h"

#include "base/list.h"
#include "worker_runtime/data/tokenizer/pattern.h"

#include <stdlib.h>

struct split_stage {
    struct dt_stage stage;
    const struct dt_step *step;
    struct dt_matcher *matcher;
    struct dt_stage_rest rest; /* from the beginning of a match that is not over */
    bool open;                 /* the next stage is within a piece */
    bool after_match;          /* what came last was a match */
    bool in_gap;               /* the beginning of this gap has been passed on */
};

static void emit(struct split_stage *s, struct dt_bytes part, bool end)
{
    if (part.len == 0 && !s->open)
        return;
    s->open = !end;
    s->stage.next->push(s->stage.next, part, end);
}

/* Ends the piece before, where ANEW. */
static void begin(struct split_stage *s, bool anew)
{
    if (anew)
        emit(s, dt_stage_nothing(), true);
}

/* A match or a gap, or with ENDS false the beginning of a gap. */
static void take(struct split_stage *s, struct dt_bytes part, bool match, bool ends)
{
    bool first = !s->in_gap;
    s->in_gap = !ends;
    if (s->step->invert)
        match = !match;
    switch (s->step->behavior) {
    case DT_SPLIT_ISOLATED:
        emit(s, part, ends);
        break;
    case DT_SPLIT_REMOVED:
        if (!match)
            emit(s, part, ends);
        break;
    case DT_SPLIT_PREVIOUS:
        begin(s, first && !match);
        emit(s, part, match && ends);
        break;
    case DT_SPLIT_NEXT:
        begin(s, first && (match || !s->after_match));
        emit(s, part, false);
        break;
    case DT_SPLIT_CONTIGUOUS:
        begin(s, match != s->after_match);
        emit(s, part, false);
        break;
    case DT_SPLIT_REPLACE:
        emit(s, match ? dt_bytes_of(s->step->text) : part, false);
        break;
    }
    s->after_match = match;
}

/* How many bytes of TEXT are done with. */
static size_t cut(struct dt_stage *stage, struct dt_bytes text, bool end)
{
    struct split_stage *s = dt_container_of(stage, struct split_stage, stage);
    size_t at = 0, first, behind;
    while (at < text.len) {
        enum dt_match found =
            dt_matcher_find(s->matcher, text, at, end, &first, &behind, &s->stage.flow->err);
        if (found == DT_MATCH_FAILED)
            return text.len;
        if (found == DT_MATCH_NONE)
            first = text.len;
        bool gap_ends = found == DT_MATCH_FOUND || (end && found == DT_MATCH_NONE);
        if (first > at || (gap_ends && s->in_gap))
            take(s, (struct dt_bytes){text.at + at, first - at}, false, gap_ends);
        if (found != DT_MATCH_FOUND)
            return first;
        take(s, (struct dt_bytes){text.at + first, behind - first}, true, true);
        at = behind;
    }
    return at;
}

static void push_split(struct dt_stage *stage, struct dt_bytes part, bool end)
{
    struct split_stage *s = dt_container_of(stage, struct split_stage, stage);
    if (!dt_stage_cut(stage, &s->rest, part, end, cut) || !end)
        return;
    s->in_gap = s->after_match = false;
    emit(s, dt_stage_nothing(), true);
}

static void destroy_split(struct dt_stage *stage)
{
    struct split_stage *s = dt_container_of(stage, struct split_stage, stage);
    dt_matcher_destroy(s->matcher);
    dt_buf_finish(&s->rest.held);
    free(s);
}

struct dt_stage *dt_stage_split(const struct dt_step *step, struct dt_err *err)
{
    struct split_stage *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    s->step = step;
    s->stage = (struct dt_stage){.push = push_split, .destroy = destroy_split};
    s->matcher = dt_matcher_create(step->pattern, err);
    if (!s->matcher) {
        destroy_split(&s->stage);
        return NULL;
    }
    return &s->stage;
}
