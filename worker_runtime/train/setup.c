/* SPDX-License-Identifier: Apache-2.0 */
/* Makes all that a run consists of, in the order in which one thing needs another. */
#include "base/buf.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/inside.h"
#include "worker_runtime/train/init.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/zero/state.h"
#include "worker_runtime/zero/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int dt_trainer_open_model(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_shape *shape = &t->config->model.shape;
    const struct dt_lora *lora = t->config->lora.r > 0 ? &t->lora : NULL;
    t->lora = t->config->lora;
    t->saved = (struct dt_ckpt_model){.shape = &t->shape,
                                      .count = dt_shape_tensor_count(shape),
                                      .lora = lora,
                                      .nf4 = t->config->lora_nf4,
                                      .nf4_type = t->config->zero.model_type};
    t->unit_count = lora ? dt_lora_unit_count(lora, shape) : dt_shape_unit_count(shape);
    t->saved.tensors =
        lora ? dt_lora_tensors(lora, shape, &t->saved.count, err) : dt_shape_tensors(shape, err);
    if (!t->saved.tensors || dt_parallel_cut(t, err) < 0)
        return -1;
    return dt_tensor_units(t->parts ? t->parts : t->saved.tensors, t->saved.count, t->unit_count,
                           &t->units, &t->params, err);
}

/* The total batch of the run that is resumed is kept, whatever the world is now. */
static int settle_batch(struct dt_trainer *t, bool resumed, struct dt_err *err)
{
    struct dt_config_batch written = t->config->batch;
    int ranks = dt_trainer_data(t)->size;
    int had = dt_parallel_data_of(&t->state);
    if (resumed && t->state.train_batch > 0 && had != ranks &&
        (written.train_batch == 0 || written.train_batch == t->state.train_batch)) {
        written.train_batch = t->state.train_batch;
        if (written.micro_batch > 0)
            written.accumulation = 0;
    }
    if (dt_batch_resolve(&t->batch, &written, ranks, err) < 0)
        return ranks == t->ranks
                   ? -1
                   : dt_err_wrap(err, "by \"parallel\" %d ranks count as %d", t->ranks, ranks);
    t->state.train_batch = t->batch.train;
    int total = (int)(t->batch.accumulation * ranks);
    t->balance = dt_balance_create(t->config->train.balance, ranks, total, err);
    t->compute_s = calloc((size_t)ranks, sizeof *t->compute_s);
    if (!t->balance || !t->compute_s)
        return t->balance ? dt_err_set(err, DT_E_MEMORY, "no memory for the balance") : -1;
    if (resumed && t->state.micro_steps_count == ranks &&
        t->config->train.balance != DT_BALANCE_OFF)
        dt_balance_set(t->balance, t->state.micro_steps, ranks, NULL);
    return 0;
}

#define STEPS_MOST 9e15 /* as train.steps may be */
#define ALMOST 1e-6     /* of a sample: 0.1 epochs are a little more than a tenth */

/* Epochs end where their last sample is trained on; the step in which that happens is filled up
 * from the next one. */
static int settle_steps(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_config *c = t->config;
    double samples = ceil(c->train.epochs * (double)dt_mixture_samples(t->train) - ALMOST);
    double left = samples - (double)t->state.data_position;
    double steps = ceil(left > 0 ? left / (double)t->batch.train : 0);
    t->steps = c->train.steps;
    if (c->train.epochs > 0 && steps > STEPS_MOST)
        return dt_err_set(
            err, DT_E_USAGE,
            "train.epochs: %g times the %zu samples of data.train are more steps than "
            "can be counted",
            c->train.epochs, dt_mixture_samples(t->train));
    if (c->train.epochs > 0)
        t->steps = t->state.step + (int64_t)steps;
    dt_config_schedule(c, t->steps, &t->schedule);
    if (t->rank == 0 && c->total_follows && t->schedule.total_steps < t->schedule.warmup_steps)
        dt_buf_printf(&t->warnings,
                      "scheduler.params: total_num_steps is %lld, as train.epochs come to, and "
                      "ends within the %lld steps of warmup_num_steps\n",
                      (long long)t->schedule.total_steps, (long long)t->schedule.warmup_steps);
    return 0;
}

static int open_zero(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_zero_options o = t->config->zero;
    bool balanced = t->config->train.balance != DT_BALANCE_OFF;
    bool stages = t->config->parallel.pipeline > 1; /* whose micro-batches are not in one walk */
    bool several = t->batch.accumulation > 1 || balanced || stages;
    /* Offloaded, gradients are to be in the host's memory, be it for each micro-step. */
    o.full_gradients = several && !dt_trainer_offloads(t);
    o.float_sums = o.float_sums && several;
    o.seed = t->state.seed;
    o.model_type = dt_config_trained_type(t->config);
    o.stochastic_rounding = o.stochastic_rounding && o.model_type != DT_F32;
    t->zero =
        dt_zero_create(t->context, dt_trainer_replicas(t)->group, t->units, t->unit_count, &o, err);
    for (size_t i = 0; t->zero && i < t->saved.count; i++) {
        const struct dt_tensor *one = &t->saved.tensors[i];
        if (one->rate > 0)
            dt_zero_set_rate(t->zero, one->unit, one->index, one->rate);
    }
    if (!t->zero || dt_parallel_count(t, err) < 0)
        return -1;
    return dt_base_open(t, err);
}

static int open_transformer(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_config_model *m = &t->config->model;
    size_t micro = (size_t)t->batch.micro, positions = t->config->data.positions;
    struct dt_transformer_options o = {.batch = micro,
                                       .positions = positions,
                                       .slots = dt_stages_slots(t->stages),
                                       .stage = t->stage,
                                       .recompute = m->recompute,
                                       .recompute_every = m->recompute_every,
                                       .halves = dt_stages_halves(t->config),
                                       .timed = t->config->train.breakdown,
                                       .op_by_op = !t->config->train.cuda_graphs,
                                       .weighed = t->config->dpo.on,
                                       .lora = t->saved.lora,
                                       .seed = t->state.seed, /* of one gone on with, its own */
                                       .nf4 = t->config->lora_nf4,
                                       .nf4_type = t->config->zero.model_type,
                                       .team = dt_parallel_team(t),
                                       .words = dt_parallel_words(t),
                                       .pieces = t->pieces,
                                       .context = dt_parallel_context(t),
                                       .experts = dt_parallel_experts(t)};
    bool packed = dt_mixture_packed(t->train) ||
                  (t->validation_samples && dt_samples_packed(t->validation_samples));
    t->ids = calloc(micro * dt_pieces_own(&t->pieces), sizeof *t->ids);
    t->targets = calloc(micro * dt_pieces_own(&t->pieces), sizeof *t->targets);
    t->whole_ids = calloc(positions, sizeof *t->whole_ids);
    t->whole_targets = calloc(positions, sizeof *t->whole_targets);
    t->documents = packed ? calloc(micro * positions, sizeof *t->documents) : NULL;
    t->lora.seed = t->state.seed;
    o.documents = t->documents;
    if (!t->ids || !t->targets || !t->whole_ids || !t->whole_targets || (packed && !t->documents))
        return dt_err_set(err, DT_E_MEMORY, "no memory for a micro-batch");
    if (dt_dpo_open(t, err) < 0)
        return -1;
    t->model = dt_transformer_create(&t->part, &o, t->device, err);
    if (t->model && t->saved.lora)
        dt_transformer_adapt(t->model, t->zero);
    return t->model ? 0 : -1;
}

static int open_ckpt(struct dt_trainer *t, struct dt_err *err)
{
    if (!t->config->train.save_dir)
        return 0;
    t->saved.base = t->weights;
    struct dt_ckpt_options o = {.dir = t->config->train.save_dir,
                                .keep_last = t->config->train.keep_last,
                                .keep_best = t->config->train.keep_best,
                                .model = t->saved,
                                .model_type = dt_config_trained_type(t->config),
                                .rank = t->rank,
                                .world = t->ranks,
                                .epoch = dt_context_epoch(t->context),
                                .device = t->device,
                                .finite_only = true,
                                .run_id = dt_context_run_id(t->context),
                                .job_mark = t->keeper.job_mark,
                                .may_commit = dt_ckpt_ask_page,
                                .may_commit_arg = t->page,
                                .goes_on = dt_keeper_is_back(&t->keeper)};
    t->saving.ckpt = dt_ckpt_open(&o, err);
    return t->saving.ckpt ? 0 : dt_err_wrap(err, "train.save_dir");
}

static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    const struct dt_trainer *t = arg;
    size_t tensor = (size_t)(t->units[unit].params - t->params) + param;
    while (count > 0) {
        size_t run = count, there = dt_recut_place(&t->saved, tensor, first, &run);
        if (there == DT_PADDING)
            memset(out, 0, run * sizeof *out);
        else
            dt_init_tensor(&t->saved.tensors[tensor], tensor, t->config->train.seed, there, run,
                           out);
        first += run;
        count -= run;
        out += run;
    }
}

static int first_weights(struct dt_trainer *t, struct dt_found *f, struct dt_err *err)
{
    bool adapters = t->saved.lora;
    const char *weights = adapters ? t->from : t->weights;
    if (dt_base_load(t, err) < 0)
        return -1;
    if (dt_keeper_is_back(&t->keeper))
        return dt_keeper_load(t, err);
    if (f->path[0])
        return dt_resume_load(t, f, err);
    if (!*weights)
        return adapters ? dt_base_fill(t, err) : dt_zero_fill(t->zero, fill, t, err);
    if (dt_ckpt_load_weights(weights, &t->saved, t->zero, err) < 0)
        return adapters ? dt_err_wrap(err, "lora.from") : -1;
    return 0;
}

/* Tokenizer and the like of the model that is gone on with, be it a checkpoint of ours. */
static int keep_companions(struct dt_trainer *t, const struct dt_found *f, struct dt_err *err)
{
    const char *folder = f->path[0] ? f->path : t->weights;
    if (t->rank != 0 || !t->saving.ckpt || !*folder)
        return 0;
    return dt_ckpt_accompany(t->saving.ckpt, folder, err);
}

/* The state of a run that begins. */
static void begin_state(struct dt_trainer *t)
{
    t->scaler = t->config->scaler;
    t->saving.saved = -1;
    t->saves_heard = dt_page_saves_wanted(t->page);
    t->state = (struct dt_ckpt_state){.seed = t->config->train.seed,
                                      .world = t->ranks,
                                      .stage = t->config->zero.stage,
                                      .tensor = t->config->parallel.tensor,
                                      .pipeline = t->config->parallel.pipeline,
                                      .context = t->config->parallel.context,
                                      .scaler = t->scaler,
                                      .round = dt_context_epoch(t->context)};
    snprintf(t->state.run_id, sizeof t->state.run_id, "%s", dt_context_run_id(t->context));
}

/* -- all of it: between two agreements a rank that fails misses no call that the others make -- */

static int open_inputs(struct dt_trainer *t, struct dt_err *err)
{
    if (strcmp(t->device->name, "cpu") != 0 && dt_config_check_gpu(t->config, err) < 0)
        return -1;
    if (dt_trainer_open_model(t, err) < 0 || dt_trainer_open_data(t, err) < 0)
        return -1;
    return dt_uploader_open(t, dt_context_hosts(t->context), err);
}

/* What F and the vault come to. A step in the vault needs no checkpoint: one that cannot be read is
 * no reason to end then. */
static int find_start(struct dt_trainer *t, struct dt_found *f, struct dt_err *err)
{
    struct dt_err why = {0};
    if (dt_keeper_find(t, err) < 0)
        return -1;
    if (dt_agree(t->world, dt_resume_find(t, f, &why), &why) < 0) {
        if (!dt_keeper_is_back(&t->keeper) || dt_agree_is_lost(&why)) {
            *err = why;
            return -1;
        }
        *f = (struct dt_found){.step = -1};
        if (why.code != DT_E_ELSEWHERE)
            dt_buf_printf(&t->warnings, "%s; the run goes on from the vault\n", why.text);
    }
    dt_keeper_settle_start(t, f->step);
    return 0;
}

/* Of a run's folder the newest checkpoint. */
static void find_newest(const char *folder, char found[PATH_MAX])
{
    char room[PATH_MAX];
    snprintf(found, PATH_MAX, "%s", dt_ckpt_weights_folder(folder, room));
}

/* For all ranks those that rank 0 sees: a run that saves there may go on meanwhile. */
static int find_weights(struct dt_trainer *t, const struct dt_found *f, struct dt_err *err)
{
    const char *weights = t->options->init_from, *adapters = t->config->lora_from;
    if (t->rank == 0 && weights) {
        find_newest(weights, t->weights);
        dt_base_settle(t, f);
    }
    if (t->rank == 0 && adapters)
        find_newest(adapters, t->from);
    if (weights && dt_coll_broadcast(t->world, t->weights, PATH_MAX, DT_U8, 0, err) < 0)
        return -1;
    return adapters ? dt_coll_broadcast(t->world, t->from, PATH_MAX, DT_U8, 0, err) : 0;
}

static bool goes_on(const struct dt_trainer *t, const struct dt_found *f)
{
    return dt_keeper_is_back(&t->keeper) || f->path[0];
}

static int open_work(struct dt_trainer *t, struct dt_err *err)
{
    if (dt_validate_check(t, err) < 0 || open_transformer(t, err) < 0)
        return -1;
    return open_ckpt(t, err);
}

static void tell_folder(const struct dt_trainer *t)
{
    char path[PATH_MAX];
    if (t->config->train.save_dir && realpath(t->config->train.save_dir, path))
        dt_page_folder(t->page, path);
}

/* Once the weights are here: a run that cannot begin leaves what others have saved where it is. */
static int open_records(struct dt_trainer *t, const struct dt_found *f, struct dt_err *err)
{
    /* What is in the vault was made by this very job, which has made room when it began. */
    if (!dt_keeper_is_back(&t->keeper) && dt_resume_make_room(t, f, err) < 0)
        return -1;
    if (keep_companions(t, f, err) < 0)
        return -1;
    if (goes_on(t, f))
        dt_resume_settle(t, f);
    t->state.job_mark = t->keeper.job_mark;
    if (settle_steps(t, err) < 0)
        return -1;
    dt_trainer_note_data(t);
    tell_folder(t);
    return dt_trainer_open_metrics(t, err);
}

int dt_trainer_open(struct dt_trainer *t, struct dt_context *context,
                    const struct dt_train_options *o, struct dt_err *err)
{
    struct dt_found found;
    *t = (struct dt_trainer){.config = o->config,
                             .options = o,
                             .context = context,
                             .world = dt_context_coll(context),
                             .rank = dt_context_rank(context),
                             .ranks = dt_context_world(context),
                             .device = dt_context_device(context),
                             .page = dt_context_page(context)};
    dt_page_section(t->page, "setup");
    if (dt_parallel_open(t, err) < 0)
        return -1;
    begin_state(t);
    if (dt_agree(t->world, open_inputs(t, err), err) < 0 || dt_trainer_check_data(t, err) < 0 ||
        find_start(t, &found, err) < 0 || find_weights(t, &found, err) < 0 ||
        dt_agree(t->world, settle_batch(t, goes_on(t, &found), err), err) < 0 ||
        dt_parallel_check(t, err) < 0)
        return -1;
    dt_trainer_look_at_room(t);
    if (open_zero(t, err) < 0 || dt_agree(t->world, dt_stages_open(t, err), err) < 0 ||
        dt_agree(t->world, open_work(t, err), err) < 0 || first_weights(t, &found, err) < 0 ||
        dt_keeper_begin(t, err) < 0 || dt_agree(t->world, open_records(t, &found, err), err) < 0 ||
        dt_best_begin(t, err) < 0)
        return -1;
    *t->options->batch_before = t->batch.train;
    dt_trainer_say_warnings(t);
    dt_trainer_introduce(t, &found);
    return 0;
}

void dt_trainer_close(struct dt_trainer *t)
{
    dt_uploader_close(t->uploader);
    dt_ckpt_close(t->saving.ckpt);
    dt_keeper_close(&t->keeper);
    dt_metrics_close(t->metrics);
    dt_stages_close(t->stages); /* what is under way there is in memory of the model */
    dt_transformer_destroy(t->model);
    dt_zero_destroy(t->zero);
    dt_zero_destroy(t->base);
    dt_parallel_close(t);
    dt_balance_destroy(t->balance);
    dt_samples_close(t->validation_samples);
    dt_mixture_close(t->train);
    dt_tokens_close(t->validation);
    dt_buf_finish(&t->warnings);
    free(t->compute_s);
    free(t->ids);
    free(t->targets);
    free(t->whole_ids);
    free(t->whole_targets);
    free(t->documents);
    dt_dpo_close(t);
    free(t->units);
    free(t->params);
    free(t->saved.tensors);
}
