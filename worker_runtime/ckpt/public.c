/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun/checkpoint.h: the checkpoints of this folder, for a model that is somebody else's. */
#include <dtrun/checkpoint.h>

#include "worker_runtime/ckpt/inside.h"
#include "worker_runtime/ckpt/saving.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct dt_checkpoint {
    struct dt_context *context;
    struct dt_zero *zero;
    struct dt_coll *group;
    char *dir;
    struct dt_ckpt_model model;
    struct dt_saving saving;
    struct dt_buf said, shown; /* sentences: to be asked for, and those last given out */
};

static int open_ckpt(struct dt_checkpoint *k, int keep_last, struct dt_err *err)
{
    if (dt_ckpt_model_of(k->zero, &k->model, err) < 0)
        return -1;
    struct dt_ckpt_options o = {.dir = k->dir,
                                .keep_last = keep_last,
                                .model = k->model,
                                .model_type = dt_zero_options_of(k->zero)->model_type,
                                .rank = dt_coll_rank(k->group),
                                .world = dt_coll_size(k->group),
                                .epoch = dt_context_epoch(k->context),
                                .device = dt_context_device(k->context),
                                .run_id = dt_context_run_id(k->context),
                                .may_commit = dt_ckpt_ask_page,
                                .may_commit_arg = dt_context_page(k->context)};
    k->saving.ckpt = dt_ckpt_open(&o, err);
    return k->saving.ckpt ? 0 : -1;
}

/* None begins to save before rank 0 has removed what an earlier world left. */
static int open_together(struct dt_checkpoint *k, int keep_last, struct dt_err *err)
{
    return dt_agree(k->group, open_ckpt(k, keep_last, err), err);
}

struct dt_checkpoint *dt_checkpoint_open(struct dt_context *context, struct dt_zero *zero,
                                         const char *dir, int keep_last, struct dt_err *err)
{
    struct dt_checkpoint *k = calloc(1, sizeof *k);
    if (k)
        *k = (struct dt_checkpoint){.context = context,
                                    .zero = zero,
                                    .group = dt_zero_group(zero),
                                    .dir = strdup(dir),
                                    .saving = {.saved = -1}};
    if (k && k->dir && open_together(k, keep_last, err) == 0)
        return k;
    if (!k || !k->dir)
        dt_err_set(err, DT_E_MEMORY, "no memory for checkpoints");
    dt_checkpoint_close(k);
    return NULL;
}

void dt_checkpoint_close(struct dt_checkpoint *k)
{
    if (!k)
        return;
    dt_ckpt_close(k->saving.ckpt);
    dt_buf_finish(&k->said);
    dt_buf_finish(&k->shown);
    free(k->model.tensors);
    free(k->dir);
    free(k);
}

int dt_checkpoint_resume(struct dt_checkpoint *k, int64_t *step, void *state, size_t size,
                         struct dt_err *err)
{
    struct dt_ckpt_state s = {0};
    char path[PATH_MAX];
    *step = 0;
    if (dt_ckpt_resume(k->dir, &k->model, k->zero, NULL, &s, path, &k->said, err) < 0)
        return -1;
    if (!path[0])
        return 0;
    if (s.own_size != size)
        return dt_err_set(err, DT_E_RUNTIME,
                          "%s holds %zu bytes of the program's own state, and %zu are asked for: "
                          "another version of the program saved it",
                          path, s.own_size, size);
    if (size)
        memcpy(state, s.own, size);
    *step = k->saving.saved = s.step;
    return 0;
}

int dt_checkpoint_save(struct dt_checkpoint *k, int64_t step, const void *state, size_t size,
                       struct dt_err *err)
{
    struct dt_ckpt_state s = {.step = step,
                              .last_loss = NAN,
                              .world = dt_coll_size(k->group),
                              .stage = dt_zero_options_of(k->zero)->stage,
                              .round = dt_context_epoch(k->context),
                              .own_size = size};
    if (step < 1)
        return dt_err_set(err, DT_E_USAGE, "a checkpoint is of step 1 or later");
    if (size > sizeof s.own)
        return dt_err_set(err, DT_E_USAGE,
                          "a program adds up to %zu bytes to a checkpoint, not %zu", sizeof s.own,
                          size);
    if (size)
        memcpy(s.own, state, size);
    snprintf(s.run_id, sizeof s.run_id, "%s", dt_context_run_id(k->context));
    if (dt_saving_finish(&k->saving, k->group, &k->said, err) < 0)
        return -1;
    return dt_saving_begin(&k->saving, k->zero, &s, err);
}

int dt_checkpoint_poll(struct dt_checkpoint *k, int64_t *saved, struct dt_err *err)
{
    int rc = dt_saving_poll(&k->saving, k->group, &k->said, err);
    if (saved)
        *saved = k->saving.saved;
    return rc;
}

int dt_checkpoint_wait(struct dt_checkpoint *k, int64_t *saved, struct dt_err *err)
{
    int rc = dt_saving_finish(&k->saving, k->group, &k->said, err);
    if (saved)
        *saved = k->saving.saved;
    return rc;
}

const char *dt_checkpoint_warning(struct dt_checkpoint *k)
{
    if (!k->said.len)
        return NULL;
    dt_buf_finish(&k->shown);
    k->shown = k->said;
    k->said = (struct dt_buf){0};
    return dt_buf_cstr(&k->shown);
}
