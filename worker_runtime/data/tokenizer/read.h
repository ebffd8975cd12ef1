/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a tokenizer.json, each into its part of a tokenizer. All functions that return an
 * int give 0, or -1 and the reading's error. */
#ifndef DT_TOKENIZER_READ_H
#define DT_TOKENIZER_READ_H

#include "base/json.h"
#include "worker_runtime/data/tokenizer/inside.h"

#define DT_TOKEN_BYTES_MAX ((size_t)64 << 10)

struct dt_reading {
    struct dt_json doc;
    struct dt_tokenizer *tokenizer;
    struct dt_err *err;
    size_t added_bytes; /* of the added tokens so far, as they are looked for */
    size_t growth;      /* how many bytes the decoder makes of one, at most */
    bool in_bytes;      /* the last pre-tokenizer made characters of bytes, so none can follow it */
};

/* In this order: the ids of added tokens follow those of the model, and a text meets the steps as
 * they are added. */
int dt_read_model(struct dt_reading *r);
int dt_read_added_ids(struct dt_reading *r);
int dt_read_steps(struct dt_reading *r);
int dt_read_post_processor(struct dt_reading *r);
int dt_read_decoder(struct dt_reading *r);

/* -- for the parts ---------------------------------------------------------------------------- */

/* A member of OBJECT (NULL: the root) that is there and not null; NULL. */
const struct cJSON *dt_read_part(const struct dt_reading *r, const struct cJSON *object,
                                 const char *name);
/* OUT keeps what it has where the member is missing or null. */
int dt_read_flag(struct dt_reading *r, const struct cJSON *object, const char *name, bool *out);
/* Sets the error, which names NODE. Returns -1. */
int dt_read_refuse(struct dt_reading *r, const struct cJSON *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* TEXT copied; NULL and the error. */
char *dt_read_copy(struct dt_reading *r, const char *text);
/* Puts STEP, which is the tokenizer's from then on, behind the others. */
int dt_read_add_step(struct dt_reading *r, struct dt_step step);
/* Whether the words of the model are bytes. */
bool dt_read_is_byte_level(const struct dt_reading *r);
/* A step for the added tokens that are looked for in the text as it is, or in NORMALIZED text; none
 * where there are no such tokens. The steps that normalize are those from number FIRST on. */
int dt_read_added_step(struct dt_reading *r, bool normalized, int first);

#endif
