/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: how the models of a family were shown conversations, and so how they have to be
 * shown new ones. Hugging Face keeps them as programs in Jinja beside each model; here a family is
 * a row of texts. What comes out is text in which the tokens that a conversation cannot write, such
 * as <|im_start|>, are told apart, and so is what is trained on. */
#ifndef DT_DATA_CHAT_TEMPLATE_H
#define DT_DATA_CHAT_TEMPLATE_H

#include "worker_runtime/data/chat/conversation.h"

#include <stdbool.h>

/* What stands for the token that ends a text, whatever it is called. */
#define DT_TEMPLATE_END "<eos>"

struct dt_template;

/* NULL and *err, which names those that there are. */
const struct dt_template *dt_template_find(const char *name, struct dt_err *err);
/* Number I, from 0 on; NULL: there are no more. */
const char *dt_template_name(size_t i);
/* The tokens that it needs, by their texts; NULL ends them. */
const char *const *dt_template_marks(const struct dt_template *t);

/* A part of a rendered conversation. */
struct dt_span {
    size_t end;        /* in the text; it begins where the one before it ends */
    const char *token; /* it is this mark of the template; NULL: it is text */
    bool trained;
};

/* Zeroed memory is an empty one. */
struct dt_rendered {
    struct dt_buf text;
    struct dt_span *spans;
    size_t count, room;
    bool bad; /* an allocation failed */
};

struct dt_template_options {
    bool train_on_prompt;  /* everything is trained on, and not the answers alone */
    bool last_answer_only; /* of the answers, only the last one */
    const char *system;    /* of conversations without one; "": none; NULL: the template's own */
};

/* C's first COUNT exchanges, at least one; a question without an answer ends with what stands in
 * front of an answer. Replaces what was in OUT. */
int dt_template_render(const struct dt_template *t, const struct dt_template_options *o,
                       const struct dt_conversation *c, size_t first, size_t count,
                       struct dt_rendered *out, struct dt_err *err);
void dt_rendered_finish(struct dt_rendered *r);

#endif
