/* SPDX-License-Identifier: Apache-2.0 */
/* A model goes on with a text, token by token. */
#ifndef DT_WORKER_RUNTIME_GENERATE_GENERATION_H
#define DT_WORKER_RUNTIME_GENERATE_GENERATION_H

#include "worker_runtime/device/device.h"
#include "worker_runtime/generate/sampling.h"
#include "worker_runtime/generate/stops.h"

#include <signal.h>

struct dt_template;

struct dt_generation_options {
    const char *model, *base; /* as dt_saved_model_open() takes them */
    const char *tokenizer;    /* its folder; NULL: the model's own, or bytes */
    struct dt_bytes prompt;
    const struct dt_template *template; /* the prompt is a question; NULL: it is gone on with */
    const char *system;                 /* in front of the question; NULL: the template's own */
    size_t max_tokens;
    struct dt_sampling sampling;
    uint64_t seed;
    struct dt_stops stops;
    const volatile sig_atomic_t *stop; /* as dt_inference_heed() has it; NULL: nobody ends it */
    bool visible; /* the text is for a terminal: what would steer it is made visible */
};

enum dt_generation_end {
    DT_GENERATION_GOES_ON,
    DT_GENERATION_END_TOKEN,  /* the model has ended its text */
    DT_GENERATION_STOP,       /* one of the stops came */
    DT_GENERATION_MAX_TOKENS, /* there are as many as were asked for */
    DT_GENERATION_POSITIONS,  /* the model has no place for more */
};

struct dt_generation;

/* Reads the model, and the prompt's tokens. O's pointers, and DEVICE, outlive it. NOTES gets lines
 * on what the model's config.json says in vain. */
struct dt_generation *dt_generation_open(const struct dt_generation_options *o,
                                         struct dt_device *device, struct dt_buf *notes,
                                         struct dt_err *err);
void dt_generation_close(struct dt_generation *g); /* NULL is fine */

/* One token more, or DT_E_CANCELED; before the first, the model reads the prompt. Appends to OUT
 * what is to be shown of the text. Not called again once it has ended. */
int dt_generation_next(struct dt_generation *g, struct dt_buf *out, enum dt_generation_end *end,
                       struct dt_err *err);
/* Nobody wants more: what waits to be shown is appended to OUT. */
void dt_generation_cut(struct dt_generation *g, struct dt_buf *out);

size_t dt_generation_prompt(const struct dt_generation *g); /* tokens */
size_t dt_generation_count(const struct dt_generation *g);  /* of the text so far */

#endif
