/* SPDX-License-Identifier: Apache-2.0 */
/* A micro-batch of pairs: forward through the frozen model, which is the reference, then with what
 * is trained, be it adapters beside the same model or a model that began as it, and back with a
 * weight for each answer (optim/dpo.h). A sample is a pair: the chosen answer's document begins at
 * position 0, and the rejected one's behind it. Ranks that share samples add up what they have of
 * an answer. All is one micro-step: units are asked for in the same order each time.
 *
 * Where stages share the layers, the last one knows the losses. The reference goes through them
 * with all micro-batches of a step before the first is trained with (stages.c). */
#include "worker_runtime/train/inside.h"

#include <stdlib.h>

int dt_dpo_open(struct dt_trainer *t, struct dt_err *err)
{
    size_t micro = (size_t)t->batch.micro, micros = t->stages ? (size_t)t->batch.accumulation : 1;
    if (!t->config->dpo.on)
        return 0;
    t->pairs.rows = calloc(micro * dt_pieces_own(&t->pieces), sizeof *t->pairs.rows);
    t->pairs.of = calloc(micros * micro, sizeof *t->pairs.of);
    t->pairs.weights = calloc(2 * micro, sizeof *t->pairs.weights);
    return t->pairs.rows && t->pairs.of && t->pairs.weights
               ? 0
               : dt_err_set(err, DT_E_MEMORY, "no memory for pairs");
}

void dt_dpo_close(struct dt_trainer *t)
{
    free(t->pairs.rows);
    free(t->pairs.of);
    free(t->pairs.weights);
}

/* The sample that this rank's row ROW is of, and whether it belongs to the chosen answer; what
 * stays empty has no targets. */
static size_t sample_of(const struct dt_trainer *t, size_t batch, size_t row, bool *chosen)
{
    size_t sample, at = dt_pieces_place(&t->pieces, batch, row, &sample);
    *chosen = t->documents[sample * t->pieces.positions + at] == 0;
    return sample;
}

/* Those of micro-batch number MICRO of a step, of which stages have all. */
static struct dt_dpo_pair *pairs_of(const struct dt_trainer *t, int micro)
{
    return t->pairs.of + (size_t)micro * (size_t)t->batch.micro;
}

/* The losses of rows, added up by answer. REFERENCE: they are those of the reference, which come
 * first. */
static void add_up(struct dt_trainer *t, struct dt_dpo_pair *pairs, size_t batch, bool reference)
{
    for (size_t i = 0; reference && i < batch; i++)
        pairs[i] = (struct dt_dpo_pair){0};
    for (size_t row = 0; row < batch * dt_pieces_own(&t->pieces); row++) {
        bool chosen;
        struct dt_dpo_pair *p = &pairs[sample_of(t, batch, row, &chosen)];
        struct dt_dpo_answer *a = chosen ? &p->chosen : &p->rejected;
        if (t->targets[row] < 0)
            continue;
        a->tokens += reference;
        *(reference ? &a->reference : &a->policy) -= (double)t->pairs.rows[row];
    }
}

int dt_dpo_forward(struct dt_trainer *t, const struct dt_dpo_pass *pass, struct dt_err *err)
{
    struct dt_zero *model = pass->reference ? t->base : dt_trainer_model(t);
    dt_transformer_adapt(t->model, pass->reference || !t->saved.lora ? NULL : t->zero);
    int rc = dt_transformer_lose(t->model, model, pass->slot, pass->batch, t->ids, t->targets,
                                 pass->train, t->pairs.rows, err);
    if (rc == 0 && pass->last)
        add_up(t, pairs_of(t, pass->micro), pass->batch, pass->reference);
    return rc;
}

/* Of each answer, what all ranks that share it have. */
static int join(struct dt_trainer *t, struct dt_dpo_pair *pairs, size_t batch, struct dt_err *err)
{
    _Static_assert(sizeof(struct dt_dpo_pair) == 6 * sizeof(double), "six doubles");
    const struct dt_mesh_axis *axis = dt_trainer_context(t);
    if (axis->size == 1 || batch == 0)
        return 0;
    return dt_coll_all_reduce(axis->group, pairs, batch * 6, DT_F64, DT_SUM, err);
}

/* What the answers come to, and the weights of their rows. A pair counts once among those who share
 * it. */
static void judge(struct dt_trainer *t, const struct dt_dpo_pair *pairs, size_t batch,
                  struct dt_loss_sums *sums)
{
    bool counts = dt_team_is_first(&t->context_team);
    for (size_t i = 0; i < batch; i++) {
        struct dt_dpo_verdict v = dt_dpo_judge(&t->config->dpo, &pairs[i]);
        sums->loss += counts ? v.loss : 0;
        sums->chosen += counts ? v.reward_chosen : 0;
        sums->rejected += counts ? v.reward_rejected : 0;
        sums->right += counts && v.right;
        t->pairs.weights[2 * i] = (float)v.weight_rejected;
        t->pairs.weights[2 * i + 1] = (float)v.weight_chosen;
    }
    for (size_t row = 0; row < batch * dt_pieces_own(&t->pieces); row++) {
        bool chosen;
        size_t i = sample_of(t, batch, row, &chosen);
        t->pairs.rows[row] = t->pairs.weights[2 * i + chosen];
    }
}

static int join_and_judge(struct dt_trainer *t, int micro, size_t batch, struct dt_loss_sums *sums,
                          struct dt_err *err)
{
    struct dt_dpo_pair *pairs = pairs_of(t, micro);
    if (join(t, pairs, batch, err) < 0)
        return -1;
    judge(t, pairs, batch, sums);
    return 0;
}

int dt_dpo_weigh(struct dt_trainer *t, const struct dt_dpo_pass *pass, float scale,
                 struct dt_loss_sums *sums, struct dt_err *err)
{
    if (join_and_judge(t, pass->micro, pass->batch, sums, err) < 0)
        return -1;
    return dt_transformer_weigh(t->model, dt_trainer_model(t), pass->slot, t->pairs.rows, scale,
                                err);
}

int dt_dpo_train(struct dt_trainer *t, size_t batch, float scale, struct dt_loss_sums *sums,
                 struct dt_err *err)
{
    const struct dt_dpo_pass before = {.batch = batch, .reference = true, .last = true};
    const struct dt_dpo_pass own = {.batch = batch, .train = true, .last = true};
    double of_tokens = 0;
    if (dt_dpo_forward(t, &before, err) < 0 || dt_dpo_forward(t, &own, err) < 0 ||
        dt_dpo_weigh(t, &own, scale, sums, err) < 0)
        return -1;
    return dt_transformer_backward(t->model, dt_trainer_model(t), 0, &of_tokens, err);
}

static int measure(struct dt_trainer *t, size_t batch, bool reference, struct dt_err *err)
{
    const struct dt_dpo_pass pass = {.batch = batch, .reference = reference, .last = true};
    return t->stages ? dt_stages_compare(t, &pass, err) : dt_dpo_forward(t, &pass, err);
}

int dt_dpo_loss(struct dt_trainer *t, size_t batch, struct dt_loss_sums *sums, struct dt_err *err)
{
    if (measure(t, batch, true, err) < 0 || measure(t, batch, false, err) < 0)
        return -1;
    return join_and_judge(t, 0, batch, sums, err);
}

struct dt_preference_metrics dt_dpo_means(const struct dt_loss_sums *sums, uint64_t pairs)
{
    double n = (double)pairs;
    return (struct dt_preference_metrics){.told = true,
                                          .chosen = sums->chosen / n,
                                          .rejected = sums->rejected / n,
                                          .margin = (sums->chosen - sums->rejected) / n,
                                          .accuracy = sums->right / n};
}

int dt_dpo_check_data(const struct dt_samples *s, bool pairs, struct dt_err *err)
{
    if (dt_samples_paired(s) == pairs)
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      pairs
                          ? "the block \"dpo\" trains with pairs of answers, and this file holds "
                            "none; make one by dtrun-train tokenize --preferences"
                          : "it holds pairs of answers, of which half are the worse ones; add the "
                            "block \"dpo\": {} to train with them");
}
