/* SPDX-License-Identifier: Apache-2.0 */
/* What a run consists of, for the files of this folder:
 *
 *     train.c     the loop
 *     setup.c     makes and ends all of this; data.c: opens what is trained on;
 *                 introduce.c: says what came of it
 *     parallel.c  how the ranks share the work; stages.c: the stages of a pipeline
 *     next_mesh.c has a later world take another mesh, where the configured one does not fit
 *     base.c      has the frozen model where adapters are trained
 *     resume.c    finds what to go on from
 *     feed.c      brings samples
 *     dpo.c       trains with samples that are pairs of answers
 *     validate.c  measures
 *     best.c      knows the step that was measured best
 *     saver.c     has checkpoints written beside the steps
 *     room.c      what memory the host has left, and what to change where there is not enough; touched.c: what this rank has of it already
 *     keeper.c    keeps the last steps in the vault, and tells of a step when it is safe
 *     uploader.c  has checkpoints uploaded; restore.c brings them back
 *     rescue.c    saves what the vault has when the ranks are gone */
#ifndef DT_WORKER_RUNTIME_TRAIN_INSIDE_H
#define DT_WORKER_RUNTIME_TRAIN_INSIDE_H

#include "base/buf.h"
#include "worker_runtime/ckpt/saving.h"
#include "worker_runtime/data/mixture.h"
#include "worker_runtime/data/sampler.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/ckpt/recut.h"
#include "worker_runtime/mesh/team.h"
#include "worker_runtime/model/transformer.h"
#include "worker_runtime/telemetry/metrics.h"
#include "worker_runtime/train/balance.h"
#include "worker_runtime/train/best.h"
#include "worker_runtime/train/keeper.h"
#include "worker_runtime/train/stages.h"
#include "worker_runtime/train/train.h"
#include "worker_runtime/train/uploader.h"

#include <dtrun/page.h>

/* Over targets, or over pairs of answers, of which there is more to tell than the loss. Doubles
 * alone, as they are part of an agreement. */
struct dt_loss_sums {
    double loss;
    double chosen, rejected; /* rewards */
    double right;            /* pairs whose chosen answer has the greater one */
};

/* One sum over all ranks a step, which is also where they agree. */
struct dt_agreement {
    struct dt_loss_sums sums;
    double stop; /* ranks that were told to end */
    double want; /* rank 0 was asked for a checkpoint */
    struct dt_saving_news save;
    struct dt_keeping_news keep;
    struct dt_uploading_news upload;
};

struct dt_trainer {
    const struct dt_config *config; /* that of the options, or OTHER */
    struct dt_config other;         /* the same with another mesh; it owns nothing */
    const struct dt_train_options *options;
    struct dt_context *context;
    struct dt_coll *world; /* for what all ranks agree on */
    int rank, ranks;       /* of it */
    size_t memory_left;    /* of this host, before any was taken; 0: nobody knows */
    struct dt_mesh mesh;   /* who shares what with this rank */
    struct dt_device *device;
    struct dt_page_writer *page;
    struct dt_page_values told; /* the last time */

    struct dt_shape shape; /* the configuration's; where that names no tokens, those of the data */
    /* What is trained: that shape and its tensors, or adapters of it. */
    struct dt_ckpt_model saved;
    /* What of them this rank has, where ranks share tensors; else the same. */
    struct dt_shape part;
    struct dt_tensor *parts; /* NULL: those of SAVED */
    struct dt_recut recut;
    struct dt_team team, context_team, experts;
    /* Of the teams, in the memory of their devices; NULL: the host's. */
    struct dt_coll *team_there, *context_there, *experts_there;
    struct dt_coll
        *kv_team; /* of those of the team that have the same key/value head; NULL: none */
    struct dt_pieces pieces;      /* of each sample, that this rank has */
    struct dt_stage stage;        /* the blocks that it has */
    struct dt_tensor **all_parts; /* of each stage, and in it of each of those that share experts,
                                     this one's among them; NULL with PARTS */
    /* Of all with the words, where the first and the last stage have them; else NULL. And the same
     * in the memory of their devices, as TEAM_THERE is. */
    struct dt_coll *ends, *ends_there;
    struct dt_stages *stages; /* NULL: there is one */
    struct dt_lora lora;      /* the configuration's; its seed is the run's */
    char weights[PATH_MAX];   /* the folder with those that the run begins from; "": chance does */
    char from[PATH_MAX];      /* that with the adapters it begins from; "": new ones */
    struct dt_unit *units;
    size_t unit_count;
    struct dt_param *params;
    struct dt_zero *zero;
    struct dt_zero *base; /* the model, frozen: beside adapters, or for DPO; else NULL */
    struct dt_transformer *model;

    struct dt_mixture *train;
    struct dt_tokens *validation;
    struct dt_samples *validation_samples; /* of it */
    int32_t *ids, *targets;                /* of one micro-batch: what of it this rank has */
    int32_t *whole_ids, *whole_targets;    /* room for one sample that ranks share */
    int32_t *documents; /* of one micro-batch, of whole samples; NULL: nothing is packed */
    struct {
        float *rows;            /* [micro, positions]: losses, and then weights, of rows */
        struct dt_dpo_pair *of; /* [micro]; of stages, those of all micro-batches of a step */
        float *weights; /* [micro, 2]: of rows of the rejected answer, and of the chosen one */
    } pairs;            /* where samples are pairs */
    struct dt_preference_metrics judged; /* of the last validation */
    int64_t steps;                       /* train.steps, or what train.epochs come to */
    struct dt_schedule schedule;

    struct dt_batch batch;
    struct dt_balance *balance;
    double *compute_s; /* of each rank, last step; for the balance */
    struct dt_loss_scaler scaler;
    int64_t skipped;            /* steps in a row, up to the last one, that changed nothing */
    struct dt_metrics *metrics; /* of rank 0; NULL elsewhere */
    struct dt_buf warnings;     /* from before there were metrics */

    struct dt_saving saving; /* its .ckpt NULL: nothing is saved */
    uint32_t saves_heard;    /* wishes for a checkpoint that rank 0 has heard so far */
    bool save_wanted;        /* all know of one that is not begun yet */
    double save_s;           /* that the last one held training up; 0 once it was told */
    struct dt_keeper keeper;
    double vault_s;               /* likewise */
    struct dt_uploader *uploader; /* NULL: nothing is uploaded */
    struct dt_ckpt_state state;   /* how far we are */
    /* Its best step may not be saved yet: the one whose checkpoint is there, and the one of the
     * save under way. Steps and losses; .step 0: none. */
    struct dt_ckpt_best best_saved, best_saving;
    bool best_lost; /* when this world began */
};

/* The ranks that have other samples of a step. */
static inline const struct dt_mesh_axis *dt_trainer_data(const struct dt_trainer *t)
{
    return &t->mesh.samples;
}

/* Whether the optimizer lies in the host's memory, and not where the model is computed. */
static inline bool dt_trainer_offloads(const struct dt_trainer *t)
{
    return t->config->zero.offload && t->device->coll;
}

/* The ranks that have other experts, and other samples. */
static inline const struct dt_mesh_axis *dt_trainer_experts(const struct dt_trainer *t)
{
    return &t->mesh.axis[DT_MESH_EP];
}

/* The ranks that have other parts of the tensors, and the same samples. */
static inline const struct dt_mesh_axis *dt_trainer_tensor(const struct dt_trainer *t)
{
    return &t->mesh.axis[DT_MESH_TP];
}

/* The ranks that have other blocks, and the same samples. */
static inline const struct dt_mesh_axis *dt_trainer_pipeline(const struct dt_trainer *t)
{
    return &t->mesh.axis[DT_MESH_PP];
}

/* Of those who compute a loss together, the one that tells it. */
static inline bool dt_trainer_tells_loss(const struct dt_trainer *t)
{
    const struct dt_mesh_axis *pipeline = dt_trainer_pipeline(t);
    return dt_team_is_first(&t->team) && pipeline->index == pipeline->size - 1;
}

/* The ranks that have other positions of the same samples. */
static inline const struct dt_mesh_axis *dt_trainer_context(const struct dt_trainer *t)
{
    return &t->mesh.axis[DT_MESH_CP];
}

/* The ranks that have the same parameters, and share the optimizer: those that compute other
 * gradients of them. */
static inline const struct dt_mesh_axis *dt_trainer_replicas(const struct dt_trainer *t)
{
    return &t->mesh.replicas;
}

/* Those, and where ranks share experts the ones with other experts, too: all that learn from the
 * step's tokens with the blocks that are here. */
static inline struct dt_coll *dt_trainer_learners(const struct dt_trainer *t)
{
    return t->mesh.learners.group;
}

/* The model's own parameters. */
static inline struct dt_zero *dt_trainer_model(const struct dt_trainer *t)
{
    return t->saved.lora ? t->base : t->zero;
}

/* As struct dt_ckpt_state has it: of a file without documents, and of pairs, data.packing changes
 * nothing. */
static inline int dt_trainer_packing(const struct dt_trainer *t)
{
    bool matters = dt_mixture_packed(t->train) && !t->config->dpo.on;
    return !matters ? 0 : t->config->data.packing ? 1 : -1;
}

static inline void dt_trainer_begin(struct dt_trainer *t, bool train, bool last)
{
    if (t->base)
        dt_zero_begin(t->base, train, last);
    dt_zero_begin(t->zero, train, last);
}

int dt_trainer_open(struct dt_trainer *t, struct dt_context *context,
                    const struct dt_train_options *o, struct dt_err *err);
void dt_trainer_close(struct dt_trainer *t);
/* Of that, the model's tensors and what is trained on: for whoever has no ranks to meet. */
int dt_trainer_open_model(struct dt_trainer *t, struct dt_err *err);
int dt_trainer_open_data(struct dt_trainer *t, struct dt_err *err);

/* data.c. Once that is open: all ranks read the same files. Collective. */
int dt_trainer_check_data(struct dt_trainer *t, struct dt_err *err);
/* Into the state at hand, so that who resumes can tell whether it is the same. */
void dt_trainer_note_data(struct dt_trainer *t);

/* What rank 0 found to go on from, on all ranks. */
struct dt_found {
    int32_t failed, exact; /* EXACT: --resume names one checkpoint, and no other will do */
    int32_t own;           /* this job has saved it, in train.save_dir */
    int64_t step;          /* that it holds; -1: there is none */
    char path[PATH_MAX];   /* "": nothing */
    char why[512];
};

/* introduce.c. Metrics, of rank 0, for a run whose steps are known; what was warned of before
 * there were any; and which run this is, which begins from FOUND, in a few lines. */
int dt_trainer_open_metrics(struct dt_trainer *t, struct dt_err *err);
void dt_trainer_say_warnings(struct dt_trainer *t);
void dt_trainer_introduce(struct dt_trainer *t, const struct dt_found *found);

/* parallel.c. The mesh that the configuration wants; and once the model's tensors are known, this
 * rank's parts of them. Collective; not the second. */
int dt_parallel_open(struct dt_trainer *t, struct dt_err *err);
/* Once the batch is settled: ranks that would go through it in another order than others, or cut
 * the model otherwise, are refused. Collective. */
int dt_parallel_check(struct dt_trainer *t, struct dt_err *err);
int dt_parallel_cut(struct dt_trainer *t, struct dt_err *err);
void dt_parallel_close(struct dt_trainer *t);
/* Of what several ranks have, one counts the gradients, or each has a part of them. Once the
 * dt_zero is there. Collective. */
int dt_parallel_count(struct dt_trainer *t, struct dt_err *err);
/* Who computes blocks together with this rank, and who samples; NULL: nobody. */
struct dt_team *dt_parallel_team(struct dt_trainer *t);
struct dt_team *dt_parallel_context(struct dt_trainer *t);
/* The words of the model that this rank has. */
struct dt_words dt_parallel_words(const struct dt_trainer *t);
/* Who has the other experts of each block; NULL: all are here. */
struct dt_team *dt_parallel_experts(struct dt_trainer *t);
/* Ranks of the world of S that had samples of their own. */
int dt_parallel_data_of(const struct dt_ckpt_state *s);
/* Says who shares what. Rank 0. */
void dt_parallel_introduce(const struct dt_trainer *t);
/* What this rank has spent so far in waiting for others in the midst of passes: those that share
 * its blocks, samples or experts, and neighbouring stages. */
uint64_t dt_parallel_ns(const struct dt_trainer *t);
/* dt_zero_step(), with the norm of all parts. Collective. */
int dt_parallel_step(struct dt_trainer *t, const struct dt_zero_update *u,
                     struct dt_zero_updated *out, struct dt_err *err);

/* base.c: where the frozen model is. The trainer has the place that model.weights means now;
 * adapters that are gone on with, those of F or in the vault, stay beside the model that they were
 * trained beside, or it is told that they cannot. Rank 0. */
void dt_base_settle(struct dt_trainer *t, const struct dt_found *f);
/* That model beside its adapters, without them nothing; and its weights, those that the run began
 * from. Collective. */
int dt_base_open(struct dt_trainer *t, struct dt_err *err);
int dt_base_load(struct dt_trainer *t, struct dt_err *err);
/* The first values of new adapters, and of what they save of it. */
int dt_base_fill(struct dt_trainer *t, struct dt_err *err);

/* What --resume and train.save_dir come to: F, and the state of it in the trainer. Collective. */
int dt_resume_find(struct dt_trainer *t, struct dt_found *f, struct dt_err *err);
/* A run that does not go on from its own folder finds it empty: two histories in one would count,
 * prune and fall back to each other's steps. Once this run has claimed it. */
int dt_resume_make_room(struct dt_trainer *t, const struct dt_found *f, struct dt_err *err);
/* Its shards. The newest may turn out to be damaged when all of it is read; then F becomes the one
 * before it. Collective. */
int dt_resume_load(struct dt_trainer *t, struct dt_found *f, struct dt_err *err);
/* What the state that is gone on from says of the past stays; what it says of its own world is ours
 * now. */
void dt_resume_settle(struct dt_trainer *t, const struct dt_found *f);

/* Where sample number I of a micro-batch is to be read to; and, once it is there, its part of ids
 * and targets, of COUNT samples. Documents are where they belong from the first. */
struct dt_feed_room {
    int32_t *ids, *targets, *documents;
};
struct dt_feed_room dt_feed_room(const struct dt_trainer *t, size_t i);
void dt_feed_keep(struct dt_trainer *t, size_t i, size_t count);
/* The number, among all samples of the run, of the first sample of this rank's micro-batch number
 * MICRO_STEP in the step at hand. */
uint64_t dt_feed_first(const struct dt_trainer *t, int micro_step);
/* Fills ids, targets and documents with micro-batch number MICRO_STEP of this rank in the step at
 * hand. */
int dt_feed_micro_batch(struct dt_trainer *t, int micro_step, struct dt_err *err);
/* What the loss of the step at hand is the mean over, of all ranks: targets that count, or pairs;
 * at least 1. */
uint64_t dt_feed_targets(const struct dt_trainer *t);

/* Where samples are pairs, with those of the micro-batch at hand: dt_transformer_train() and
 * dt_transformer_loss(), whose sums are SUMS, and whose gradients are of the loss of pairs. */
int dt_dpo_open(struct dt_trainer *t, struct dt_err *err);
void dt_dpo_close(struct dt_trainer *t);
int dt_dpo_train(struct dt_trainer *t, size_t batch, float scale, struct dt_loss_sums *sums,
                 struct dt_err *err);
int dt_dpo_loss(struct dt_trainer *t, size_t batch, struct dt_loss_sums *sums, struct dt_err *err);
/* The parts of these, for stages: forward with micro-batch number MICRO, which is at hand; and once
 * the reference and then what is trained went LAST through all layers, the gradient of the loss. */
struct dt_dpo_pass {
    size_t slot, batch;
    int micro;
    bool reference, train, last; /* LAST: it ends with the head */
};
int dt_dpo_forward(struct dt_trainer *t, const struct dt_dpo_pass *pass, struct dt_err *err);
int dt_dpo_weigh(struct dt_trainer *t, const struct dt_dpo_pass *pass, float scale,
                 struct dt_loss_sums *sums, struct dt_err *err);
struct dt_preference_metrics dt_dpo_means(const struct dt_loss_sums *sums, uint64_t pairs);
/* S, of a file that is trained or validated on, has samples that are PAIRS, or are none. */
int dt_dpo_check_data(const struct dt_samples *s, bool pairs, struct dt_err *err);

/* Whether any target is in the samples that are validated: without one there is no loss. */
int dt_validate_check(const struct dt_trainer *t, struct dt_err *err);
/* By which it is known whether losses of validations can be compared: those of one file, measured
 * in one way. 0: nothing is validated. */
uint32_t dt_validate_mark(const struct dt_trainer *t);
/* The mean loss over validation samples; collective. */
int dt_validate(struct dt_trainer *t, double *loss, struct dt_err *err);

/* Brings the state at hand up to the step that is done, for who saves it. */
void dt_trainer_note_state(struct dt_trainer *t);

/* Bytes of this host's memory, or of the control group that the ranks are in, that will be left
 * when all of its ranks have what they train with; -1: nobody knows. */
int64_t dt_trainer_memory_left(const struct dt_trainer *t);

/* Before memory is taken: a warning where this host has less than the estimate, with what to
 * change. A guess, so the run goes on. */
void dt_trainer_look_at_room(struct dt_trainer *t);
/* What this rank has taken, counted where it was taken; --estimate says the same before. */
void dt_trainer_say_memory(const struct dt_trainer *t);
/* Puts what would take less memory behind ERR, that there is not enough. */
void dt_trainer_advise(const struct dt_trainer *t, struct dt_err *err);

/* Begins a checkpoint of the state at hand; one still under way is brought to its end first.
 * Collective. */
int dt_saver_begin(struct dt_trainer *t, struct dt_err *err);
/* What this rank knows of the one under way, into A; and what all know, out of it. */
void dt_saver_tell(struct dt_trainer *t, struct dt_agreement *a);
int dt_saver_hear(struct dt_trainer *t, const struct dt_agreement *own,
                  const struct dt_agreement *all, struct dt_err *err);
/* Until it is whole, or given up. Collective. */
int dt_saver_finish(struct dt_trainer *t, struct dt_err *err);

#endif
