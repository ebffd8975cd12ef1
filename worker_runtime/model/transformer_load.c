/* SPDX-License-Identifier: Apache-2.0 */
/* What a pass is given: nothing that the data says is used before it was looked at. */
#include "worker_runtime/model/pass.h"

/* An id outside would be read from outside of the embedding. */
static int check_ids(const struct dt_pass *p, const char *what, const int32_t *ids, int32_t least)
{
    const struct dt_transformer *t = p->t;
    for (size_t i = 0; i < dt_pass_rows(p); i++) {
        if (ids[i] >= least && (ids[i] < 0 || (size_t)ids[i] < t->options.words.all))
            continue;
        size_t sample, position = dt_pieces_place(&t->options.pieces, p->batch, i, &sample);
        return dt_err_set(p->err, DT_E_USAGE,
                          "%s %d of sample %zu at position %zu is none of this model's %zu "
                          "words; the data was made for another vocabulary",
                          what, (int)ids[i], sample, position, t->options.words.all);
    }
    return 0;
}

/* Attention counts on each document to begin within its sample, and not behind a row of its own. */
static int check_documents(const struct dt_pass *p)
{
    size_t positions = p->t->options.positions;
    const int32_t *documents = p->t->options.documents;
    for (size_t i = 0; i < dt_pass_places(p); i++) {
        size_t at = i % positions;
        bool goes_on = at > 0 && documents[i] == documents[i - 1];
        if (!goes_on && (documents[i] < 0 || (size_t)documents[i] != at))
            return dt_err_set(p->err, DT_E_USAGE,
                              "position %zu of sample %zu is in a document that begins at %d", at,
                              i / positions, (int)documents[i]);
    }
    return 0;
}

/* Rotations need no places: what they do to a query and a key depends on how far apart these are.
 */
static void load_places(const struct dt_pass *p, const struct dt_activation_slot *to)
{
    struct dt_transformer *t = p->t;
    const int32_t *documents = t->options.documents;
    size_t rows = dt_pass_rows(p);
    if (to->documents)
        t->device->table->from_host(t->device, to->documents, documents,
                                    dt_pass_places(p) * sizeof *documents);
    if (!to->places)
        return;
    for (size_t i = 0; i < rows; i++) {
        size_t sample, position = dt_pieces_place(&t->options.pieces, p->batch, i, &sample);
        size_t begins = documents ? (size_t)documents[sample * t->options.positions + position] : 0;
        t->places[i] = (int32_t)(position - begins);
    }
    t->device->table->from_host(t->device, to->places, t->places, rows * sizeof *t->places);
}

/* The same as numbers of this rank's words: one of another rank is ELSEWHERE. */
static void load_words(const struct dt_pass *p, int32_t *to, const int32_t *ids, int32_t elsewhere)
{
    struct dt_transformer *t = p->t;
    const struct dt_words *own = &t->options.words;
    size_t rows = dt_pass_rows(p);
    for (size_t i = 0; i < rows && own->parts > 1; i++) {
        size_t id = (size_t)ids[i];
        bool here = ids[i] >= 0 && id >= own->from && id < own->to;
        t->words[i] = ids[i] < 0 ? ids[i] : here ? (int32_t)(id - own->from) : elsewhere;
    }
    t->device->table->from_host(t->device, to, own->parts > 1 ? t->words : ids, rows * sizeof *to);
}

int dt_pass_load(const struct dt_pass *p, const int32_t *ids, const int32_t *targets)
{
    const struct dt_words *own = &p->t->options.words;
    bool first = dt_pass_is_first(p), last = dt_pass_is_last(p);
    struct dt_activation_slot *to = &p->t->a.slots[p->slot];
    if (p->batch > p->t->options.batch)
        return dt_err_set(p->err, DT_E_USAGE, "%zu samples, where there is room for %zu", p->batch,
                          p->t->options.batch);
    if (first && check_ids(p, "token", ids, 0) < 0)
        return -1;
    if (last && check_ids(p, "target", targets, INT32_MIN) < 0)
        return -1;
    if (to->documents && check_documents(p) < 0)
        return -1;
    to->batch = p->batch;
    to->first_sample = p->t->first_sample;
    to->balance = p->t->balance;
    to->z_loss = p->t->z_loss;
    load_places(p, to);
    if (first)
        load_words(p, to->ids, ids, -1);
    if (last)
        load_words(p, to->targets, targets, (int32_t)(own->to - own->from));
    return 0;
}
