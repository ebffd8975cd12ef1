/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a dt_zero: a folder per step that any number of ranks, at any stage, can go on
 * from. Tensors are safetensors files, so other programs open them; each is named as its parameter,
 * or UNIT.PARAMETER in a model where two parameters have one name.
 *
 *     k = dt_checkpoint_open(context, zero, "checkpoints", 2, &err);
 *     dt_checkpoint_resume(k, &step, &mine, sizeof mine, &err);
 *     if (step == 0)
 *         dt_zero_fill(zero, ...);
 *     while (step++ < steps) {
 *         ...
 *         if (step % 100 == 0)
 *             dt_checkpoint_save(k, step, &mine, sizeof mine, &err);
 *         dt_checkpoint_poll(k, &saved, &err);
 *     }
 *     dt_checkpoint_wait(k, &saved, &err);
 *
 * A save costs a copy; writing goes on beside the steps that follow. A checkpoint has its name when
 * every byte of every rank is on disk, so a folder that has one is whole whatever happened. One
 * that cannot be written (a full disk) is given up, on all ranks: dt_checkpoint_warning() says why,
 * and training goes on.
 *
 * All but the last two functions are collective over the group of the dt_zero, whose ranks all see
 * DIR as one and the same folder. */
#ifndef DTRUN_CHECKPOINT_H
#define DTRUN_CHECKPOINT_H

#include <dtrun/api.h>
#include <dtrun/context.h>
#include <dtrun/zero.h>

DT_BEGIN_C

struct dt_checkpoint;

/* What a program may add of its own, in bytes. */
#define DT_CHECKPOINT_STATE_MAX 4096

/* Makes DIR if it is not there. KEEP_LAST: older ones are removed; 0: none is. CONTEXT and ZERO
 * outlive the result. */
DT_API struct dt_checkpoint *dt_checkpoint_open(struct dt_context *context, struct dt_zero *zero,
                                                const char *dir, int keep_last, struct dt_err *err);

/* Loads the newest whole checkpoint of DIR, and into STATE what was saved with it, which must be
 * SIZE bytes. *STEP 0: there is none, and nothing is changed. One that is damaged is passed over,
 * with a warning, for the one before it; when none is whole, that is an error. */
DT_API int dt_checkpoint_resume(struct dt_checkpoint *k, int64_t *step, void *state, size_t size,
                                struct dt_err *err);

/* Begins to save what is there between two steps as that of STEP, 1 or more; with it SIZE bytes of
 * STATE as rank 0 has them. A save still under way is waited for. */
DT_API int dt_checkpoint_save(struct dt_checkpoint *k, int64_t step, const void *state, size_t size,
                              struct dt_err *err);

/* Moves a save under way along, after every step: a sum over the ranks, or nothing when there is
 * none. *SAVED, which may be NULL: the last step that a checkpoint holds; -1: none. */
DT_API int dt_checkpoint_poll(struct dt_checkpoint *k, int64_t *saved, struct dt_err *err);
/* The same until there is none under way. */
DT_API int dt_checkpoint_wait(struct dt_checkpoint *k, int64_t *saved, struct dt_err *err);

/* What went other than wanted on this rank since this was asked, a sentence a line; NULL: nothing.
 * Good until the next call of any of these. */
DT_API const char *dt_checkpoint_warning(struct dt_checkpoint *k);

/* A save under way is given up. NULL is fine. */
DT_API void dt_checkpoint_close(struct dt_checkpoint *k);

DT_END_C

#endif
