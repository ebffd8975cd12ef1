/* SPDX-License-Identifier: Apache-2.0 */
/* A document of N tokens takes N - 1 positions: its last token is a target alone. */
#include "worker_runtime/data/samples.h"

#include "worker_runtime/data/pack.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)64 << 10)

struct dt_samples {
    const struct dt_tokens *tokens;
    size_t positions, count;
    bool alone;
    /* Of a packed file. */
    size_t documents;
    uint64_t *begins; /* [documents + 1]: their first tokens, and the end of the last */
    struct dt_pack pack;
    uint32_t *targets; /* [count]: that count */
    uint64_t filled;
    int32_t *ids; /* [positions + 1]: of a document */
    bool *trained;
};

static int no_memory(const struct dt_samples *s, struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory to pack %zu documents", s->documents);
}

static uint32_t tokens_of(const struct dt_samples *s, size_t document)
{
    uint64_t n = s->begins[document + 1] - s->begins[document];
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static int read_begins(struct dt_samples *s, struct dt_err *err)
{
    s->begins = calloc(s->documents + 1, sizeof *s->begins);
    if (!s->begins)
        return no_memory(s, err);
    s->begins[s->documents] = dt_tokens_count(s->tokens);
    return dt_tokens_begins(s->tokens, 0, s->documents, s->begins, err);
}

static int pack(struct dt_samples *s, struct dt_err *err)
{
    uint32_t *lengths = calloc(s->documents, sizeof *lengths);
    if (!lengths)
        return no_memory(s, err);
    for (size_t i = 0; i < s->documents; i++)
        lengths[i] = tokens_of(s, i) - 1;
    int rc = (dt_samples_paired(s) ? dt_pack_pairs
              : s->alone           ? dt_pack_alone
                         : dt_pack_make)(&s->pack, lengths, s->documents, s->positions, err);
    for (size_t i = 0; rc == 0 && i < s->pack.first[s->pack.samples]; i++)
        s->filled += lengths[s->pack.order[i]];
    s->count = rc == 0 ? s->pack.samples : 0;
    free(lengths);
    return rc;
}

/* Into OF: tokens of each document that are trained on. */
static int count_trained(const struct dt_samples *s, uint32_t *of, struct dt_err *err)
{
    bool *trained = malloc(CHUNK);
    size_t all = dt_tokens_count(s->tokens), document = 0;
    int rc = trained ? 0 : no_memory(s, err);
    for (size_t at = 0, n; rc == 0 && at < all; at += n) {
        n = all - at < CHUNK ? all - at : CHUNK;
        rc = dt_tokens_trained(s->tokens, at, n, trained, err);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            document += at + i == s->begins[document + 1];
            of[document] += trained[i] && at + i > s->begins[document];
        }
    }
    free(trained);
    return rc;
}

/* Answers without a token that counts cannot be compared. */
static int check_pairs(const struct dt_samples *s, const uint32_t *trained, struct dt_err *err)
{
    for (size_t i = 0; dt_samples_paired(s) && i < s->documents; i++)
        if (trained[i] == 0)
            return dt_err_set(err, DT_E_RUNTIME,
                              "document %zu, the %s answer of pair %zu, marks no token as trained "
                              "on, so there is nothing to compare; tokenize it again",
                              i, i % 2 ? "rejected" : "chosen", i / 2);
    return 0;
}

static int count_targets(struct dt_samples *s, struct dt_err *err)
{
    uint32_t *trained = calloc(s->documents, sizeof *trained);
    s->targets = calloc(s->count + 1, sizeof *s->targets);
    int rc = trained && s->targets ? count_trained(s, trained, err) : no_memory(s, err);
    rc = rc == 0 ? check_pairs(s, trained, err) : rc;
    for (size_t i = 0; rc == 0 && i < s->count; i++)
        for (size_t k = s->pack.first[i]; k < s->pack.first[i + 1]; k++)
            s->targets[i] += trained[s->pack.order[k]];
    free(trained);
    return rc;
}

static int too_long(const struct dt_samples *s, struct dt_err *err)
{
    if (!dt_samples_paired(s))
        return dt_err_set(err, DT_E_RUNTIME,
                          "none of its %zu documents has 2 to %zu tokens, as a sample holds; "
                          "tokenize with a smaller --max-tokens, or give a greater "
                          "data.sequence_length",
                          s->documents, s->positions + 1);
    return dt_err_set(err, DT_E_RUNTIME,
                      "none of its %zu pairs has at most %zu tokens in both answers together, as a "
                      "sample holds; tokenize with a smaller --max-tokens, or give a greater "
                      "data.sequence_length",
                      s->documents / 2, s->positions + 2);
}

static int open_packed(struct dt_samples *s, struct dt_err *err)
{
    s->ids = calloc(s->positions + 1, sizeof *s->ids);
    s->trained = calloc(s->positions + 1, sizeof *s->trained);
    if (!s->ids || !s->trained)
        return no_memory(s, err);
    if (read_begins(s, err) < 0 || pack(s, err) < 0 || count_targets(s, err) < 0)
        return -1;
    if (s->count == 0)
        return too_long(s, err);
    if (dt_samples_packing(s).targets > 0)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME,
                      "it marks no token of the %zu documents that fit into samples as trained on, "
                      "so there is nothing to learn; show-data shows what it marks",
                      s->documents - s->pack.left_out);
}

static int open_cut(struct dt_samples *s, struct dt_err *err)
{
    s->count = dt_tokens_samples(s->tokens, s->positions);
    if (s->count > 0)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME,
                      "it holds %zu tokens, fewer than one sample of %zu and its last target; "
                      "give more text, or a smaller data.sequence_length",
                      dt_tokens_count(s->tokens), s->positions);
}

struct dt_samples *dt_samples_open(const struct dt_tokens *t, size_t positions, bool alone,
                                   struct dt_err *err)
{
    struct dt_samples *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for samples");
        return NULL;
    }
    s->tokens = t;
    s->positions = positions;
    s->alone = alone;
    s->documents = dt_tokens_documents(t);
    if ((s->documents ? open_packed(s, err) : open_cut(s, err)) == 0)
        return s;
    dt_samples_close(s);
    return NULL;
}

void dt_samples_close(struct dt_samples *s)
{
    if (!s)
        return;
    dt_pack_finish(&s->pack);
    free(s->begins);
    free(s->targets);
    free(s->ids);
    free(s->trained);
    free(s);
}

size_t dt_samples_count(const struct dt_samples *s)
{
    return s->count;
}

bool dt_samples_packed(const struct dt_samples *s)
{
    return s->documents > 0;
}

bool dt_samples_paired(const struct dt_samples *s)
{
    return dt_tokens_are_pairs(s->tokens);
}

size_t dt_samples_pick(const struct dt_samples *s, size_t i, size_t count)
{
    return dt_samples_packed(s) ? (2 * i + 1) * s->count / (2 * count) : i;
}

uint64_t dt_samples_targets(const struct dt_samples *s, size_t i)
{
    return s->targets ? s->targets[i] : s->positions;
}

struct dt_samples_packing dt_samples_packing(const struct dt_samples *s)
{
    struct dt_samples_packing p = {
        .documents = s->documents, .left_out = s->pack.left_out, .filled = s->filled};
    for (size_t i = 0; i < s->count; i++)
        p.targets += dt_samples_targets(s, i);
    return p;
}

/* From position AT on; *LEN positions. */
static int read_document(struct dt_samples *s, size_t document, size_t at, int32_t *ids,
                         int32_t *targets, int32_t *documents, size_t *len, struct dt_err *err)
{
    size_t n = tokens_of(s, document), first = (size_t)s->begins[document];
    *len = n - 1;
    if (dt_tokens_read(s->tokens, first, n, s->ids, err) < 0 ||
        dt_tokens_trained(s->tokens, first, n, s->trained, err) < 0)
        return -1;
    for (size_t i = 0; i < *len; i++) {
        ids[at + i] = s->ids[i];
        targets[at + i] = s->trained[i + 1] ? s->ids[i + 1] : -1;
        documents[at + i] = (int32_t)at;
    }
    return 0;
}

int dt_samples_read(struct dt_samples *s, size_t i, int32_t *ids, int32_t *targets,
                    int32_t *documents, struct dt_err *err)
{
    size_t at = 0;
    if (!dt_samples_packed(s)) {
        if (documents)
            memset(documents, 0, s->positions * sizeof *documents);
        return dt_tokens_sample(s->tokens, i, s->positions, ids, targets, err);
    }
    for (size_t k = s->pack.first[i], len; k < s->pack.first[i + 1]; k++, at += len)
        if (read_document(s, s->pack.order[k], at, ids, targets, documents, &len, err) < 0)
            return -1;
    for (; at < s->positions; at++) { /* what stays empty: documents of one position each */
        ids[at] = 0;
        targets[at] = -1;
        documents[at] = (int32_t)at;
    }
    return 0;
}
