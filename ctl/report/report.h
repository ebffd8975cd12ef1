/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a run, as plain data: read.h fills it from files, page.h draws it. */
#ifndef DT_CTL_REPORT_REPORT_H
#define DT_CTL_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_REPORT_UNKNOWN INT64_MIN /* a time that nobody noted */

/* What a step was like. */
enum dt_report_series {
    DT_REPORT_LOSS,
    DT_REPORT_LR,
    DT_REPORT_GRAD_NORM,
    DT_REPORT_TOKENS_PER_S,
    DT_REPORT_MS,
    DT_REPORT_FORWARD,
    DT_REPORT_BACKWARD,
    DT_REPORT_COMMUNICATION,
    DT_REPORT_OPTIMIZER,
    DT_REPORT_DATA,
    DT_REPORT_CHECKPOINT, /* that the checkpoint before it held it up */
    DT_REPORT_VAULT,      /* and the copy into the vault */
    DT_REPORT_SERIES
};

struct dt_report_step {
    int64_t at_us; /* when it was done, since 1970 */
    int64_t step;
    int round;
    bool redone;                /* a later round did it again */
    double v[DT_REPORT_SERIES]; /* NaN: not told */
};

struct dt_report_validation {
    int64_t at_us, step;
    double loss;
};

struct dt_report_failure {
    int64_t rank, pid, exit_code; /* below 0: the number of a signal */
    char *kind, *text, *place;    /* NULL: not told */
};

enum dt_report_end {
    DT_REPORT_OPEN,   /* it has not ended, as far as is known */
    DT_REPORT_WELL,   /* with it the job succeeded */
    DT_REPORT_FAILED, /* a worker did */
    DT_REPORT_CUT,    /* it was ended for another reason, as the loss of a node */
};

struct dt_report_round {
    int round;
    int64_t began_us, ended_us;      /* DT_REPORT_UNKNOWN: not noted */
    int64_t nodes, ranks, told_step; /* -1: not noted */
    char *cause, *decided;           /* NULL: it did not fail; nothing was decided yet */
    struct dt_report_failure *failures;
    size_t failure_count;
    /* dt_report_settle() fills these. */
    enum dt_report_end end;
    bool started;                  /* a step of its own is known */
    int64_t first_step, last_step; /* -1: no step is known */
    int64_t redone_steps;          /* of it, that a later round did again */
    double back_s;                 /* from its end to the next step that was done; -1: unknown */
    double gap_s;                  /* and to the next round; -1: unknown */
};

/* Where a round has the state from that it went on with. */
struct dt_report_comeback {
    int round;
    char *text;
};

struct dt_report_hang {
    int64_t at_us;
    char *kind, *sentence, *advice;
};

struct dt_report_save {
    int64_t step, at_us;
    uint64_t bytes;
    bool latest;
};

/* Seconds, and steps. */
struct dt_report_costs {
    double all;      /* from the first round's beginning to the end */
    double useful;   /* in steps that count */
    double redone;   /* in steps that a later round did again */
    double saving;   /* that checkpoints held steps up */
    double keeping;  /* and copies into vaults */
    double starting; /* from a round's beginning to its first step */
    double between;  /* no round ran */
    double other;
    int64_t steps, redone_steps, saves;
};

struct dt_report {
    char *name, *model, *device; /* NULL: not told */
    char *save_dir;
    int64_t steps_wanted;         /* 0: not told */
    struct dt_report_step *steps; /* sorted by time when it is settled */
    size_t step_count;
    struct dt_report_validation *validations;
    size_t validation_count;
    struct dt_report_round *rounds; /* sorted by number when it is settled */
    size_t round_count;
    struct dt_report_comeback *comebacks;
    size_t comeback_count;
    struct dt_report_hang *hangs;
    size_t hang_count;
    struct dt_report_save *saves;
    size_t save_count;
    char *trouble;        /* why metrics that the run names are missing; NULL: they are not */
    size_t strange_lines; /* of metrics, that make no sense */
    bool too_many;        /* steps, rounds or hangs were left out */

    /* dt_report_settle() fills these. */
    int64_t zero_us, end_us; /* 0: nothing has a time */
    size_t earlier_steps;    /* left out: another job did them, before this run began */
    struct dt_report_costs costs;
};

/* Zeroed memory is an empty report. */
void dt_report_finish(struct dt_report *r);

/* Sorts, leaves out steps of other jobs, and counts what it all cost. Pure. */
void dt_report_settle(struct dt_report *r);

#endif
