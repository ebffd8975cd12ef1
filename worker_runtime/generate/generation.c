/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/generate/generation.h"

#include "worker_runtime/generate/speech.h"
#include "worker_runtime/generate/text_coder.h"
#include "worker_runtime/generate/weights.h"
#include "worker_runtime/model/inference.h"
#include "worker_runtime/saved/saved_model.h"

#include <stdlib.h>

struct dt_generation {
    const struct dt_generation_options *o;
    struct dt_weights weights;
    struct dt_text_coder coder;
    struct dt_speech speech;
    struct dt_inference *inference;
    struct dt_prompt prompt;
    int32_t last; /* the token that came last, not read yet */
    size_t count;
    float *logits;
    struct dt_candidate *candidates; /* as many as there are words */
};

static size_t capacity_of(const struct dt_generation *g)
{
    size_t room = g->weights.shape.positions - g->prompt.count, most = g->o->max_tokens;
    return g->prompt.count + (most < room ? most : room);
}

static int open_prompt(struct dt_generation *g, struct dt_err *err)
{
    const struct dt_shape *shape = &g->weights.shape;
    char tokenizer[PATH_MAX];
    if (dt_saved_model_tokenizer(g->o->tokenizer, g->o->model, g->o->base, shape, tokenizer, err) <
            0 ||
        dt_text_coder_open(&g->coder, tokenizer, err) < 0)
        return -1;
    int rc = g->o->template ? dt_text_coder_ask(&g->coder, g->o->template, g->o->system,
                                                g->o->prompt, &g->prompt, err)
                            : dt_text_coder_encode(&g->coder, g->o->prompt, shape, &g->prompt, err);
    if (rc < 0)
        return -1;
    if (g->prompt.count <= shape->positions)
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "the prompt has %zu tokens, and this model takes texts of at most %zu; give "
                      "a shorter one",
                      g->prompt.count, shape->positions);
}

static int open_model(struct dt_generation *g, struct dt_device *device, struct dt_err *err)
{
    const struct dt_shape *shape = &g->weights.shape;
    g->inference = dt_inference_create(shape, g->weights.units, capacity_of(g), device, err);
    if (!g->inference)
        return -1;
    dt_inference_heed(g->inference, g->o->stop);
    g->logits = calloc(shape->vocabulary, sizeof *g->logits);
    g->candidates = calloc(shape->vocabulary, sizeof *g->candidates);
    if (!g->logits || !g->candidates)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu words", shape->vocabulary);
    return 0;
}

struct dt_generation *dt_generation_open(const struct dt_generation_options *o,
                                         struct dt_device *device, struct dt_buf *notes,
                                         struct dt_err *err)
{
    struct dt_generation *g = calloc(1, sizeof *g);
    if (!g) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a model");
        return NULL;
    }
    g->o = o;
    g->speech = (struct dt_speech){.stops = o->stops, .visible = o->visible};
    if (dt_weights_read(&g->weights, o->model, o->base, device, notes, err) == 0 &&
        open_prompt(g, err) == 0 && open_model(g, device, err) == 0)
        return g;
    dt_generation_close(g);
    return NULL;
}

void dt_generation_close(struct dt_generation *g)
{
    if (!g)
        return;
    dt_inference_destroy(g->inference);
    dt_weights_finish(&g->weights);
    dt_text_coder_finish(&g->coder);
    dt_speech_finish(&g->speech);
    free(g->prompt.at);
    free(g->logits);
    free(g->candidates);
    free(g);
}

size_t dt_generation_prompt(const struct dt_generation *g)
{
    return g->prompt.count;
}

size_t dt_generation_count(const struct dt_generation *g)
{
    return g->count;
}

static int say(struct dt_generation *g, const int32_t *id, struct dt_buf *out, struct dt_err *err)
{
    struct dt_buf text = {0};
    if (id)
        dt_text_coder_put(&g->coder, *id, &text);
    else
        dt_text_coder_end(&g->coder, &text);
    dt_speech_put(&g->speech, (struct dt_bytes){text.at, text.len}, !id, out);
    out->bad = out->bad || text.bad;
    dt_buf_finish(&text);
    return out->bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a text") : 0;
}

void dt_generation_cut(struct dt_generation *g, struct dt_buf *out)
{
    say(g, NULL, out, NULL);
}

static enum dt_generation_end end_of(const struct dt_generation *g)
{
    if (g->speech.stopped)
        return DT_GENERATION_STOP;
    if (g->count >= g->o->max_tokens)
        return DT_GENERATION_MAX_TOKENS;
    if (g->prompt.count + g->count > g->weights.shape.positions)
        return DT_GENERATION_POSITIONS;
    return DT_GENERATION_GOES_ON;
}

static int pick(struct dt_generation *g, int32_t *id, struct dt_err *err)
{
    double chance = dt_sampling_chance(g->o->seed, g->count);
    *id = dt_sampling_pick(&g->o->sampling, g->logits, g->weights.shape.vocabulary, chance,
                           g->candidates);
    if (*id >= 0)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME,
                      "the model gives no number for any token; it has diverged, or its files are "
                      "damaged");
}

int dt_generation_next(struct dt_generation *g, struct dt_buf *out, enum dt_generation_end *end,
                       struct dt_err *err)
{
    const int32_t *ids = g->count ? &g->last : g->prompt.at;
    size_t count = g->count ? 1 : g->prompt.count;
    *end = DT_GENERATION_END_TOKEN;
    if (dt_inference_read(g->inference, ids, count, g->logits, err) < 0 ||
        pick(g, &g->last, err) < 0)
        return -1;
    if (dt_text_coder_ends(&g->coder, &g->weights.shape, g->last))
        return say(g, NULL, out, err);
    g->count++;
    if (say(g, &g->last, out, err) < 0)
        return -1;
    *end = end_of(g);
    return *end == DT_GENERATION_GOES_ON ? 0 : say(g, NULL, out, err);
}
