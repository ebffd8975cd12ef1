/* SPDX-License-Identifier: Apache-2.0 */
/* Files of JSON Lines, an object with a conversation or a text in each line, or of one array of
 * such objects, become one file of tokens that tells its documents and what of them is trained on.
 */
#ifndef DT_WORKER_RUNTIME_DATA_TOKENIZE_CHATS_H
#define DT_WORKER_RUNTIME_DATA_TOKENIZE_CHATS_H

#include "worker_runtime/data/chat/template.h"

#include <stdint.h>

struct dt_tokenizer;

/* A file that is not read as its objects look. */
struct dt_chat_source {
    struct dt_columns columns;
    uint64_t most; /* objects that are read of it; 0: all */
};

/* Is told now and then how many lines were read. */
typedef void dt_chat_progress_fn(void *arg, uint64_t lines);

struct dt_chat_options {
    const struct dt_template *template; /* of conversations; NULL: KEY says where a text stands */
    const char *key;
    bool preferences; /* lines are pairs of answers, and the last answer alone counts; with TEMPLATE
                       */
    struct dt_template_options trains;
    uint64_t max_tokens; /* that a document may have; 0: any number */
    /* Where that share of all lines goes in place of OUT, spread evenly over them; NULL: nowhere.
     */
    const char *validation;
    double share;       /* above 0, below 1 */
    uint64_t set_aside; /* in its place: how many lines, about; 0: the share */
    const struct dt_chat_source
        *sources;                  /* of each file; NULL: objects look as one of three forms */
    dt_chat_progress_fn *progress; /* NULL: nobody wants to know */
    void *progress_arg;
};

struct dt_chat_counts {
    uint64_t lines, documents, tokens, trained; /* but for the lines, of OUT; a pair has two */
    uint64_t validation_documents, validation_tokens;
    uint64_t cut;      /* conversations without their last exchanges, or the first where only the
                          last answer is trained on; texts in several documents */
    uint64_t too_long; /* left out: not even one exchange fits */
    uint64_t unfit;    /* left out: nothing to train on */
    char first_unfit[200];
    uint64_t mended; /* lines with half a character, which became U+FFFD */
    char first_mended[120];
};

/* OUT and the file for validation are replaced when all is written. T NULL: a byte is a token. "-":
 * standard input. */
int dt_tokenize_chats(const struct dt_tokenizer *t, const struct dt_chat_options *o,
                      const char *const *files, int count, const char *out,
                      struct dt_chat_counts *counts, struct dt_err *err);

#endif
