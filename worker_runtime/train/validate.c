/* SPDX-License-Identifier: Apache-2.0 */
/* The loss on data that is not trained on. Ranks take samples in turn; each goes through as many
 * rounds as the others, since at stage 3 parameters are gathered together. */
#include "worker_runtime/train/inside.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Reads COUNT samples from number FIRST on of those ALL that stand for the file. */
static int read_samples(struct dt_trainer *t, size_t first, size_t count, size_t all,
                        struct dt_err *err)
{
    size_t positions = t->config->data.positions;
    for (size_t i = 0; i < count; i++)
        if (dt_samples_read(t->validation_samples,
                            dt_samples_pick(t->validation_samples, first + i, all),
                            t->ids + i * positions, t->targets + i * positions,
                            t->documents ? t->documents + i * positions : NULL, err) < 0)
            return -1;
    return 0;
}

/* What a validation took is no part of the next step's times. */
static void forget_times(struct dt_trainer *t)
{
    uint64_t a, b;
    dt_transformer_times(t->model, &a, &b);
    dt_zero_times(t->zero, &a, &b);
    if (t->base)
        dt_zero_times(t->base, &a, &b);
}

static int add_losses(struct dt_trainer *t, size_t count, struct dt_loss_sums *sums,
                      struct dt_err *err)
{
    if (t->config->dpo.on)
        return dt_dpo_loss(t, count, sums, err);
    return dt_transformer_loss(t->model, dt_trainer_model(t), count, t->ids, t->targets,
                               &sums->loss, err);
}

int dt_validate(struct dt_trainer *t, double *loss, struct dt_err *err)
{
    size_t micro = (size_t)t->batch.micro;
    size_t samples = least(dt_samples_count(t->validation_samples),
                           (size_t)t->config->train.validation_batches * micro);
    const struct dt_mesh_axis *data = dt_trainer_data(t);
    size_t a_round = micro * (size_t)data->size;
    uint64_t targets = 0;
    struct dt_loss_sums sums = {0};
    dt_page_section(t->page, "validation");
    for (size_t at = 0; at < samples; at += a_round) {
        size_t first = at + micro * (size_t)data->index;
        size_t count = first < samples ? least(micro, samples - first) : 0;
        dt_trainer_begin(t, false, false);
        if (read_samples(t, first, count, samples, err) < 0 || add_losses(t, count, &sums, err) < 0)
            return -1;
    }
    if (dt_coll_all_reduce(data->group, &sums, sizeof sums / sizeof(double), DT_F64, DT_SUM, err) <
        0)
        return -1;
    forget_times(t);
    for (size_t i = 0; i < samples; i++)
        targets += dt_samples_targets(t->validation_samples,
                                      dt_samples_pick(t->validation_samples, i, samples));
    if (t->config->dpo.on)
        targets = samples;
    *loss = sums.loss / (double)(targets ? targets : 1);
    t->judged = dt_dpo_means(&sums, targets ? targets : 1);
    return 0;
}
