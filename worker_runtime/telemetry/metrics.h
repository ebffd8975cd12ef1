/* SPDX-License-Identifier: Apache-2.0 */
/* What a step was like, for people and for machines: a line or a progress bar on a stream, JSON
 * lines, and DeepSpeed's csv files. */
#ifndef DT_WORKER_RUNTIME_TELEMETRY_METRICS_H
#define DT_WORKER_RUNTIME_TELEMETRY_METRICS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Of pairs of answers, the means; the margin is the chosen one's reward less the other's. */
struct dt_preference_metrics {
    bool told; /* false: there are none */
    double chosen, rejected, margin, accuracy;
};

struct dt_step_metrics {
    int64_t step, steps; /* done, and how many there will be */
    double loss, lr, grad_norm, loss_scale;
    bool skipped; /* an overflow */
    double tokens_per_s;
    uint64_t samples, tokens; /* since the beginning */
    double ms, forward_ms, backward_ms, communication_ms, optimizer_ms, data_ms;
    uint64_t team_bytes;  /* that the ranks of a team have summed; 0: there is none */
    double checkpoint_ms; /* that the checkpoint before this step held training up */
    double vault_ms;      /* and the copy into the vault */
    double utilisation;   /* computing / step, 0 to 1 */
    struct dt_preference_metrics preferences;
};

struct dt_metrics;

struct dt_metrics_options {
    const char *program;  /* that warns, see dt_say(); the pointer is kept */
    FILE *console;        /* NULL: nothing */
    bool terminal;        /* a progress bar with the time left, too */
    int columns;          /* of the terminal; 0: ask it */
    int64_t every;        /* steps between lines; 0: none */
    bool first;           /* the first step has a line all the same: somebody waits for it */
    int64_t steps;        /* there will be; 0: the first step says */
    bool breakdown;       /* lines tell where the time went */
    const char *jsonl;    /* path; NULL: none */
    int64_t round;        /* of the job; lines name it */
    const char *csv_path; /* DeepSpeed's csv_monitor: folder, NULL: none */
    const char *csv_job;
};

/* Resuming appends; lines of steps from FIRST_STEP on, which will come again, are cut. Behind the
 * first round of a job they are kept beside the file, in JSONL.redone: they tell what a failure
 * cost. */
struct dt_metrics *dt_metrics_open(const struct dt_metrics_options *o, int64_t first_step,
                                   struct dt_err *err);
void dt_metrics_step(struct dt_metrics *m, const struct dt_step_metrics *s);
/* With the perplexity that LOSS, a mean over tokens, comes to. */
void dt_metrics_validation(struct dt_metrics *m, int64_t step, double loss);
/* With what LOSS, a mean over pairs of answers, came of. */
void dt_metrics_judged(struct dt_metrics *m, int64_t step, double loss,
                       const struct dt_preference_metrics *p);
/* The line of the next step tells from where this round has the state that it goes on with. */
void dt_metrics_back(struct dt_metrics *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A line among the others: the bar is taken away and comes again. */
void dt_metrics_say(struct dt_metrics *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Warnings, a line each, on standard error as all others of the program. */
void dt_metrics_warn(struct dt_metrics *m, const char *lines);
void dt_metrics_close(struct dt_metrics *m);

#endif
