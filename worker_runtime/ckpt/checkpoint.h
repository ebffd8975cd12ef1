/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: a folder per step that any world and any stage can read.
 *
 *     DIR/latest                     "step-00000100": replaced when that one is whole
 *     DIR/best                       a link to the one whose validation had the lowest loss
 *     DIR/.lock                      whose DIR it is: one run at a time saves there
 *     DIR/.world                     which world of that run does; fence.c
 *     DIR/step-00000100/config.json  the model, as transformers reads it
 *              model.safetensors     parameters, in the type the model has
 *              optimizer/master.safetensors exp_avg.safetensors exp_avg_sq.safetensors
 *                                    float32, and the same names of tensors
 *              state.json            all else, and the checksums of the files
 *
 * One of adapters has adapter_config.json and adapter_model.safetensors instead of the model's two,
 * as peft opens them.
 *
 * Tensors stand in a file in the order of payload space (zero/layout.h), so a rank's shard is one
 * stretch of each file per unit, and ranks write side by side without speaking. A folder has a
 * temporary name until every file in it is on disk: a checkpoint without its final name does not
 * exist.
 *
 * A save: dt_ckpt_begin() copies this rank's shards, and a thread writes them. Later steps ask
 * dt_ckpt_done() and tell each other with the step's own all-reduce; when all are done, all call
 * dt_ckpt_commit_start(), which on rank 0 goes on beside further steps. */
#ifndef DT_WORKER_RUNTIME_CKPT_CHECKPOINT_H
#define DT_WORKER_RUNTIME_CKPT_CHECKPOINT_H

#include "worker_runtime/model/lora.h"
#include "worker_runtime/optim/loss_scaler.h"
#include "worker_runtime/zero/state.h"

#include <dtrun/checkpoint.h>
#include <limits.h>

/* What validations have come to: train/best.h. */
struct dt_ckpt_best {
    int64_t validated; /* the last step that was judged; 0: none, and then the rest is 0 */
    int64_t step;      /* with the lowest loss */
    double loss;       /* its */
    int64_t worse;     /* validations in a row, up to the last one, that were no better */
    uint64_t mark;     /* of what they were made on, a CRC32C; 0: not known */
};

/* What state.json holds beside checksums. */
struct dt_ckpt_state {
    int64_t step;           /* steps done */
    int64_t tokens;         /* trained on */
    uint64_t data_position; /* of the sampler */
    uint64_t seed;
    int64_t train_batch;     /* samples a step */
    int64_t sequence_length; /* tokens a sample; this and the next two: 0: not known */
    int64_t data_tokens;     /* in the file that is trained on */
    uint32_t data_mark;      /* dt_tokens_mark() of it */
    int shuffled;            /* 1: its samples are, -1: they are not; 0: not known */
    int packed;              /* 1: its documents share samples, -1: they do not; 0: not known */
    int64_t optimizer_steps; /* Adam's count; skipped steps are not in it */
    int64_t schedule_steps;
    struct dt_loss_scaler scaler; /* the part that is saved */
    double last_loss;
    struct dt_ckpt_best best;
    int world, stage; /* at save; for people */
    int tensor;       /* ranks that shared each tensor then; 0: 1 */
    int pipeline;     /* and stages of a pipeline */
    int context;      /* and each sample */
    char run_id[128];
    int64_t round;
    uint64_t job_mark;     /* drawn by chance for the job; 0: not known */
    int micro_steps_count; /* dynamic accumulation: the deal in force, by rank; 0: even */
    int micro_steps[1024];
    size_t own_size; /* what a program of other people adds: dtrun/checkpoint.h */
    unsigned char own[DT_CHECKPOINT_STATE_MAX];
};

struct dt_ckpt;
struct dt_recut;

/* What a checkpoint is of. Memory is the caller's. */
struct dt_ckpt_model {
    /* NULL: no transformer; then no config.json is written, and none is looked at. */
    const struct dt_shape *shape;
    struct dt_tensor *tensors; /* in the order of payload space */
    size_t count;
    const struct dt_lora *lora; /* TENSORS are adapters of SHAPE, not its own; NULL: its own */
    const char *base;           /* the model that they adapt, a folder; NULL: nobody knows */
    /* They are trained beside what NF4 leaves of it, rounded to nf4_type. The file of adapters says
     * so too, in its metadata: who merges them needs the same model. */
    bool nf4;
    enum dt_dtype nf4_type;
    const struct dt_recut *recut; /* how ranks share each tensor: recut.h; NULL: they do not */
};

/* The tensors that follow from Z's own parameters, each a row of numbers, and no shape. A tensor is
 * named as its parameter; where two of those have one name, all are UNIT.PARAMETER. Free
 * OUT->tensors. */
int dt_ckpt_model_of(const struct dt_zero *z, struct dt_ckpt_model *out, struct dt_err *err);

enum dt_ckpt_leave {
    DT_CKPT_MAY,       /* no later world can have begun */
    DT_CKPT_MAY_LATER, /* nobody knows: ask again */
    DT_CKPT_MAY_NEVER, /* the round of this world is over */
};
/* What the agent says on PAGE, a struct dt_page_writer. */
enum dt_ckpt_leave dt_ckpt_ask_page(void *page);

struct dt_ckpt_options {
    const char *dir;
    int keep_last;  /* 0: all; what `best` names stays in any case */
    bool keep_best; /* `best` names the step of a save whose state says that this is the best */
    struct dt_ckpt_model model;
    enum dt_dtype model_type;
    int rank, world;
    uint64_t block_bytes;     /* each has a checksum of its own; 0: 64 MiB, as all but tests want */
    int64_t epoch;            /* of this world: part of temporary names */
    struct dt_device *device; /* that is copied from, where it has memory for that; NULL */
    bool finite_only;         /* a state with a number that is not finite is given up, not saved */
    const char *run_id; /* no other run may save in DIR as long as this is open; NULL: any may */
    uint64_t job_mark;  /* as struct dt_ckpt_state has it: jobs may have the same run_id */
    /* Asked by rank 0 before the folder gets its name, and again before `latest` is replaced. NULL:
     * it may. */
    enum dt_ckpt_leave (*may_commit)(void *arg);
    void *may_commit_arg;
    bool rescues; /* the world is over, and what it left is saved: rescue.h */
    bool goes_on; /* without checkpoints while DIR cannot be made: each save fails until it can */
};

/* Cleans up what an earlier world left half-written (rank 0). OPTIONS' pointers outlive it. */
struct dt_ckpt *dt_ckpt_open(const struct dt_ckpt_options *o, struct dt_err *err);
void dt_ckpt_close(struct dt_ckpt *c); /* likewise gives up, or waits */

/* Tokenizer and the like that are in FOLDER go into all checkpoints from here on. Rank 0. */
int dt_ckpt_accompany(struct dt_ckpt *c, const char *folder, struct dt_err *err);

/* Snapshot between two steps. A save before it that was not committed is given up; one whose commit
 * was started is waited for. Where M has a recut it is collective, and a save that a rank has no
 * memory for has begun and failed: dt_ckpt_done() says so on that rank. */
int dt_ckpt_begin(struct dt_ckpt *c, struct dt_zero *z, const struct dt_ckpt_state *s,
                  struct dt_err *err);
/* Whether this rank's part is on disk; -1: it failed, and the save is given up (the reason is told
 * once). No save: 1. */
int dt_ckpt_done(struct dt_ckpt *c, struct dt_err *err);
void dt_ckpt_wait(struct dt_ckpt *c); /* until dt_ckpt_done() would say */
/* Rank 0, when all ranks are done: state.json, the final name, `latest`, and the oldest removed.
 * OK: whether all succeeded; else what is there is removed. Other ranks call it too, to forget the
 * save. */
int dt_ckpt_commit(struct dt_ckpt *c, bool ok, struct dt_err *err);
/* The same beside the steps that follow, as syncing takes a disk's time: dt_ckpt_committed() tells
 * how it went, once, and 0 as long as it is under way; nothing to tell: 1. may_commit is asked from
 * another thread then. */
int dt_ckpt_commit_start(struct dt_ckpt *c, bool ok, struct dt_err *err);
int dt_ckpt_committed(struct dt_ckpt *c, struct dt_err *err);
/* The checkpoint of STEP stays when later commits remove the oldest: somebody reads it. -1: none.
 */
void dt_ckpt_pin(struct dt_ckpt *c, int64_t step);
/* `best` names the checkpoint of STEP, which is there. */
int dt_ckpt_point_best(const char *dir, int64_t step, struct dt_err *err);
/* A commit that is under way waits for leave no longer: it goes by what the folder says of later
 * worlds. For who is about to wait for it. */
void dt_ckpt_hurry(struct dt_ckpt *c);
bool dt_ckpt_waits(const struct dt_ckpt *c); /* for leave, just now */

/* Whether DIR has a checkpoint of STEP, which may be damaged. */
bool dt_ckpt_is_there(const char *dir, int64_t step);
/* Finds what to resume from: the newest whole checkpoint of DIR (`latest`, else the highest step),
 * checksums of its state.json and config.json and sizes of its files in order. OUT "": there is no
 * checkpoint at all. A broken one is named in WARNING and the one before it taken; when none is
 * whole, that is an error. */
int dt_ckpt_find(const char *dir, char *out, size_t size, struct dt_buf *warning,
                 struct dt_err *err);
/* The same, from those behind BEFORE (a path that find gave, which then could not be read) on. */
int dt_ckpt_find_before(const char *dir, const char *before, char *out, size_t size,
                        struct dt_buf *warning, struct dt_err *err);
/* Moves all checkpoints of DIR, `latest` and `best` into a new folder in it, DIR/earlier-1 or the
 * next that is free; ASIDE "": there were none. */
int dt_ckpt_set_aside(const char *dir, char aside[PATH_MAX], struct dt_err *err);
/* Every byte of the checkpoint against its checksums. */
int dt_ckpt_verify(const char *path, struct dt_err *err);
/* What is in state.json of the checkpoint at PATH. */
int dt_ckpt_peek(const char *path, struct dt_ckpt_state *s, struct dt_err *err);
/* Reads RANK's shards from PATH into OUT's arrays, verifying the checksum of every block it
 * touches: all ranks together touch all of them. Errors name file and tensor. No collective: ranks
 * may agree on how it went before dt_zero_load(). What the configuration says of the scaler in S
 * stays. */
int dt_ckpt_read(const char *path, const struct dt_ckpt_model *m, const struct dt_zero_state *out,
                 struct dt_ckpt_state *s, struct dt_err *err);
/* dt_ckpt_read() and dt_zero_load(). Collective, where all fail when one does: for one rank, and
 * for who has no other checkpoint to try. C (NULL: there is none), which has begun no save, lends
 * the memory of its snapshots. */
int dt_ckpt_load(const char *path, const struct dt_ckpt_model *m, struct dt_zero *z,
                 struct dt_ckpt *c, struct dt_ckpt_state *s, struct dt_err *err);
/* What a training program does at its start: rank 0 finds, all read, and when a rank could not, all
 * take the one before, with a line in WARNING of whoever knows why. Where a rank has no memory,
 * that is no damage: all fail. PATH "": there is none, nothing was loaded. Collective over Z's
 * group, or the world of M's recut. C as above. */
int dt_ckpt_resume(const char *dir, const struct dt_ckpt_model *m, struct dt_zero *z,
                   struct dt_ckpt *c, struct dt_ckpt_state *s, char path[PATH_MAX],
                   struct dt_buf *warning, struct dt_err *err);
/* Where the weights of DIR, or adapters, are: DIR, or the checkpoint that its `latest` names, which
 * is put into ROOM. */
const char *dt_ckpt_weights_folder(const char *dir, char room[PATH_MAX]);
/* Weights alone, from a folder of Hugging Face's (one file, or shards with an index) or peft's, any
 * float type. Names may have the prefixes "transformer." or "model."; what is missing, left over or
 * of another shape is named. A rank reads what it owns, and holds a unit's part of it at a time. */
int dt_ckpt_load_weights(const char *dir, const struct dt_ckpt_model *m, struct dt_zero *z,
                         struct dt_err *err);
/* The same for who has no dt_zero: tensor by tensor, once all are known to be there. M outlives it.
 */
struct dt_ckpt_weights;
struct dt_ckpt_weights *dt_ckpt_weights_open(const char *dir, const struct dt_ckpt_model *m,
                                             struct dt_err *err);
void dt_ckpt_weights_close(struct dt_ckpt_weights *w); /* NULL is fine */
/* From here on ADAPTERS, which W ends, are in what is read of M: adapted.h. */
struct dt_ckpt_adapters;
void dt_ckpt_weights_adapt(struct dt_ckpt_weights *w, struct dt_ckpt_adapters *adapters);
/* From here on what is read of a weight that a run keeps in NF4 is what NF4 leaves of it, rounded
 * to TYPE before and after: the model as such a run has it. */
void dt_ckpt_weights_quantize(struct dt_ckpt_weights *w, enum dt_dtype type);
/* Of M's tensor number TENSOR, as it is saved: one of the floats; in NF4, that which its numbers
 * are rounded to. */
enum dt_dtype dt_ckpt_weights_type(const struct dt_ckpt_weights *w, size_t tensor);
/* COUNT elements of M's tensor number TENSOR from FIRST on. One in NF4 is read once as a whole. */
int dt_ckpt_weights_read(const struct dt_ckpt_weights *w, size_t tensor, uint64_t first,
                         size_t count, float *out, struct dt_err *err);
/* How long the weights are that make each output of the linear layer that is M's tensor number
 * TENSOR, once they are kept as TYPE: of COUNT outputs from FIRST on. A DoRA's magnitudes begin so.
 */
int dt_ckpt_weights_norms(const struct dt_ckpt_weights *w, size_t tensor, enum dt_dtype type,
                          size_t first, size_t count, float *norms, struct dt_err *err);

#endif
