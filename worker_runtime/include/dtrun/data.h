/* SPDX-License-Identifier: Apache-2.0 */
/* Data: files of tokens, and an order of samples that does not depend on the number of ranks.
 *
 * With N samples a step, sample I of step S (from 0 on) is
 *
 *     dt_tokens_sample(t, dt_sampler_at(&order, S * N + I), positions, ids, targets, &err)
 *
 * whoever computes it: ranks share the I of a step as they like, and a run that goes on from step S
 * with another number of ranks misses no sample and sees none twice. */
#ifndef DTRUN_DATA_H
#define DTRUN_DATA_H

#include <dtrun/api.h>

DT_BEGIN_C

/* A file of tokens: a header that says how wide they are, then one behind the other;
 * `dtrun-train tokenize` writes it.
 *
 *     0   8  "DTRTOKEN"          16  4  tokenizer: 0 unknown, 1 bytes
 *     8   4  version, 1 to 3     20  4  vocabulary: all tokens are below it; 0: not told
 *     12  4  bytes a token, 2/4  24  8  tokens            then the tokens, little-endian
 *
 * Version 2 knows of documents, such as conversations, and of what they teach:
 *
 *     32  8  documents           40  8  tokens that are trained on      then the tokens, and
 *
 * a bit for each token, the lowest of a byte first: whether it is trained on, which the first of a
 * document never is; and for each document 8 bytes: its first token. The first document begins at
 * token 0, and none is empty.
 *
 * Version 3 has flags in front of the tokens too, and is version 2 else:
 *
 *     48  8  1: documents come in pairs, the answer to a prompt that is preferred, and another one
 *
 * dt_tokens_sample() refuses such a file: it would teach both.
 *
 * The .bin files of llm.c (version 1, and 7 with 4 bytes a token) are read as well. Any other file
 * is taken as raw tokens of the width that the caller names. */
struct dt_tokens;

/* RAW_WIDTH: 2 or 4 for a file without header, 0: refuse one. A header with a vocabulary greater
 * than VOCABULARY (0: any) is refused, and every token is checked against both when it is read. */
DT_API struct dt_tokens *dt_tokens_open(const char *path, int raw_width, size_t vocabulary,
                                        struct dt_err *err);
DT_API void dt_tokens_close(struct dt_tokens *t); /* NULL is fine */
DT_API size_t dt_tokens_count(const struct dt_tokens *t);

/* Samples of POSITIONS inputs and their targets, each the next token: how many, and number I. A
 * sample begins where the last ended, so no token is a target twice. The target is -1 where that
 * token is not trained on. */
DT_API size_t dt_tokens_samples(const struct dt_tokens *t, size_t positions);
DT_API int dt_tokens_sample(const struct dt_tokens *t, size_t i, size_t positions, int32_t *ids,
                            int32_t *targets, struct dt_err *err);

/* One endless order for the whole job, epochs one behind the other, that depends on seed and epoch
 * only. */
struct dt_sampler {
    size_t samples; /* in the data */
    uint64_t seed;
    bool shuffle;
};

/* The sample at place POSITION of the order: each epoch is a permutation of all samples, computed
 * without a table; without shuffle it is the order of the file. 0 where there are no samples. */
DT_API size_t dt_sampler_at(const struct dt_sampler *s, uint64_t position);

DT_END_C

#endif
