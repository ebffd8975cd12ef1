/* SPDX-License-Identifier: Apache-2.0 */
/* A file of LLaMA-Factory's, in YAML or JSON, as a run of ours, supervised or by preferences: its
 * keys become those of a configuration, a row each (keys.c), and its datasets a file of tokens
 * beside the checkpoints. A key that would change what is computed and is not done here is refused
 * by name; those that mean nothing here are named in a warning. What the file leaves out is what
 * LLaMA-Factory makes of it, and not our own default. */
#ifndef DT_LLAMAFACTORY_LLAMAFACTORY_H
#define DT_LLAMAFACTORY_LLAMAFACTORY_H

#include "worker_runtime/config/config.h"

/* What a run is trained on. */
struct dt_factory_data {
    char *dataset, *eval_dataset; /* names behind each other, with commas; NULL: none */
    char *folder;                 /* where dataset_info.json is */
    char *template, *system;      /* SYSTEM NULL: the template's own */
    int64_t most;                 /* examples of each dataset; 0: all */
    int64_t cutoff;               /* tokens of an example, at most */
    double validation;            /* a share of all examples, or how many; 0: none */
    bool packing, train_on_prompt, mask_history;
    bool pairs; /* an example has two answers, of which one is chosen */
};

/* Zeroed memory is an empty one. */
struct dt_factory {
    struct dt_factory_data data;
    char *resume;      /* as --resume has it; NULL: the file does not say */
    bool makes_tokens; /* dt_factory_make_tokens() has something to do */
};

/* Reads the file PATH, or none where it is "", into F and C. OVERRIDES (NULL-ended; may be NULL)
 * are "KEY=VALUE" of keys that the file could have, and of those of a configuration. Paths in the
 * file are good from where the process stands, as LLaMA-Factory has them. C's data.train, and
 * data.validation where there is one, name files that dt_factory_make_tokens() makes. On failure
 * nothing is to be finished. */
int dt_factory_load(struct dt_factory *f, struct dt_config *c, const char *path,
                    const char *const *overrides, struct dt_buf *warnings, struct dt_err *err);
void dt_factory_finish(struct dt_factory *f);

/* Makes the files of tokens that C names, unless they are there: one process of those that share
 * the folder does, and the others wait for it. SAY gets lines for people, of the one that makes
 * them. Then samples are as long as the data need, and C says so. */
typedef void dt_factory_say_fn(const char *line);
int dt_factory_make_tokens(const struct dt_factory *f, struct dt_config *c, dt_factory_say_fn *say,
                           struct dt_err *err);

#endif
