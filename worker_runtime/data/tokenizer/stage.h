/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a text to its words: stages, one behind the other. A stage gets pieces of text in
 * parts of any size, whole characters of UTF-8 each, and passes on what is final: it keeps back
 * what later bytes could change. So a text of any length goes through in little memory, and comes
 * out the same however it was cut. */
#ifndef DT_TOKENIZER_STAGE_H
#define DT_TOKENIZER_STAGE_H

#include "base/buf.h"
#include "base/err.h"

#define DT_PIECE_MAX ((size_t)256 << 20)
#define DT_GROWTH_MAX ((size_t)4096) /* bytes that a tokenizer makes of one, either way */

/* What the stages of one encoder share. */
struct dt_flow {
    struct dt_err err; /* the first failure; NONE: all is well */
    size_t piece_max;  /* bytes that a stage may hold back, and that a word may have */
    bool begun;        /* the first piece of this text, or an added token, came before */
    bool plain;        /* special tokens that stand in the text are text */
    void (*take_token)(struct dt_flow *flow, uint32_t id);
};

struct dt_stage {
    /* A part of a piece; END: the last one, which may be empty. A piece without bytes is none. */
    void (*push)(struct dt_stage *s, struct dt_bytes part, bool end);
    void (*destroy)(struct dt_stage *s);
    struct dt_stage *next;
    struct dt_flow *flow;
};

enum dt_step_kind {
    DT_STEP_ADDED,   /* cuts at added tokens, which become tokens here */
    DT_STEP_NFC,     /* Unicode's normal form of composed characters */
    DT_STEP_PREPEND, /* a text in front of each piece */
    DT_STEP_SPLIT,   /* cuts where a pattern matches, or replaces what matches */
};

enum dt_prepend_where {
    DT_PREPEND_ALWAYS,
    DT_PREPEND_UNLESS_THERE, /* where the piece does not begin with it */
    DT_PREPEND_FIRST,        /* the same, of the first piece of a document alone */
};

/* What becomes of a match; the names are those of the file. */
enum dt_split_behavior {
    DT_SPLIT_ISOLATED,   /* a piece of its own */
    DT_SPLIT_REMOVED,    /* nothing; it ends a piece */
    DT_SPLIT_PREVIOUS,   /* glued to what stands before it */
    DT_SPLIT_NEXT,       /* glued to what follows */
    DT_SPLIT_CONTIGUOUS, /* one piece with the matches beside it */
    DT_SPLIT_REPLACE,    /* becomes the step's text, and cuts nothing */
};

struct dt_pattern;
struct dt_added;

/* What a stage is made of. A tokenizer has a list of steps, which its encoders share. */
struct dt_step {
    enum dt_step_kind kind;
    char *text; /* prepended, or in place of a match; owned */
    enum dt_prepend_where where;
    enum dt_split_behavior behavior;
    bool invert;                /* what lies between matches is the match */
    struct dt_pattern *pattern; /* of SPLIT; owned */
    struct dt_added *added;     /* of ADDED; owned */
};

/* The stage of STEP, which outlives it. NULL and *err: no memory. Its destroy() ends it. */
struct dt_stage *dt_stage_create(const struct dt_step *step, struct dt_err *err);
/* Bytes in, whole characters out: each maximal part that is no UTF-8 becomes U+FFFD. */
struct dt_stage *dt_stage_utf8(struct dt_err *err);
/* What is in a step, and not the step itself. */
void dt_step_finish(struct dt_step *step);

/* A part without bytes, which only ends a piece. */
static inline struct dt_bytes dt_stage_nothing(void)
{
    return dt_bytes_of(""); /* at NULL there is nothing to begin at */
}

/* -- for the stages themselves ---------------------------------------------------------------- */

struct dt_stage *dt_stage_added(const struct dt_step *step, struct dt_err *err);
struct dt_stage *dt_stage_nfc(const struct dt_step *step, struct dt_err *err);
struct dt_stage *dt_stage_split(const struct dt_step *step, struct dt_err *err);

/* Whether all that was written into BUF is there; if not, that is the flow's failure. */
bool dt_stage_has_room(struct dt_stage *s, const struct dt_buf *buf);
/* Puts REST behind what the stage HELD back. false: there is no room, or more than a piece may
 * have; that, or what failed before, is the flow's failure. */
bool dt_stage_hold(struct dt_stage *s, struct dt_buf *held, struct dt_bytes rest);

/* Text that a stage cannot decide about before it has seen more of it. */
struct dt_stage_rest {
    struct dt_buf held;
    size_t enough; /* bytes of HELD below which nothing new would come out */
};
/* How many bytes of TEXT a stage is done with; nothing follows where END is true. */
typedef size_t dt_stage_cut_fn(struct dt_stage *s, struct dt_bytes text, bool end);
/* PART comes behind what R holds: CUT takes what it can, and R holds the rest. false: it waits for
 * more, or the flow has failed. */
bool dt_stage_cut(struct dt_stage *s, struct dt_stage_rest *r, struct dt_bytes part, bool end,
                  dt_stage_cut_fn *cut);

#endif
