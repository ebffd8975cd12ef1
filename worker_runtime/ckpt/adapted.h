/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters that were saved, for who uses a model and does not train it: they go into its weights as
 * these are read, W + s B A, and with magnitudes (m / n) (W + s B A), so that nobody behind them
 * knows of adapters. */
#ifndef DT_WORKER_RUNTIME_CKPT_ADAPTED_H
#define DT_WORKER_RUNTIME_CKPT_ADAPTED_H

#include "worker_runtime/ckpt/checkpoint.h"

/* Whether FOLDER holds adapters: peft's, or a checkpoint of ours. */
bool dt_ckpt_has_adapters(const char *folder);
/* The folder of the model that they adapt, as they name it. */
int dt_ckpt_adapters_base(const char *folder, char base[PATH_MAX], struct dt_err *err);

/* Whether the adapters in FOLDER were trained beside what NF4 leaves of that model, rounded to
 * *TYPE. */
bool dt_ckpt_adapters_nf4(const char *folder, enum dt_dtype *type);

struct dt_ckpt_adapters;
/* Of FOLDER, for a model S, which outlives it. */
struct dt_ckpt_adapters *dt_ckpt_adapters_open(const char *folder, const struct dt_shape *s,
                                               struct dt_err *err);
void dt_ckpt_adapters_close(struct dt_ckpt_adapters *a);
size_t dt_ckpt_adapters_layers(const struct dt_ckpt_adapters *a); /* that are adapted */
/* X, COUNT elements of the model's tensor number TENSOR from FIRST on, becomes what they make of
 * it. Calls go through one tensor after the other. W: where X is from, as norms take all of a row.
 */
int dt_ckpt_adapters_apply(struct dt_ckpt_adapters *a, const struct dt_ckpt_weights *w,
                           size_t tensor, uint64_t first, size_t count, float *x,
                           struct dt_err *err);

#endif
