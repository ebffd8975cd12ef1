/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of dtrun-train. */
#ifndef DT_WORKER_RUNTIME_TRAIN_OPTIONS_H
#define DT_WORKER_RUNTIME_TRAIN_OPTIONS_H

#include "base/opt/opt.h"

#include <stdint.h>

enum dt_train_command {
    DT_TRAIN_NONE, /* it trains, or does what an option says */
    DT_TRAIN_TOKENIZE,
    DT_TRAIN_DETOKENIZE,
    DT_TRAIN_SHOW_DATA,
    DT_TRAIN_GENERATE,
    DT_TRAIN_EXPORT,
    DT_TRAIN_MERGE,
    DT_TRAIN_LS,
    DT_TRAIN_FETCH,
    DT_TRAIN_RM,
    DT_TRAIN_PROBE,
    DT_TRAIN_COMMANDS
};

struct dt_train_args {
    char *config, *deepspeed, *llamafactory, *resume, *init_from, *output;
    struct dt_opt_strings set;
    int world, local;        /* for --estimate; 0: as many as the environment says */
    char *suggest, *machine; /* MACHINE: NULL: this one */
    char *estimate, *verify, *tokenizer, *template, *key, *system, *validation;
    char *to, *dtype; /* for export */
    int max_tokens;   /* 0: any number */
    double split;     /* the share for validation */
    int64_t document; /* that one alone; -1: all */
    struct dt_generate_args {
        char *prompt, *prompt_file;
        int max_tokens, threads, top_k;
        double temperature, top_p;
        int64_t seed; /* -1: any */
        struct dt_opt_strings stops;
    } generate;
    char *device;       /* of probe; NULL: not given */
    int limit;          /* of probe, in seconds; 0: not given */
    int local_rank;     /* what older launchers append; the environment says it too */
    const char **files; /* a command and what it is about; owned, its strings are argv's */
    int file_count;
    enum dt_train_command command;
    bool print_config, check_nccl, rescue, train_on_prompt, last_answer_only, preferences;
};

extern const struct dt_opt_program dt_train_program;

/* End with dt_train_args_finish() also after a failure. */
int dt_train_args_read(struct dt_train_args *a, int argc, char *const *argv,
                       struct dt_opt_result *result, struct dt_err *err);
void dt_train_args_finish(struct dt_train_args *a);

#endif
