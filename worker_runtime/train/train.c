/* SPDX-License-Identifier: Apache-2.0 */
/* The loop. A step is: micro-batches forward and backward, one sum over all ranks in which they
 * also agree, the update; then what is due at this step: a line, a validation, a checkpoint.
 *
 * How a gradient gets from here to the rank that owns it is told in zero/stage.h. */
#include "worker_runtime/train/train.h"

#include "base/clock.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/optim/schedule.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/train/mfu.h"

#include <math.h>
#include <stdio.h>

/* Where the time of a step went, in seconds. */
struct step_times {
    double begun, data, forward, backward, communication, optimizer, all;
};

static double seconds(void)
{
    return (double)dt_clock_monotonic_ns() * 1e-9;
}

/* Micro-batches this rank goes through. At stage 3, and at stage 2 offloaded, as many as the
 * busiest rank, the last of them empty: parameters are gathered, or gradients summed, together. */
static int micro_steps(const struct dt_trainer *t)
{
    const int *deal = dt_balance_deal(t->balance);
    const struct dt_mesh_axis *data = dt_trainer_data(t);
    int most = deal[data->index], stage = t->config->zero.stage;
    bool together = stage == 3 || (stage == 2 && dt_trainer_offloads(t));
    for (int r = 0; together && r < data->size; r++)
        most = deal[r] > most ? deal[r] : most;
    return most;
}

static int learn(struct dt_trainer *t, size_t batch, float scale, struct dt_loss_sums *sums,
                 struct dt_err *err)
{
    if (t->config->dpo.on)
        return dt_dpo_train(t, batch, scale, sums, err);
    return dt_transformer_train(t->model, dt_trainer_model(t), batch, t->ids, t->targets, scale,
                                &sums->loss, err);
}

/* The losses of routers are means over rows: each micro-batch counts by its samples. */
static void guide_routers(struct dt_trainer *t)
{
    const struct dt_shape *s = &t->config->model.shape;
    double share = t->scaler.scale * (double)t->batch.micro / (double)t->batch.train;
    if (s->balance_experts)
        dt_transformer_balance(t->model, (double)s->balance_share * share);
    if (s->z_share > 0)
        dt_transformer_z_loss(t->model, (double)s->z_share * share);
}

/* The loss is the mean over the TARGETS of the whole step: a mean of means of micro-batches would
 * give those of one with few targets more weight. */
static int compute(struct dt_trainer *t, uint64_t targets, struct dt_loss_sums *sums,
                   struct step_times *times, struct dt_err *err)
{
    int mine = dt_balance_deal(t->balance)[dt_trainer_data(t)->index], all = micro_steps(t);
    float scale = (float)(t->scaler.scale / (double)targets);
    guide_routers(t);
    if (t->stages)
        return dt_stages_train(t, scale, sums, &times->data, err);
    for (int m = 0; m < all; m++) {
        double begun = seconds();
        if (m < mine && dt_feed_micro_batch(t, m, err) < 0)
            return -1;
        times->data += seconds() - begun;
        dt_trainer_begin(t, true, m == all - 1);
        dt_transformer_count(t->model, dt_feed_first(t, m));
        if (learn(t, m < mine ? (size_t)t->batch.micro : 0, scale, sums, err) < 0)
            return -1;
    }
    return 0;
}

static int agree(struct dt_trainer *t, struct dt_agreement *own, struct dt_agreement *all,
                 struct step_times *times, struct dt_err *err)
{
    own->stop = t->options->stop && *t->options->stop;
    uint32_t wishes = dt_page_saves_wanted(t->page);
    own->want = t->rank == 0 && wishes != t->saves_heard;
    t->saves_heard = wishes;
    dt_saver_tell(t, own);
    dt_keeper_tell(t, &own->keep);
    *all = *own;
    double begun = seconds();
    int rc = dt_coll_all_reduce(t->world, all, sizeof *all / sizeof(double), DT_F64, DT_SUM, err);
    times->communication += seconds() - begun;
    return rc == 0 ? dt_keeper_hear(t, &all->keep, err) : rc;
}

/* Which part of a step each rank computes changes with what it took them. */
static int rebalance(struct dt_trainer *t, const struct step_times *times, struct dt_err *err)
{
    const struct dt_mesh_axis *data = dt_trainer_data(t), *tensor = dt_trainer_tensor(t);
    const struct dt_mesh_axis *context = dt_trainer_context(t);
    double mine = times->forward + times->backward;
    if (t->config->train.balance == DT_BALANCE_OFF || data->size == 1)
        return 0;
    if (tensor->size > 1 && dt_coll_all_reduce(tensor->group, &mine, 1, DT_F64, DT_MAX, err) < 0)
        return -1;
    if (context->size > 1 && dt_coll_all_reduce(context->group, &mine, 1, DT_F64, DT_MAX, err) < 0)
        return -1;
    if (dt_coll_all_gather(data->group, &mine, t->compute_s, 1, DT_F64, err) < 0)
        return -1;
    /* The times are the same on all ranks; the length of the step must be too. */
    double longest = times->all;
    if (dt_coll_all_reduce(t->world, &longest, 1, DT_F64, DT_MAX, err) < 0)
        return -1;
    dt_balance_step(t->balance, t->compute_s, longest);
    return 0;
}

/* Forward and backward are measured without the collectives between them. */
static void take_times(struct dt_trainer *t, struct step_times *times)
{
    uint64_t forward, backward, communication, optimizer, gathering = 0, none;
    dt_transformer_times(t->model, &forward, &backward);
    dt_zero_times(t->zero, &communication, &optimizer);
    if (t->base)
        dt_zero_times(t->base, &gathering, &none);
    times->communication += (double)(communication + gathering) * 1e-9;
    times->optimizer = (double)optimizer * 1e-9;
    times->forward = (double)forward * 1e-9;
    times->backward = (double)backward * 1e-9;
    times->all = seconds() - times->begun;
}

/* Of micro-batches that were dealt to this rank beyond its even part (balance.h), none counts, and
 * of layers that its stage has beyond those of others: they are no fault of its own. */
static void put_own_time(const struct dt_trainer *t, const struct step_times *times,
                         struct dt_step_told *out)
{
    int mine = dt_balance_deal(t->balance)[dt_trainer_data(t)->index];
    double even = (double)t->batch.accumulation, part = mine > even ? even / mine : 1;
    double data = times->data * part;
    struct dt_stage_even stage = dt_stages_even(t->stages);
    double computed = (times->forward + times->backward) * stage.computing;
    double own = computed * part + data + times->optimizer * stage.update;
    out->own_ns = (int64_t)(own * 1e9);
    out->data_ns = (int64_t)(data * 1e9);
    out->communication_ns = (int64_t)(times->communication * 1e9);
}

/* NaN: nobody knows what the device could do, or what is to be done beside a frozen model. */
static double mfu(const struct dt_trainer *t, double tokens_per_s)
{
    if (t->base)
        return NAN;
    double peak = dt_mfu_peak(t->device->description, dt_config_gpu_elem(t->config));
    double flops = dt_mfu_flops_per_token(&t->shape, t->config->data.positions) * tokens_per_s;
    return peak > 0 ? flops / (peak * t->ranks) : NAN;
}

static struct dt_step_told report(struct dt_trainer *t, const struct step_times *times, double lr,
                                  const struct dt_zero_updated *updated)
{
    double tokens = (double)t->batch.train * (double)t->config->data.positions;
    /* Of all ranks together; those who compute the same samples have one share. */
    double share = (double)dt_balance_deal(t->balance)[dt_trainer_data(t)->index] /
                   (double)(t->batch.accumulation * t->ranks);
    struct dt_step_metrics m = {
        .step = t->state.step,
        .steps = t->steps,
        .loss = t->state.last_loss,
        .lr = lr,
        .grad_norm = updated->grad_norm,
        .loss_scale = t->scaler.scale,
        .skipped = updated->overflow,
        .tokens_per_s = tokens / times->all,
        .samples = t->state.data_position,
        .tokens = (uint64_t)t->state.tokens,
        .ms = times->all * 1e3,
        .forward_ms = times->forward * 1e3,
        .backward_ms = times->backward * 1e3,
        .communication_ms = times->communication * 1e3,
        .optimizer_ms = times->optimizer * 1e3,
        .data_ms = times->data * 1e3,
        .checkpoint_ms = t->save_s * 1e3,
        .vault_ms = t->vault_s * 1e3,
        .utilisation = (times->forward + times->backward + times->optimizer) / times->all};
    struct dt_page_values values = {.step = m.step,
                                    .saved = t->saving.saved,
                                    .steps = m.steps,
                                    .loss = m.loss,
                                    .tokens_per_s = m.tokens_per_s * share,
                                    .utilisation = m.utilisation};
    struct dt_step_told told = {.metrics = m, .page = values, .mfu = mfu(t, m.tokens_per_s)};
    put_own_time(t, times, &told);
    t->save_s = t->vault_s = 0;
    return told;
}

/* Brings the save under way to its end, and tells the launcher which step is the last one saved. */
static int finish_saving(struct dt_trainer *t, struct dt_err *err)
{
    if (dt_saver_finish(t, err) < 0)
        return -1;
    t->told.saved = t->saving.saved;
    if (t->told.step > 0)
        dt_page_update(t->page, &t->told);
    return 0;
}

/* Where not even the first step was finite, nothing that was learned is to blame. */
static const char *advice_on_divergence(const struct dt_trainer *t)
{
    bool adapts = t->scaler.dynamic;
    if (t->skipped < t->state.step)
        return adapts ? "try a smaller optimizer.params.lr, gradient_clipping, or bf16 in place of "
                        "fp16"
                      : "try a smaller optimizer.params.lr, a longer warmup or gradient_clipping";
    if (t->options->init_from)
        return adapts ? "they always did, so the weights that it began with may hold NaN or "
                        "infinity; where they do not, try bf16 in place of fp16"
                      : "they never were, so the weights that it began with may hold NaN or "
                        "infinity";
    return adapts ? "they always did; try bf16 in place of fp16"
                  : "they never were, so a fixed fp16.loss_scale may be too large";
}

/* REASON ends with what the advice goes on with. All ranks know it; one says it. */
static int fail_diverged(struct dt_trainer *t, const char *reason, struct dt_err *err)
{
    char kept[80] = "";
    if (dt_keeper_settle(t, err) < 0 || finish_saving(t, err) < 0)
        return -1;
    if (t->saving.saved >= 0)
        snprintf(kept, sizeof kept, "; the last checkpoint holds step %lld",
                 (long long)t->saving.saved);
    dt_err_set(err, DT_E_RUNTIME, "%s; %s%s", reason, advice_on_divergence(t), kept);
    return dt_agree(t->world, -1, err);
}

/* Too many of the last steps were skipped. */
static int fail_skipped(struct dt_trainer *t, struct dt_err *err)
{
    char reason[200];
    snprintf(reason, sizeof reason,
             "step %lld: the run has diverged: gradients were not finite in the last %lld step%s "
             "(train.max_skipped_steps is %lld)",
             (long long)t->state.step, (long long)t->skipped, t->skipped == 1 ? "" : "s",
             (long long)t->config->train.max_skipped_steps);
    return fail_diverged(t, reason, err);
}

/* The step under way overflowed as well. */
static int fail_at_least_scale(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_err why = *err;
    return fail_diverged(t, why.text, err);
}

/* One step. *STOP: somebody was told to end. */
static int step(struct dt_trainer *t, struct dt_step_told *told, bool *stop, struct dt_err *err)
{
    struct step_times times = {.begun = seconds()};
    uint64_t waited = dt_parallel_ns(t), summed = t->team.bytes;
    struct dt_agreement own = {0}, all;
    struct dt_zero_updated updated;
    double lr = dt_schedule_rate(&t->schedule, t->state.schedule_steps);
    uint64_t targets = dt_feed_targets(t);
    dt_page_section(t->page, "compute");
    if (compute(t, targets, &own.sums, &times, err) < 0)
        return -1;
    times.communication += (double)(dt_parallel_ns(t) - waited) * 1e-9;
    if (!dt_trainer_tells_loss(t))
        own.sums = (struct dt_loss_sums){0}; /* another one tells them */
    if (agree(t, &own, &all, &times, err) < 0)
        return -1;
    dt_page_section(t->page, "update");
    struct dt_zero_update u = {
        .lr = (float)lr, .loss_scale = (float)t->scaler.scale, .clip = t->config->clip};
    if (dt_parallel_step(t, &u, &updated, err) < 0)
        return -1;
    if (dt_loss_scaler_update(&t->scaler, updated.overflow, err) < 0)
        return fail_at_least_scale(t, err);
    int64_t tokens = t->batch.train * (int64_t)t->config->data.positions;
    t->state.step++;
    t->state.tokens += tokens;
    t->state.data_position += (uint64_t)t->batch.train;
    t->state.schedule_steps += !updated.overflow;
    t->skipped = updated.overflow ? t->skipped + 1 : 0;
    t->state.last_loss = all.sums.loss / (double)targets;
    take_times(t, &times);
    *told = report(t, &times, lr, &updated);
    told->metrics.team_bytes = t->team.bytes - summed;
    if (t->config->dpo.on)
        told->metrics.preferences = dt_dpo_means(&all.sums, targets);
    if (dt_saver_hear(t, &own, &all, err) < 0)
        return -1;
    *stop = all.stop > 0;
    t->save_wanted = all.want > 0;
    return rebalance(t, &times, err);
}

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

/* The last step had gradients that were not finite. An adaptive loss scale skips steps on its way,
 * and its scaler knows when that is hopeless; without one, such a model is no model to keep. */
static bool is_diverging(const struct dt_trainer *t)
{
    return t->skipped > 0 && !t->scaler.dynamic;
}

/* And there is no hope left. A world that is back from the vault may begin behind such a step. */
static bool has_diverged(const struct dt_trainer *t)
{
    int64_t most = t->config->train.max_skipped_steps;
    return is_diverging(t) && most > 0 && t->skipped >= most;
}

static bool validation_is_due(const struct dt_trainer *t)
{
    return due(t->config->train.validate_every, t->state.step) || t->state.step == t->steps;
}

/* TELL: nobody has been told of this one. OWED: a checkpoint, that of the best step. */
static int validate(struct dt_trainer *t, bool tell, bool *owed, struct dt_err *err)
{
    double loss;
    if (!t->validation || t->config->train.validation_batches == 0)
        return 0;
    if (dt_keeper_settle(t, err) < 0 || dt_validate(t, &loss, err) < 0)
        return dt_err_wrap(err, "validation after step %lld", (long long)t->state.step);
    if (t->metrics && tell && t->config->dpo.on)
        dt_metrics_judged(t->metrics, t->state.step, loss, &t->judged);
    else if (t->metrics && tell)
        dt_metrics_validation(t->metrics, t->state.step, loss);
    dt_keeper_validated(t);
    *owed = (!is_diverging(t) && dt_best_judge(t, loss)) || *owed;
    return 0;
}

/* Somebody asked for a checkpoint: dtrun-ctl run save. */
static bool is_wanted(struct dt_trainer *t)
{
    if (t->save_wanted && !t->saving.ckpt && t->metrics)
        dt_metrics_warn(t->metrics, "a checkpoint was asked for, but the run saves nowhere: "
                                    "train.save_dir is not set\n");
    return t->save_wanted;
}

static int save(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_saving *s = &t->saving;
    bool under_way = s->phase != DT_SAVING_NONE && s->step == t->state.step;
    if (!s->ckpt || s->saved == t->state.step || under_way || is_diverging(t))
        return 0;
    double begun = seconds();
    int rc = dt_saver_begin(t, err);
    t->save_s = seconds() - begun;
    return rc;
}

/* The last step's checkpoint is what a run is for: without it, it has not succeeded. */
static int finish(struct dt_trainer *t, enum dt_train_end end, struct dt_err *err)
{
    if (end == DT_TRAIN_DONE && is_diverging(t))
        return fail_skipped(t, err);
    if (dt_keeper_settle(t, err) < 0)
        return -1;
    if (t->state.step > 0 && save(t, err) < 0)
        return dt_err_wrap(err, "checkpoint of step %lld", (long long)t->state.step);
    if (finish_saving(t, err) < 0 || dt_uploader_finish(t, end == DT_TRAIN_DONE, err) < 0)
        return -1;
    if (!t->saving.ckpt || t->saving.saved == t->state.step || end != DT_TRAIN_DONE)
        return 0;
    dt_err_set(err, DT_E_RUNTIME,
               "all %lld steps are done, but the last of them is not saved in %s, as said above; "
               "start it again when that is cured",
               (long long)t->state.step, t->config->train.save_dir);
    return dt_agree(t->world, -1, err);
}

/* What is due behind a step. OWED: a checkpoint; one that is due while steps are skipped is made
 * after the first step that is not. */
static int follow(struct dt_trainer *t, bool validation, bool *owed, struct dt_err *err)
{
    if (validation && validation_is_due(t) && validate(t, true, owed, err) < 0)
        return -1;
    *owed = *owed || due(t->config->train.save_every, t->state.step) || is_wanted(t);
    if (*owed && save(t, err) < 0)
        return dt_err_wrap(err, "checkpoint of step %lld", (long long)t->state.step);
    *owed = *owed && is_diverging(t);
    return 0;
}

/* A world that is back from the vault does what the one before it did not come to. What that one
 * made of a validation that it told is not in the vault: it is made again, in silence. */
static int catch_up(struct dt_trainer *t, bool *owed, struct dt_err *err)
{
    bool back = dt_keeper_is_back(&t->keeper), is_due = validation_is_due(t);
    bool untold = is_due && dt_keeper_owes_validation(t);
    bool unjudged = dt_best_owes_validation(t, is_due);
    if (!back && !unjudged)
        return 0;
    if (back)
        dt_keeper_catch_up(t);
    if ((untold || unjudged) && validate(t, untold || !back || t->best_lost, owed, err) < 0)
        return -1;
    return follow(t, false, owed, err);
}

/* Also where an earlier world came to that. */
static bool ends_early(const struct dt_trainer *t)
{
    return t->state.step < t->steps && dt_best_ends(&t->config->train, &t->state.best);
}

static int loop(struct dt_trainer *t, enum dt_train_end *end, struct dt_err *err)
{
    struct dt_step_told told;
    bool stop = false, owed = false;
    if (catch_up(t, &owed, err) < 0)
        return -1;
    while (t->state.step < t->steps && !stop && !has_diverged(t) && !ends_early(t)) {
        if (step(t, &told, &stop, err) < 0)
            return dt_err_wrap(err, "step %lld", (long long)t->state.step + 1);
        dt_keeper_take(t, &told);
        if (!has_diverged(t) && follow(t, !stop, &owed, err) < 0)
            return -1;
    }
    if (has_diverged(t))
        return fail_skipped(t, err);
    *end = stop ? DT_TRAIN_STOPPED : DT_TRAIN_DONE;
    return finish(t, *end, err);
}

static void say_nothing_left(struct dt_trainer *t)
{
    long long step = (long long)t->state.step;
    if (ends_early(t))
        dt_metrics_say(t->metrics,
                       "nothing is left to train: train.early_stop has ended the run at step %lld",
                       step);
    else
        dt_metrics_say(t->metrics, "nothing is left to train: step %lld is done, and %s is %lld",
                       step,
                       t->config->train.epochs > 0 ? "the last one of train.epochs" : "train.steps",
                       (long long)t->steps);
}

static void say_end(struct dt_trainer *t, enum dt_train_end end)
{
    char best[PATH_MAX + 200];
    bool saved = t->saving.saved == t->state.step;
    if (end == DT_TRAIN_DONE && t->told.step == 0 && t->state.step > 0) {
        say_nothing_left(t);
        return;
    }
    if (end == DT_TRAIN_DONE && ends_early(t))
        dt_metrics_say(t->metrics,
                       "train.early_stop ends the run at step %lld of %lld: no better loss in %lld "
                       "validations",
                       (long long)t->state.step, (long long)t->steps,
                       (long long)t->state.best.worse);
    dt_metrics_say(t->metrics, "%s: step %lld, loss %.4f%s%s%s",
                   end == DT_TRAIN_DONE ? "done" : "told to end", (long long)t->state.step,
                   t->state.last_loss, saved ? ", saved in " : "",
                   saved ? t->config->train.save_dir : "", dt_best_say(t, best, sizeof best));
}

int dt_train_run(struct dt_context *context, const struct dt_train_options *o,
                 enum dt_train_end *end, struct dt_err *err)
{
    struct dt_trainer t;
    int rc = dt_trainer_open(&t, context, o, err);
    if (rc == 0)
        rc = loop(&t, end, err);
    if (rc < 0 && err->code == DT_E_MEMORY)
        dt_trainer_advise(&t, err);
    if (rc == 0 && t.metrics)
        say_end(&t, *end);
    dt_trainer_close(&t);
    return rc;
}
