/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share a model by its layers: the stages of a pipeline. A step goes through them in
 * micro-batches, in an order that pipeline/order.h lists. */
#ifndef DT_WORKER_RUNTIME_TRAIN_STAGES_H
#define DT_WORKER_RUNTIME_TRAIN_STAGES_H

#include "worker_runtime/config/config.h"
#include "worker_runtime/model/stage.h"
#include "worker_runtime/pipeline/border.h"

struct dt_trainer;
struct dt_loss_sums;
struct dt_dpo_pass;

/* Which blocks each stage has, in chunks where there are several. They follow from the model, the
 * length of samples, the schedule and whether blocks are gone through again: who goes on with
 * another batch finds the same. Free *OUT.
 */
int dt_stages_split(const struct dt_config *c, struct dt_stage **out, struct dt_err *err);
/* Which they are, as one number; 0: there is no memory to find out. */
uint64_t dt_stages_mark(const struct dt_config *c);
/* What goes through them in a step of so many micro-batches. Pure. */
struct dt_pipe_plan dt_stages_plan(const struct dt_config *c, int64_t micros);
/* The passes whose messages a stage asks for ahead of them. TEAMS: it waits for others than its
 * neighbours in the midst of passes; HOSTS: they are on several; THERE: they are devices. And what
 * it holds at most of micro-batches, or chunks of them, between forward and backward. Pure. */
int dt_stages_ahead(const struct dt_pipe_plan *p, bool teams, bool hosts, bool there);
int dt_stages_hold(const struct dt_pipe_plan *p, int stage, int ahead);

/* "a pipeline of 3 stages, with 4 + 4 + 3 blocks, by 1F1B", as C has it, and of several chunks a
 * stage "a pipeline of 2 stages x 2 chunks, with 2 + 2 + 2 + 1 blocks, by ...", as they stand in
 * the model; and how much of a step of so many micro-batches a stage is idle, in percent, when all
 * take as long. */
void dt_stages_describe(const struct dt_config *c, struct dt_buf *out);
int dt_stages_idle(const struct dt_config *c, int64_t micros);

/* Whether the ways back are in halves (model/halves.h). Pure. */
bool dt_stages_halves(const struct dt_config *c);

/* This rank's part in it; NULL where there is one stage. */
struct dt_stages;

/* Collective over the stages, where there are several, once micro-batches are known. */
int dt_stages_open(struct dt_trainer *t, struct dt_err *err);
void dt_stages_close(struct dt_stages *s);
/* What dt_stages_hold() says; S may be NULL. */
size_t dt_stages_slots(const struct dt_stages *s);
/* What the time of its passes, and of its optimizer, is to be multiplied with, to be compared with
 * that of other stages: these have other layers. S may be NULL. */
struct dt_stage_even {
    double computing, update;
};
struct dt_stage_even dt_stages_even(const struct dt_stages *s);
/* Nanoseconds spent so far in waiting for neighbours; S may be NULL. */
uint64_t dt_stages_ns(const struct dt_stages *s);

/* All micro-batches of a step, forward and backward; where they are pairs, the reference goes
 * forward with all of them first. *SUMS grow on the last stage, and *DATA_S by what reading samples
 * took. */
int dt_stages_train(struct dt_trainer *t, float scale, struct dt_loss_sums *sums, double *data_s,
                    struct dt_err *err);
/* The losses of BATCH samples, which the trainer has; all stages of them make as many calls, and
 * then dt_stages_rest(). */
int dt_stages_loss(struct dt_trainer *t, size_t batch, double *loss, struct dt_err *err);
/* Likewise dt_dpo_forward() through all sections, the last of which is the last. */
int dt_stages_compare(struct dt_trainer *t, const struct dt_dpo_pass *pass, struct dt_err *err);
int dt_stages_rest(struct dt_trainer *t, struct dt_err *err);

#endif
