/* SPDX-License-Identifier: Apache-2.0 */
/* The loss on data that is not trained on. Ranks take samples in turn; each goes through as many
 * rounds as the others, since at stage 3 parameters are gathered together. */
#include "base/crc32c.h"
#include "worker_runtime/train/inside.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Reads COUNT samples from number FIRST on of those ALL that stand for the file. */
static int read_samples(struct dt_trainer *t, size_t first, size_t count, size_t all,
                        struct dt_err *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct dt_feed_room room = dt_feed_room(t, i);
        if (dt_samples_read(t->validation_samples,
                            dt_samples_pick(t->validation_samples, first + i, all), room.ids,
                            room.targets, room.documents, err) < 0)
            return -1;
        dt_feed_keep(t, i, count);
    }
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
    /* Who has other samples of the round computes without this rank, if not with its experts. */
    if (t->stages && count == 0 && dt_trainer_experts(t)->size == 1)
        return 0;
    if (t->config->dpo.on)
        return dt_dpo_loss(t, count, sums, err);
    if (t->stages)
        return dt_stages_loss(t, count, &sums->loss, err);
    return dt_transformer_loss(t->model, dt_trainer_model(t), count, t->ids, t->targets,
                               &sums->loss, err);
}

/* Samples of a validation. */
static size_t count_samples(const struct dt_trainer *t)
{
    size_t all = dt_samples_count(t->validation_samples), micro = (size_t)t->batch.micro;
    size_t batches = (size_t)t->config->train.validation_batches;
    return batches > all / micro ? all : least(all, batches * micro);
}

static uint64_t count_targets(const struct dt_trainer *t, size_t samples)
{
    uint64_t targets = 0;
    for (size_t i = 0; i < samples; i++)
        targets += dt_samples_targets(t->validation_samples,
                                      dt_samples_pick(t->validation_samples, i, samples));
    return targets;
}

int dt_validate_check(const struct dt_trainer *t, struct dt_err *err)
{
    size_t samples = t->validation ? count_samples(t) : 0;
    if (samples == 0 || count_targets(t, samples) > 0)
        return 0;
    return dt_err_set(
        err, DT_E_USAGE,
        "data.validation: none of the %zu samples that a validation takes from %s has "
        "a token that is trained on; take another file, or more "
        "train.validation_batches",
        samples, t->config->data.validation);
}

/* Whether a validation takes all samples, be the micro-batch of a world as small as it may. */
static bool takes_all(const struct dt_trainer *t)
{
    size_t all = dt_samples_count(t->validation_samples);
    const struct dt_config_batch *written = &t->options->config->batch;
    size_t micro = written->micro_batch > 0 ? (size_t)written->micro_batch : 1;
    size_t batches = (size_t)t->config->train.validation_batches;
    return batches > all / micro || batches * micro >= all;
}

/* Nothing in it follows from the world, as the size of a micro-batch may: losses of a few other
 * samples are compared all the same, as each change of an elastic world would forget the best else.
 */
uint32_t dt_validate_mark(const struct dt_trainer *t)
{
    const struct dt_config *c = t->options->config;
    /* No gaps in it. */
    struct {
        uint64_t tokens, mark, positions, batches, micro, packed, dpo;
        double beta, label_smoothing, sft;
    } of = {0};
    if (!t->validation)
        return 0;
    of.tokens = dt_tokens_count(t->validation);
    of.mark = dt_tokens_mark(t->validation);
    of.positions = c->data.positions;
    if (!takes_all(t)) {
        of.batches = (uint64_t)c->train.validation_batches;
        of.micro = (uint64_t)c->batch.micro_batch;
        of.packed = dt_samples_packed(t->validation_samples) && c->data.packing;
    }
    if (c->dpo.on) {
        of.dpo = 1;
        of.beta = c->dpo.beta;
        of.label_smoothing = c->dpo.label_smoothing;
        of.sft = c->dpo.sft;
    }
    uint32_t crc = dt_crc32c(0, (struct dt_bytes){(const uint8_t *)&of, sizeof of});
    return crc ? crc : 1;
}

int dt_validate(struct dt_trainer *t, double *loss, struct dt_err *err)
{
    size_t micro = (size_t)t->batch.micro, samples = count_samples(t);
    const struct dt_mesh_axis *data = dt_trainer_data(t);
    size_t a_round = micro * (size_t)data->size;
    struct dt_loss_sums sums = {0};
    dt_page_section(t->page, "validation");
    for (size_t at = 0; at < samples; at += a_round) {
        size_t first = at + micro * (size_t)data->index;
        size_t count = first < samples ? least(micro, samples - first) : 0;
        dt_trainer_begin(t, false, false);
        if (read_samples(t, first, count, samples, err) < 0 || add_losses(t, count, &sums, err) < 0)
            return -1;
    }
    if (dt_stages_rest(t, err) < 0)
        return -1;
    struct dt_coll *all = t->stages ? t->world : dt_trainer_learners(t);
    if (t->stages && !dt_trainer_tells_loss(t))
        sums = (struct dt_loss_sums){0};
    if (dt_coll_all_reduce(all, &sums, sizeof sums / sizeof(double), DT_F64, DT_SUM, err) < 0)
        return -1;
    forget_times(t);
    /* Targets are above 0: dt_validate_check(). */
    uint64_t counted = t->config->dpo.on ? samples : count_targets(t, samples);
    *loss = sums.loss / (double)counted;
    t->judged = dt_dpo_means(&sums, counted);
    return 0;
}
