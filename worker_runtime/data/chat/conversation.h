/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation, as people write them down for training: what somebody asked and what was
 * answered, in turns. Three ways to write one as an object of JSON are read:
 *
 *     messages       a list of {"role", "content"}, as of OpenAI
 *     conversations  a list of {"from", "value"}, as of ShareGPT
 *     instruction    with "input", "output", "system" and "history", as of Alpaca */
#ifndef DT_DATA_CHAT_CONVERSATION_H
#define DT_DATA_CHAT_CONVERSATION_H

#include "base/buf.h"
#include "base/err.h"

struct dt_exchange {
    char *question;
    char *answer; /* NULL, of the last one alone: it is still to come */
};

/* What the parts of one are called, where they have names of their own. NULL: there is no such
 * part. With MESSAGES it is a list of messages, which need the names from .role on, and else a
 * question and an answer. */
struct dt_columns {
    const char *messages, *system;
    const char *prompt, *query, *response, *history;
    const char *role, *content;                 /* keys of a message */
    const char *user, *assistant, *system_role; /* who says it */
    const char *chosen, *rejected;              /* of a preference, in place of the last answer */
};

/* Zeroed memory is an empty one. Its texts are its own. */
struct dt_conversation {
    char *system; /* NULL: there is none */
    struct dt_exchange *exchanges;
    size_t count;
};

void dt_conversation_finish(struct dt_conversation *c);

/* OBJECT: the text of one. 1: it is there; 0: it is whole, but nothing that could be trained on,
 * for the reason *WHY; -1: it is none. */
int dt_conversation_read(struct dt_conversation *c, struct dt_bytes object, const char **why,
                         struct dt_err *err);

/* A prompt with two answers, of which somebody has chosen one: two conversations that differ in
 * their last answer. The prompt is "prompt", a text or a list of messages, or a conversation as
 * above whose last answer is missing; "chosen" and "rejected" are texts, messages, or lists of
 * messages, with the prompt in front of them or not. */
struct dt_preference {
    struct dt_conversation chosen, rejected;
};

void dt_preference_finish(struct dt_preference *p);
/* As dt_conversation_read(). */
int dt_preference_read(struct dt_preference *p, struct dt_bytes object, const char **why,
                       struct dt_err *err);

/* The same of one whose parts are called as COLUMNS says; of a preference, which names .chosen and
 * .rejected. */
int dt_conversation_read_as(struct dt_conversation *c, struct dt_bytes object,
                            const struct dt_columns *columns, const char **why, struct dt_err *err);
int dt_preference_read_as(struct dt_preference *p, struct dt_bytes object,
                          const struct dt_columns *columns, const char **why, struct dt_err *err);

/* The text that OBJECT has under KEY, to be freed. NULL and *err. */
char *dt_conversation_read_text(struct dt_bytes object, const char *key, struct dt_err *err);

#endif
