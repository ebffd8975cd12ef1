/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run tells of itself, and what rank 0 says when all of it is there. */
#include "base/buf.h"
#include "base/say.h"
#include "worker_runtime/telemetry/run_file.h"
#include "worker_runtime/train/inside.h"

#include <stdlib.h>
#include <string.h>

static void name_model(const struct dt_trainer *t, char out[80])
{
    const struct dt_shape *shape = &t->config->model.shape;
    snprintf(out, 80, "%s with %.1f M parameters", dt_shape_title(shape),
             (double)dt_shape_params(shape) * 1e-6);
}

/* FOLDER, of the files of this run, tells where the others are. */
static void leave_word(struct dt_trainer *t, const char *folder, const char *metrics)
{
    const struct dt_config_train *c = &t->config->train;
    char model[80];
    struct dt_err err;
    name_model(t, model);
    struct dt_run_facts facts = {.model = model,
                                 .device = t->device->description,
                                 .metrics = metrics,
                                 .save_dir = c->save_dir,
                                 .steps = t->steps};
    if (dt_run_file_write(folder, &facts, &err) < 0)
        dt_metrics_warn(t->metrics, err.text);
}

/* A folder of this run's files gets metrics that nobody wants elsewhere. */
int dt_trainer_open_metrics(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_config_train *c = &t->config->train;
    const char *folder = getenv("DTRUN_LOG_DIR");
    char own[PATH_MAX] = "";
    if (t->rank != 0)
        return 0;
    if (folder && !c->metrics &&
        snprintf(own, sizeof own, "%s/metrics.jsonl", folder) >= (int)sizeof own)
        *own = '\0';
    const char *path = *own ? own : c->metrics;
    struct dt_metrics_options o = {.program = DT_TRAIN_PROGRAM,
                                   .console = t->options->console,
                                   .terminal = t->options->terminal,
                                   .every = c->log_every,
                                   .steps = t->steps,
                                   .first = dt_keeper_is_back(&t->keeper),
                                   .breakdown = c->breakdown,
                                   .jsonl = path && *path ? path : NULL,
                                   .round = dt_context_epoch(t->context),
                                   .csv_path = c->csv_path,
                                   .csv_job = c->csv_job};
    t->metrics = dt_metrics_open(&o, dt_keeper_first_untold(t), err);
    if (t->metrics && folder)
        leave_word(t, folder, o.jsonl);
    return t->metrics ? 0 : -1;
}

/* Of a checkpoint that could not be read the rank tells that met it. */
void dt_trainer_say_warnings(struct dt_trainer *t)
{
    const char *lines = dt_buf_cstr(&t->warnings);
    char who[40];
    if (t->metrics) {
        dt_metrics_warn(t->metrics, lines);
    } else {
        snprintf(who, sizeof who, DT_TRAIN_PROGRAM ": rank %d", t->rank);
        dt_say_lines(who, lines);
    }
}

static void say_back(struct dt_trainer *t)
{
    const struct dt_vault_choice *back = &t->keeper.back;
    struct dt_buf from = {0};
    char others[40] = "";
    if (back->world != t->ranks)
        snprintf(others, sizeof others, ", which %d rank%s made", back->world,
                 back->world == 1 ? "" : "s");
    dt_vault_choice_describe(back, &from);
    dt_metrics_say(t->metrics, "back at step %lld%s: %s", (long long)back->step, others,
                   dt_buf_cstr(&from));
    dt_metrics_back(t->metrics, "at step %lld%s: %s", (long long)back->step, others,
                    dt_buf_cstr(&from));
    dt_buf_finish(&from);
}

static void introduce_packing(struct dt_trainer *t)
{
    double positions = 0, filled = 0, targets = 0;
    size_t documents = 0;
    for (size_t i = 0; i < dt_mixture_files(t->train); i++) {
        const struct dt_samples *s = dt_mixture_file(t->train, i);
        struct dt_samples_packing p = dt_samples_packing(s);
        if (!dt_samples_packed(s))
            continue;
        documents += p.documents - p.left_out;
        filled += (double)p.filled;
        targets += (double)p.targets;
        positions += (double)dt_samples_count(s) * (double)t->config->data.positions;
    }
    if (t->config->dpo.on)
        dt_metrics_say(t->metrics,
                       "DPO with beta %g: each is a pair; %.0f %% full, %.0f %% compared",
                       t->config->dpo.beta, 100 * filled / positions, 100 * targets / positions);
    else
        dt_metrics_say(t->metrics, "%zu documents%s: %.0f %% full, %.0f %% trained on", documents,
                       t->config->data.packing ? " packed into them" : ", one in each",
                       100 * filled / positions, 100 * targets / positions);
}

/* How little of the model is trained. */
static void introduce_adapters(struct dt_trainer *t)
{
    const struct dt_lora *l = t->saved.lora;
    double all = (double)dt_shape_params(&t->config->model.shape);
    char shares[100];
    if (!l)
        return;
    double trained = (double)dt_lora_params(l, &t->shape);
    dt_lora_say(l, &t->shape, shares, sizeof shares);
    dt_metrics_say(t->metrics, "%s of %s: %.2f M parameters are trained, %.2f %% of them",
                   l->dora ? "DoRA" : "LoRA", shares, trained * 1e-6,
                   100 * trained / (all + trained));
}

static void introduce_stages(struct dt_trainer *t)
{
    struct dt_buf line = {0};
    if (!t->stages)
        return;
    dt_stages_describe(t->config, &line);
    dt_metrics_say(t->metrics, "%s", dt_buf_cstr(&line));
    dt_buf_finish(&line);
}

/* Lines that fit 80 columns, as they stand in logs and on terminals beside each other. */
void dt_trainer_introduce(struct dt_trainer *t, const struct dt_found *f)
{
    const struct dt_config *c = t->config;
    char model[80];
    if (!t->metrics)
        return;
    name_model(t, model);
    dt_metrics_say(t->metrics, "%s; %d rank%s on %d host%s, ZeRO stage %d", model, t->ranks,
                   t->ranks == 1 ? "" : "s", dt_context_hosts(t->context),
                   dt_context_hosts(t->context) == 1 ? "" : "s", c->zero.stage);
    dt_parallel_introduce(t);
    introduce_stages(t);
    introduce_adapters(t);
    dt_metrics_say(t->metrics, "%s", t->device->description);
    dt_metrics_say(
        t->metrics, "batch %lld = micro %lld x accumulation %lld x %d; %zu samples of %zu tokens",
        (long long)t->batch.train, (long long)t->batch.micro, (long long)t->batch.accumulation,
        dt_trainer_data(t)->size, dt_mixture_samples(t->train), c->data.positions);
    if (dt_mixture_packed(t->train))
        introduce_packing(t);
    if (c->train.epochs > 0)
        dt_metrics_say(t->metrics, "%g epoch%s, which is %lld steps", c->train.epochs,
                       c->train.epochs == 1 ? "" : "s", (long long)t->steps);
    dt_trainer_say_memory(t);
    if (dt_keeper_is_back(&t->keeper)) {
        say_back(t);
    } else if (f->path[0]) {
        dt_metrics_say(t->metrics, "resumed from %s: step %lld", f->path, (long long)t->state.step);
        dt_metrics_back(t->metrics, "at step %lld: %s", (long long)t->state.step, f->path);
    }
}
