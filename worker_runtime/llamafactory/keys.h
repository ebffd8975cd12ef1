/* SPDX-License-Identifier: Apache-2.0 */
/* LLaMA-Factory's keys, a row each, and the draft that they are read into: what several of them say
 * together waits there. */
#ifndef DT_LLAMAFACTORY_KEYS_H
#define DT_LLAMAFACTORY_KEYS_H

#include "base/json.h"
#include "worker_runtime/llamafactory/llamafactory.h"

#include <stddef.h>

struct factory_draft {
    struct dt_factory f;
    char *stage, *ref_model;
    char *finetuning, *adapter, *targets, *saved;
    char *schedule, *optimizer, *deepspeed, *resume_from;
    char *save_strategy, *eval_strategy;
    double epochs, warmup_ratio, warmup_steps, beta1, beta2;
    int64_t max_steps, eval_steps, logging_steps;
    int64_t bits; /* of the model that adapters are beside; 0: as it is */
    bool bf16, fp16, overwrite, resume, neat_packing, no_shuffle, no_recompute, on_cpu;
};

enum factory_kind {
    FACTORY_TO,     /* the value of the key .to of a configuration, as it is */
    FACTORY_FLAG,   /* bool, at .at */
    FACTORY_COUNT,  /* int64_t */
    FACTORY_REAL,   /* double */
    FACTORY_TEXT,   /* char *, owned */
    FACTORY_NAMES,  /* the same, of names with commas between, or of a list of them */
    FACTORY_SAME,   /* whatever it says, what is done here is that */
    FACTORY_IDLE,   /* it means nothing here */
    FACTORY_REFUSE, /* unless it is off, or .fallback */
};

struct factory_key {
    const char *name;
    enum factory_kind kind;
    const char *to; /* the key of a configuration that it stands for, or goes into */
    size_t at;
    double min, max;
    /* What is taken where the file says nothing or null; of TO as JSON, NULL: nothing. */
    const char *fallback;
    const char *why;  /* of REFUSE: a part of a sentence */
    bool of_adapters; /* it says something of new adapters */
    bool of_any;      /* ... of any that are trained */
    bool of_pairs;    /* it says something of pairs of answers */
};

/* Ended by a row without a name. */
extern const struct factory_key factory_keys[];

void factory_draft_init(struct factory_draft *d);
void factory_draft_finish(struct factory_draft *d);

/* What is read, and what becomes of it. */
struct factory_reading {
    struct factory_draft *draft;
    const struct dt_json *file; /* LLaMA-Factory's keys */
    struct dt_json *run;        /* the document of a configuration */
    struct dt_buf *warnings;    /* may be NULL */
    struct dt_err *err;
};

/* "KEY: ...", -1. */
int factory_refuse(const struct factory_reading *r, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether V is a number, *OUT, or the text of one: files have some in quotes. */
bool factory_number(const struct cJSON *v, double *out);
/* Each member of the file by its row. */
int factory_read(const struct factory_reading *r);
/* What keys say together, as keys of the run. */
int factory_settle(const struct factory_reading *r);
/* How long samples are, once overrides are in the run: nothing that the file leaves out asks for
 * more positions than the model has. */
int factory_settle_cutoff(const struct factory_reading *r);
/* Before the run takes in the file DEEPSPEED, which is called NAME: a scheduler and an optimizer
 * there count in place of the run's. */
int factory_settle_deepspeed(const struct factory_reading *r, const struct dt_json *deepspeed,
                             const char *name);

/* After a failure to take it in: an error about a key that is another value in both names what the
 * file calls that, which may be a default that nobody wrote. Gives -1. */
int factory_blame_both(const struct factory_reading *r, const struct dt_json *deepspeed,
                       const char *name);

/* Sets the key PATH of the run to V, which it owns in any case; V NULL: no memory. */
int factory_put(const struct factory_reading *r, const char *path, struct cJSON *v);

#endif
