/* SPDX-License-Identifier: Apache-2.0 */
/* Which step had the lowest loss in a validation, and for how long no later one was better. It is
 * part of the state that checkpoints and the vault have. All ranks hear the same losses, and so
 * they judge alike. */
#ifndef DT_WORKER_RUNTIME_TRAIN_BEST_H
#define DT_WORKER_RUNTIME_TRAIN_BEST_H

#include "worker_runtime/ckpt/checkpoint.h"

struct dt_config_train;
struct dt_trainer;

/* The validation behind STEP came to LOSS. One that is lower by MIN_DELTA or less is the best from
 * here on, but no better. Whether it is the best; false for a step that was judged before. Pure. */
bool dt_best_take(struct dt_ckpt_best *b, int64_t step, double loss, double min_delta);

/* Whether validations are judged at all. */
bool dt_best_matters(const struct dt_config_train *c);
/* Whether train.early_stop ends the run. */
bool dt_best_ends(const struct dt_config_train *c, const struct dt_ckpt_best *b);

/* Where a run begins: what validations of another file came to is forgotten. A best step whose
 * checkpoint is gone is none; the one that `best` names is the best, then. Collective. */
int dt_best_begin(struct dt_trainer *t, struct dt_err *err);
/* Whether a validation is to be made before the first step: one is DUE at the step at hand and was
 * not judged, as the run was told to end there; or the best is lost. */
bool dt_best_owes_validation(const struct dt_trainer *t, bool due);
/* The validation behind the step at hand. Whether a checkpoint is to be made of it. */
bool dt_best_judge(struct dt_trainer *t, double loss);
/* A save of the step at hand was begun. */
void dt_best_save(struct dt_trainer *t);
/* Behind each hearing of how the save goes: a step whose save was given up is not the best, but the
 * last one is whose checkpoint is there. */
void dt_best_hear(struct dt_trainer *t);

/* "; the best is ...", or "". */
const char *dt_best_say(const struct dt_trainer *t, char *out, size_t size);

#endif
