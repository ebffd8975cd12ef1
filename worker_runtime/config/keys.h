/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a configuration, a row each, and the draft that they are read into. What one key
 * alone cannot decide (a default that hangs on another, "auto", a contradiction) stays in the draft
 * until dt_config_settle(). */
#ifndef DT_WORKER_RUNTIME_CONFIG_KEYS_H
#define DT_WORKER_RUNTIME_CONFIG_KEYS_H

#include "base/json.h"
#include "worker_runtime/config/config.h"
#include "worker_runtime/config/merge.h"

/* In numbers of the draft that are never below 0: not written, and "auto" is. */
#define DT_UNSET (-1)
#define DT_AUTO (-2)

enum dt_optimizer_type { DT_ADAM, DT_ADAMW };
/* In the order of the names in schedule.c. */
enum dt_scheduler_type {
    DT_SCHEDULER_WARMUP, /* DeepSpeed's up to COSINE, Hugging Face's from HF_LINEAR on */
    DT_SCHEDULER_DECAY,
    DT_SCHEDULER_COSINE,
    DT_SCHEDULER_HF_LINEAR,
    DT_SCHEDULER_HF_COSINE,
    DT_SCHEDULER_HF_RESTARTS,
    DT_SCHEDULER_HF_MIN_LR,
    DT_SCHEDULER_HF_POLYNOMIAL,
    DT_SCHEDULER_HF_CONSTANT,
    DT_SCHEDULER_HF_WARMUP,
    DT_SCHEDULER_HF_INVERSE_SQRT,
    DT_SCHEDULER_HF_STABLE,
    DT_SCHEDULERS,
};

/* Whose name for how many ranks share something. */
enum dt_degree_of { DT_OF_OURS, DT_OF_DEEPSPEED, DT_OF_MEGATRON, DT_OF_TITAN, DT_DEGREES_OF };

struct dt_config_draft {
    struct dt_config c;
    int optimizer, adam_w, scheduler, warmup_type; /* the word's number; DT_UNSET */
    bool optimizer_block, scheduler_block;
    bool lr_by_default;
    double lr, beta1, beta2, eps, weight_decay, clip;
    double min_lr, max_lr, warmup_min_ratio, cos_min_ratio;
    int64_t warmup_steps, total_steps;
    double warmup_ratio; /* in place of warmup_steps */
    /* Of Hugging Face's schedulers, by their names for them. */
    double num_cycles, power, lr_end, hf_min_lr, min_lr_rate, min_lr_ratio;
    int64_t timescale, num_decay_steps, num_stable_steps;
    int decay_type;
    bool fp16, bf16;
    double loss_scale, min_loss_scale;
    int64_t scale_power, scale_window;
    int hysteresis;
    bool consecutive_hysteresis;
    int communication_type;
    int vault; /* enum dt_vault_use */
    int overlap;
    bool prescale;
    double predivide;
    bool offloads, offloads_params, offloads_activations; /* to the CPU */
    int recompute;                                        /* model.activation_checkpointing */
    bool recompute_block; /* DeepSpeed's block of that name is there */
    int upload_keep_last;
    int64_t steps_per_print, log_every, validation_batches, positions;
    bool lora_block;
    int64_t lora_r;
    double lora_alpha, lora_dropout;
    double lora_plus_ratio;
    int lora_rslora, lora_dora;
    int lora_base; /* which of the words of "lora.base" */
    /* Of the document; NULL: not written. */
    const struct cJSON *lora_targets, *lora_saved, *lora_ranks, *lora_alphas;
    /* How many ranks share what, as each name for it says; 0: not given. */
    int tensor[DT_DEGREES_OF], pipeline[DT_DEGREES_OF], context[DT_DEGREES_OF],
        expert[DT_DEGREES_OF];
    int sequence, sequence_too;     /* 0 or 1; ours, and Megatron's */
    int pipeline_order;             /* which of the words of "parallel.schedule" */
    int chunks;                     /* 0: not given */
    int context_by, context_by_too; /* which of the words of "parallel.context_by"; DT_UNSET */
    bool dpo_block;
    bool csv;
    char *csv_path, *csv_job;
    char *device;
};

void dt_config_draft_init(struct dt_config_draft *d);
void dt_config_draft_finish(struct dt_config_draft *d);

/* The configuration that is read; paths in it are good from where the process stands. */
struct dt_reading {
    struct dt_config_draft *draft;
    const struct dt_json *doc;
    const struct dt_merge *sources; /* NULL: nobody knows */
    struct dt_buf *warnings;        /* may be NULL */
    struct dt_err *err;
};

/* A line in the warnings. */
void dt_config_warn(const struct dt_reading *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* "PATH OF V: ...", -1. */
int dt_config_refuse(const struct dt_reading *r, const struct cJSON *v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Of a string; else NULL, and it is refused. */
const char *dt_config_text_of(const struct dt_reading *r, const struct cJSON *v);

enum dt_key_kind {
    DT_KEY_BLOCK,  /* of other rows; .at: a bool that says it is there; .take: what is no object */
    DT_KEY_FLAG,   /* bool */
    DT_KEY_THREE,  /* int: 0 or 1, so that not written is a third */
    DT_KEY_COUNT,  /* size_t */
    DT_KEY_INT,    /* int64_t */
    DT_KEY_SMALL,  /* int */
    DT_KEY_REAL,   /* double */
    DT_KEY_TEXT,   /* char *, owned */
    DT_KEY_CHOICE, /* int: which of .words, in any case */
    DT_KEY_OTHER,  /* .take alone */
    DT_KEY_SAME,   /* whatever it says, what is done here is that */
    DT_KEY_IDLE,   /* warned of, unless it is .idle */
    DT_KEY_REFUSE, /* refused, unless it is .idle */
};

enum dt_key_auto { DT_AUTO_REFUSED, DT_AUTO_DEFAULT, DT_AUTO_MARKED };

struct dt_key {
    const char *path;
    enum dt_key_kind kind;
    size_t at; /* in the draft; 0: nowhere */
    double min, max;
    const char *words; /* "one|two"; or why, of IDLE and REFUSE */
    const char *idle;  /* as JSON; NULL: what is off: false, 0, "none", {"enabled": false} */
    enum dt_key_auto automatic;
    int (*take)(const struct dt_reading *r, const struct cJSON *v);
};

/* Ended by a row without a path. */
extern const struct dt_key dt_deepspeed_keys[], dt_own_keys[];

/* The row of PATH, or NULL. */
const struct dt_key *dt_key_find(const char *path);
/* "; did you mean X?" for a name that has no row in the block PREFIX ("" for the top), or "". */
const char *dt_key_suggestion(const char *prefix, const char *name, char *out, size_t size);

/* Every member of the document, by its row. One without is refused within a block. On the top
 * DeepSpeed takes any, so there it is named in a warning, unless it is a slip of the pen or comes
 * from an override. A name with _ in front is a comment anywhere. */
int dt_config_read(const struct dt_reading *r);

/* From the whole document M->doc, which is read and settled, to the configuration. */
int dt_config_understand(struct dt_config *c, struct dt_merge *m, struct dt_buf *warnings,
                         struct dt_err *err);

/* The parts of the draft together, as the configuration. */
int dt_config_settle(const struct dt_reading *r);

/* When which rate: schedule.c. */
int dt_config_settle_schedule(const struct dt_reading *r);

/* What does not go with experts, where the model has some: experts.c. */
int dt_config_check_experts(const struct dt_reading *r);

/* Its adapters, once the model is known: lora.c. */
int dt_config_settle_lora(const struct dt_reading *r);

/* What pairs of answers are trained with, once the adapters are known: dpo.c. */
int dt_config_settle_dpo(const struct dt_reading *r);

/* What was given under any name; 1: nothing was. */
int dt_config_degree(const int given[DT_DEGREES_OF]);
/* How ranks share the work, once all else is known: parallel.c. */
int dt_config_settle_parallel(const struct dt_reading *r);

/* Values that are more than a number or a word: values.c. */
int dt_take_betas(const struct dt_reading *r, const struct cJSON *v);
int dt_take_optimizer_type(const struct dt_reading *r, const struct cJSON *v);
int dt_take_scheduler_type(const struct dt_reading *r, const struct cJSON *v);
int dt_take_warmup_type(const struct dt_reading *r, const struct cJSON *v);
int dt_take_sum_type(const struct dt_reading *r, const struct cJSON *v);
int dt_take_loss_scale(const struct dt_reading *r, const struct cJSON *v);
int dt_take_old_zero(const struct dt_reading *r, const struct cJSON *v);
int dt_take_offload(const struct dt_reading *r, const struct cJSON *v);
int dt_take_offload_params(const struct dt_reading *r, const struct cJSON *v);
int dt_take_no_checkpointing(const struct dt_reading *r, const struct cJSON *v);
int dt_take_recompute(const struct dt_reading *r, const struct cJSON *v);
int dt_take_model(const struct dt_reading *r, const struct cJSON *v);
/* The model of the folder model.weights, where there is no model.config. */
int dt_take_model_folder(const struct dt_reading *r);
int dt_take_train(const struct dt_reading *r, const struct cJSON *v);
int dt_take_lora_targets(const struct dt_reading *r, const struct cJSON *v);
int dt_take_lora_ranks(const struct dt_reading *r, const struct cJSON *v);
int dt_take_lora_alphas(const struct dt_reading *r, const struct cJSON *v);
int dt_take_lora_saved(const struct dt_reading *r, const struct cJSON *v);
int dt_take_raw_width(const struct dt_reading *r, const struct cJSON *v);
int dt_take_upload_timeout(const struct dt_reading *r, const struct cJSON *v);
int dt_take_early_stop(const struct dt_reading *r, const struct cJSON *v);
int dt_take_timeout(const struct dt_reading *r, const struct cJSON *v);
int dt_take_balance(const struct dt_reading *r, const struct cJSON *v);

#endif
