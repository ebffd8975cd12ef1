/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a run is trained on, in one order. A file of weight W is gone through W times in
 * each epoch of the whole: with 0.5 it comes up half in each, the other half in the next one. */
#ifndef DT_WORKER_RUNTIME_DATA_MIXTURE_H
#define DT_WORKER_RUNTIME_DATA_MIXTURE_H

#include "worker_runtime/data/samples.h"

struct dt_mixture_file {
    const char *path;
    double weight; /* above 0 */
};

struct dt_mixture_options {
    const struct dt_mixture_file *files;
    size_t count;  /* of them, at least 1 */
    int raw_width; /* as dt_tokens_open() has them */
    size_t vocabulary;
    size_t positions; /* of a sample */
    bool shuffle;
    bool alone; /* no document shares a sample */
};

struct dt_mixture;

/* NULL and *err, which names the file. */
struct dt_mixture *dt_mixture_open(const struct dt_mixture_options *o, struct dt_err *err);
void dt_mixture_close(struct dt_mixture *m); /* NULL is fine */

size_t dt_mixture_files(const struct dt_mixture *m);
const struct dt_samples *dt_mixture_file(const struct dt_mixture *m, size_t i);
/* Samples of an epoch, at least 1. */
size_t dt_mixture_samples(const struct dt_mixture *m);
/* Some of the files are packed with documents. */
bool dt_mixture_packed(const struct dt_mixture *m);
/* All of them are of our byte tokenizer. */
bool dt_mixture_are_bytes(const struct dt_mixture *m);
/* By which they are known again: all tokens, and a checksum (dt_tokens_mark()). */
size_t dt_mixture_tokens(const struct dt_mixture *m);
uint32_t dt_mixture_mark(const struct dt_mixture *m);

/* What is at place POSITION of the order that SEED stands for: its targets that count, and itself,
 * as dt_samples_read() gives it. */
uint64_t dt_mixture_targets(const struct dt_mixture *m, uint64_t seed, uint64_t position);
int dt_mixture_read(const struct dt_mixture *m, uint64_t seed, uint64_t position, int32_t *ids,
                    int32_t *targets, int32_t *documents, struct dt_err *err);

#endif
