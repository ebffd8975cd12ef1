/* SPDX-License-Identifier: Apache-2.0 */
/* What a training run is told: DeepSpeed's JSON keys, and the blocks "model", "data", "train" of
 * our own, as one checked struct. Comments and trailing commas are accepted. A key that nobody
 * knows is refused by its path; one that DeepSpeed knows and that means nothing here is warned of;
 * one whose effect we cannot give is refused by name. Pure but for reading files. */
#ifndef DT_WORKER_RUNTIME_CONFIG_CONFIG_H
#define DT_WORKER_RUNTIME_CONFIG_CONFIG_H

#include "base/buf.h"
#include "worker_runtime/mesh/pieces.h"
#include "worker_runtime/model/lora.h"
#include "worker_runtime/optim/dpo.h"
#include "worker_runtime/optim/loss_scaler.h"
#include "worker_runtime/optim/schedule.h"
#include "worker_runtime/pipeline/order.h"

#include <dtrun/zero.h>

struct dt_config_model {
    /* Of "config": an object in place, or the path of a config.json beside the file; without it, of
     * the folder that has the weights. */
    struct dt_shape shape;
    char *weights; /* a folder of Hugging Face's, or a checkpoint; NULL: chance makes them */
    /* activation_checkpointing: present and not false, or our "activation_checkpointing": true. */
    bool recompute;
    size_t recompute_every;
};

struct dt_config_file {
    char *path;
    double weight; /* above 0; default 1 */
};

struct dt_config_data {
    struct dt_config_file *train; /* token files: a path, or a list of paths and objects */
    size_t train_count;
    char *validation; /* a token file, or NULL */
    int raw_width;    /* of files without our header: 0, 2, 4 */
    size_t positions; /* "sequence_length"; default: the model's positions */
    bool shuffle;     /* default true */
    bool packing;     /* documents share samples; default true */
};

enum dt_balance_policy { DT_BALANCE_OFF, DT_BALANCE_TIMES, DT_BALANCE_UTILISATION };

enum dt_attention_by { DT_ATTENTION_OWN, DT_ATTENTION_CUDNN };

enum dt_vault_use {
    DT_VAULT_AUTO, /* where there is one, and room for it */
    DT_VAULT_OFF,
    DT_VAULT_LOCAL, /* or the run does not begin */
    DT_VAULT_PEER,  /* and copies on other nodes, where there are any, or it does not begin */
};

struct dt_config_train {
    int64_t steps; /* 0: not written */
    double epochs; /* in their place; 0: not written */
    uint64_t seed;
    int64_t log_every, save_every, validate_every, validation_batches; /* 0: never */
    int64_t patience; /* validations in a row that are no better and end the run; 0: none do */
    double min_delta; /* a better one is lower by more */
    bool keep_best;   /* the checkpoint with the lowest validation loss */
    char *save_dir;   /* NULL: no checkpoints */
    int keep_last;    /* 0: all; default 2 */
    char *upload_to, *upload_cmd; /* NULL: nothing is uploaded, or we transfer ourselves */
    int upload_keep_last;         /* as keep_last, which is the default */
    int64_t upload_bandwidth;     /* bytes a second of all ranks together; 0: no limit */
    int64_t upload_timeout_ms;    /* at the end of the run; default 600 s */
    char *metrics;                /* JSON lines; "": none; NULL: beside the run's logs */
    int64_t max_skipped_steps;    /* in a row, without an adaptive loss scale; default 10; 0: any */
    int threads;                  /* 0: see context.h */
    char device[16];              /* "auto", "cpu", "cuda" */
    bool wide_sums;     /* communication_data_type "fp32" is written: no sum in fewer bits */
    bool deterministic; /* the same bits on each run, on a GPU too; default true */
    bool cuda_graphs;   /* a GPU is told of repeated work as one; default true */
    int attention;      /* enum dt_attention_by; of a GPU */
    int64_t collective_timeout_ms; /* default 600 s */
    enum dt_balance_policy
        balance; /* "dynamic_accumulation": false, true, { "policy": "balance" | "utilization" } */
    enum dt_vault_use vault;
    int64_t vault_every;      /* steps from one copy to the next; 0: as often as is cheap */
    bool breakdown;           /* wall_clock_breakdown */
    char *csv_path, *csv_job; /* csv_monitor */
};

/* How the ranks share the work: so many of them share ... */
struct dt_config_parallel {
    int tensor;    /* ... each block, part of its tensors each; 1: none do */
    bool sequence; /* those: the rows of the stream between blocks, too */
    int pipeline;  /* ... the model, some of its blocks each; 1: none do */
    enum dt_pipe_schedule schedule;
    int chunks;  /* of consecutive blocks that each of those has; 1, unless interleaved */
    int context; /* ... each sample, some of its positions each; 1: none do */
    enum dt_context_by context_by;
    int expert; /* ... the experts of each block, some of them each; 1: none do */
    /* A later world whose ranks cannot be shared so takes another mesh; default true. */
    bool elastic;
};

/* Whether those who share tensors can share the rows of a sample of so many positions evenly. */
static inline bool dt_config_shares_rows(const struct dt_config_parallel *p, size_t positions)
{
    return positions % ((size_t)p->tensor * (size_t)p->context) == 0;
}

/* What is left of the ranks for samples, in words. */
const char *dt_config_left(const struct dt_config_parallel *p);

struct dt_config_batch {
    int64_t train_batch, micro_batch, accumulation; /* as written; 0: not */
};

struct dt_config {
    struct dt_config_model model;
    struct dt_lora lora; /* .r 0: the whole model is trained */
    bool lora_nf4;       /* the model that they are beside is kept in NF4: QLoRA */
    char *lora_from;     /* a folder of peft's, whose adapters are gone on with; NULL: new ones */
    struct dt_dpo dpo;   /* .on false: tokens are learned */
    struct dt_config_data data;
    struct dt_config_train train;
    struct dt_config_batch batch;
    struct dt_config_parallel parallel;
    struct dt_zero_options zero; /* betas, eps, decay are the optimizer's */
    struct dt_schedule schedule; /* what hangs on the number of steps: dt_config_schedule() */
    bool total_follows,
        warmup_follows;  /* hang on the number of steps, and train.epochs are written */
    double warmup_ratio; /* of the steps; below 0: not written */
    struct dt_loss_scaler scaler;
    float clip;
    bool has_model, has_data; /* a model and data.train are there */
    bool offload_activations; /* to the host's memory, where a run on a CPU has all of it anyway */
    char *document;           /* all of what was read, as one object in JSON */
};

/* Whether the model can be shared as .parallel says: for those who have made up another mesh. */
int dt_config_check_parallel(const struct dt_config *c, struct dt_err *err);
/* Whether the run can be on a GPU: for those who learn late that there is one. */
int dt_config_check_gpu(const struct dt_config *c, struct dt_err *err);

/* A block "lora" that says of C's adapters, all of them new, what C has of them, whatever folder
 * that came from: for who goes on once that folder may be gone. */
void dt_config_put_lora(const struct dt_config *c, struct dt_buf *out);

/* What a GPU computes with; a CPU takes float. */
static inline enum dt_dtype dt_config_gpu_elem(const struct dt_config *c)
{
    return c->zero.model_type == DT_BF16 ? DT_BF16 : DT_F32;
}

/* What is trained is rounded to it: adapters stay floats beside a model of fewer bits. */
static inline enum dt_dtype dt_config_trained_type(const struct dt_config *c)
{
    return c->lora.r > 0 ? DT_F32 : c->zero.model_type;
}

/* PATH is the file, DEEPSPEED (may be NULL) another whose keys it takes in: a key that both have,
 * with another value, is refused, but "auto" gives way to a value. With DEEPSPEED alone, PATH may
 * be NULL. OVERRIDES (NULL-ended; may be NULL): "train.steps=20", set after both, checked alike. In
 * files, data.train, data.validation, model.config, model.weights and lora.from are relative to the
 * file's folder; in overrides, and for all that is written, paths are relative to where the process
 * stands. Each warning is a line in WARNINGS, which may be NULL. On failure nothing is to be
 * finished. */
int dt_config_load(struct dt_config *c, const char *path, const char *deepspeed,
                   const char *const *overrides, struct dt_buf *warnings, struct dt_err *err);
void dt_config_finish(struct dt_config *c);
/* The same from text: for tests and the fuzzer. FOLDER: what relative paths are relative to. */
int dt_config_parse(struct dt_config *c, const char *text, size_t len, const char *name,
                    const char *folder, struct dt_buf *warnings, struct dt_err *err);

/* The schedule of a run of STEPS: what is "auto" in it follows from them. */
void dt_config_schedule(const struct dt_config *c, int64_t steps, struct dt_schedule *out);

/* Comments and trailing commas become spaces, so that line and column stay. */
int dt_jsonc_strip(char *text, size_t len, struct dt_err *err);

/* The three batch numbers for WORLD data-parallel ranks, DeepSpeed's arithmetic. Who resumes in
 * another world writes the checkpoint's train batch and no accumulation: it follows. Errors say
 * which numbers, and which worlds, would do. */
struct dt_batch {
    int64_t train, micro, accumulation;
};
int dt_batch_resolve(struct dt_batch *b, const struct dt_config_batch *written, int world,
                     struct dt_err *err);

#endif
