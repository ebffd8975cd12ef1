/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a machine might share a run's work: all meshes whose ranks have the memory for
 * it, by the estimate, with what a step of each would cost. Pure: the machine is an argument. */
#ifndef DT_WORKER_RUNTIME_TRAIN_SUGGEST_H
#define DT_WORKER_RUNTIME_TRAIN_SUGGEST_H

#include "base/buf.h"
#include "worker_runtime/config/config.h"
#include "worker_runtime/train/cost.h"

struct dt_suggestion {
    struct dt_plan plan;
    struct dt_cost cost;
    size_t memory; /* of a rank */
    bool today;    /* this version can run it */
};

/* One for each mesh, with the stage, the micro-batch and so on that are fastest of what fits. */
struct dt_suggestions {
    struct dt_suggestion *at; /* the fastest first */
    size_t count;
    const struct dt_suggestion *fastest, *best; /* BEST: of what runs today; NULL: nothing does */
    int64_t batch;                              /* samples of a step, the same for all */
    size_t room;                                /* of a rank */
};

/* -1 and *err: nothing fits, and the sentence says what is missing; or the configuration has no
 * model, or no batch. End with dt_suggest_finish() in any case. */
int dt_suggest(const struct dt_config *c, const struct dt_machine *m, struct dt_suggestions *out,
               struct dt_err *err);
/* The same with the configuration's stage of ZeRO, and its blocks recomputed or not: for a run that
 * goes on as what it was. */
int dt_suggest_as_written(const struct dt_config *c, const struct dt_machine *m,
                          struct dt_suggestions *out, struct dt_err *err);
void dt_suggest_finish(struct dt_suggestions *s);

/* What `dtrun-train --suggest` prints. */
int dt_suggest_print(const struct dt_config *c, const struct dt_machine *m, struct dt_buf *out,
                     struct dt_err *err);
/* The keys that a configuration takes P by, as an object in JSON. */
void dt_suggest_write(const struct dt_plan *p, int64_t batch, struct dt_buf *out);

#endif
