/* SPDX-License-Identifier: Apache-2.0 */
/* What a run goes on from: which checkpoint, its state into the trainer, and what of it stays. */
#include "base/auto.h"
#include "base/fs.h"
#include "worker_runtime/ckpt/adapted.h"
#include "worker_runtime/train/inside.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void look(const char *dir, struct dt_found *f)
{
    struct dt_err why = {0};
    char state[4096 + 16];
    snprintf(state, sizeof state, "%s/state.json", dir);
    f->exact = dt_fs_exists(state);
    if (f->exact)
        f->failed = (size_t)snprintf(f->path, sizeof f->path, "%s", dir) >= sizeof f->path;
    else
        f->failed = dt_ckpt_find(dir, f->path, sizeof f->path, NULL, &why) < 0; /* resume() warns */
    snprintf(f->why, sizeof f->why, "%s", why.text);
}

static void look_for_own(const struct dt_trainer *t, struct dt_found *f)
{
    struct dt_ckpt_state s;
    f->own = dt_ckpt_find(t->config->train.save_dir, f->path, sizeof f->path, NULL, NULL) == 0 &&
             f->path[0] && dt_ckpt_peek(f->path, &s, NULL) == 0 && dt_keeper_is_of_job(t, &s);
    if (!f->own)
        f->path[0] = '\0';
}

/* What --resume says is where a job begins. A later world of it, behind a restart or because nodes
 * came or went, goes on from what the job itself has saved, else its work would be done again and
 * again. */
static int find_own(struct dt_trainer *t, struct dt_found *f, struct dt_err *err)
{
    if (dt_context_epoch(t->context) == 0 || !t->config->train.save_dir)
        return 0;
    if (t->rank == 0)
        look_for_own(t, f);
    return dt_coll_broadcast(t->world, f, sizeof *f, DT_U8, 0, err);
}

static int peek(struct dt_trainer *t, struct dt_found *f, struct dt_err *err)
{
    if (dt_ckpt_peek(f->path, &t->state, err) < 0)
        return -1;
    f->step = t->state.step;
    return 0;
}

int dt_resume_find(struct dt_trainer *t, struct dt_found *f, struct dt_err *err)
{
    const char *resume = t->options->resume;
    bool automatic = strcmp(resume, "auto") == 0;
    const char *dir = automatic ? t->config->train.save_dir : resume;
    *f = (struct dt_found){.step = -1};
    if (!automatic && find_own(t, f, err) < 0)
        return -1;
    if (f->own)
        return peek(t, f, err);
    if (strcmp(resume, "none") == 0 || !dir)
        return 0;
    if (t->rank == 0)
        look(dir, f);
    /* A world that has a whole step in its vault waits for no store. */
    if (automatic && !dt_keeper_is_back(&t->keeper) && dt_uploader_restore(t, f, err) < 0)
        return -1;
    if (dt_coll_broadcast(t->world, f, sizeof *f, DT_U8, 0, err) < 0)
        return -1;
    if (f->failed)
        return dt_err_set(err, DT_E_RUNTIME, "%s%s", automatic ? "train.save_dir: " : "", f->why);
    if (!f->path[0] && !automatic)
        return dt_err_set(err, DT_E_RUNTIME,
                          "there is no checkpoint in %.200s to resume from; name one, or the "
                          "train.save_dir of a run",
                          resume);
    return f->path[0] ? peek(t, f, err) : 0;
}

int dt_resume_load(struct dt_trainer *t, struct dt_found *f, struct dt_err *err)
{
    bool saved_here = f->own || strcmp(t->options->resume, "auto") == 0;
    const char *dir = saved_here ? t->config->train.save_dir : t->options->resume;
    int rc = f->exact ? dt_ckpt_load(f->path, &t->saved, t->zero, t->saving.ckpt, &t->state, err)
                      : dt_ckpt_resume(dir, &t->saved, t->zero, t->saving.ckpt, &t->state, f->path,
                                       &t->warnings, err);
    f->step = t->state.step;
    return rc;
}

/* Whether the checkpoint at PATH is one of this run's own folder, by whatever names. */
static bool is_ours(const struct dt_trainer *t, const char *path)
{
    const char *dir = t->config->train.save_dir;
    DT_AUTO_FREE char *there = *path ? realpath(path, NULL) : NULL;
    DT_AUTO_FREE char *here = dir ? realpath(dir, NULL) : NULL;
    char *slash = there ? strrchr(there, '/') : NULL;
    if (!slash || !here)
        return false;
    *slash = '\0';
    return strcmp(there, here) == 0;
}

/* Whether PATH (NULL: none) is a checkpoint that would be moved aside. */
static bool would_be_moved(const struct dt_trainer *t, const char *path)
{
    DT_AUTO_FREE char *there = path && *path ? realpath(path, NULL) : NULL;
    const char *slash = there ? strrchr(there, '/') : NULL;
    return slash && strncmp(slash, "/step-", strlen("/step-")) == 0 && is_ours(t, path);
}

static int keep_beginning(const struct dt_trainer *t, struct dt_err *err)
{
    const char *const folders[] = {t->weights, t->from};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (would_be_moved(t, folders[i]))
            return dt_err_set(
                err, DT_E_USAGE,
                "this run begins from %.200s, a checkpoint in its own train.save_dir, "
                "which would be moved aside; give it another train.save_dir",
                folders[i]);
    return 0;
}

int dt_resume_make_room(struct dt_trainer *t, const struct dt_found *f, struct dt_err *err)
{
    const char *dir = t->config->train.save_dir;
    char aside[PATH_MAX];
    if (t->config->dpo.on && is_ours(t, t->weights))
        return dt_err_set(err, DT_E_USAGE,
                          "dpo: answers are compared with the model in %.200s, a checkpoint in "
                          "this run's own train.save_dir, where newer ones would take its place; "
                          "give the run another train.save_dir",
                          t->weights);
    if (!dir || strcmp(t->options->resume, "auto") == 0 || is_ours(t, f->path))
        return 0;
    if (dt_uploader_refuse_others(t, err) < 0)
        return -1;
    if (t->rank != 0)
        return 0;
    if (keep_beginning(t, err) < 0)
        return -1;
    if (dt_ckpt_set_aside(dir, aside, err) < 0)
        return dt_err_wrap(err, "train.save_dir has checkpoints of another run");
    if (*aside)
        dt_buf_printf(&t->warnings,
                      "train.save_dir had checkpoints of another run; they are in %s "
                      "now\n",
                      aside);
    return 0;
}

/* Adapters are of use with the model that they were trained beside: with what NF4 leaves of it, or
 * with all of it. */
static void compare_base(struct dt_trainer *t, const struct dt_found *f)
{
    enum dt_dtype type = DT_F32;
    bool nf4 = t->config->lora_nf4;
    if (!t->base || !f->path[0] || dt_ckpt_adapters_nf4(f->path, &type) == nf4)
        return;
    dt_buf_printf(&t->warnings,
                  "the adapters in %s were trained beside %s model; from here on it is %s\n",
                  f->path, nf4 ? "the full" : "an NF4",
                  nf4 ? "kept in NF4" : "kept in full, as lora.base is not \"nf4\"");
}

/* KEY, which says how data.train becomes samples. WAS and IS: 1, -1; 0: not known. */
static void compare_samples(struct dt_buf *out, const char *key, int was, int is)
{
    if (was && is && was != is)
        dt_buf_printf(out,
                      "data.%s is %s from here on; it was %s, so the samples to come are not "
                      "those that were left\n",
                      key, is > 0 ? "true" : "false", was > 0 ? "true" : "false");
}

/* What is not as it was, a line each, and which of the two counts. */
static void compare(struct dt_trainer *t)
{
    const struct dt_ckpt_state *was = &t->state;
    const struct dt_config *c = t->config;
    struct dt_buf *out = &t->warnings;
    if (was->seed != c->train.seed)
        dt_buf_printf(out,
                      "train.seed is %llu, and the run began with %llu: that one stays, as the "
                      "order of samples follows from it\n",
                      (unsigned long long)c->train.seed, (unsigned long long)was->seed);
    if (was->train_batch > 0 && was->train_batch != t->batch.train)
        dt_buf_printf(out, "a step has %lld samples from here on; it had %lld\n",
                      (long long)t->batch.train, (long long)was->train_batch);
    compare_samples(out, "shuffle", was->shuffled, c->data.shuffle ? 1 : -1);
    compare_samples(out, "packing", was->packed, dt_trainer_packing(t));
    if (was->sequence_length <= 0)
        return;
    if ((size_t)was->sequence_length != c->data.positions)
        dt_buf_printf(out,
                      "a sample has %zu tokens from here on; it had %lld, so the samples to come "
                      "are not those that were left\n",
                      c->data.positions, (long long)was->sequence_length);
    if ((size_t)was->data_tokens != dt_mixture_tokens(t->train) ||
        was->data_mark != dt_mixture_mark(t->train))
        dt_buf_printf(out,
                      "data.train is another file than before (%zu tokens; it had %lld): the run "
                      "goes on in it at sample %llu of its order\n",
                      dt_mixture_tokens(t->train), (long long)was->data_tokens,
                      (unsigned long long)was->data_position);
}

void dt_resume_settle(struct dt_trainer *t, const struct dt_found *f)
{
    /* One of a run without fp16 has no hysteresis, and nothing to go on from. */
    if (t->scaler.dynamic && t->state.scaler.hysteresis_left > 0) {
        t->scaler.scale = t->state.scaler.scale;
        t->scaler.hysteresis_left = t->state.scaler.hysteresis_left;
        t->scaler.iteration = t->state.scaler.iteration;
        t->scaler.last_overflow = t->state.scaler.last_overflow;
    }
    if (t->rank == 0) {
        compare_base(t, f);
        compare(t);
    }
    t->saving.saved = is_ours(t, f->path) ? f->step : -1;
    t->state.train_batch = t->batch.train;
    t->state.world = t->ranks;
    t->state.stage = t->config->zero.stage;
    t->state.tensor = t->config->parallel.tensor;
    t->state.pipeline = t->config->parallel.pipeline;
    t->state.context = t->config->parallel.context;
    t->state.round = dt_context_epoch(t->context);
    snprintf(t->state.run_id, sizeof t->state.run_id, "%s", dt_context_run_id(t->context));
}
