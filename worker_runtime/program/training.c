/* SPDX-License-Identifier: Apache-2.0 */
/* A run, in one world and the next. */
#include "base/say.h"
#include "worker_runtime/ops/cpu/blas.h"
#include "worker_runtime/program/inside.h"
#include "worker_runtime/train/rescue.h"
#include "worker_runtime/train/train.h"

#include <dtrun/page.h>
#include <stdio.h>
#include <unistd.h>

static const char *name_of(const struct dt_train_args *a)
{
    return a->config ? a->config : a->deepspeed ? a->deepspeed : a->llamafactory;
}

/* What this rank has lost, while it stays; the one that failed says its own reason. */
static void say_waiting(const struct dt_context *context, const struct dt_err *why)
{
    char text[sizeof why->text + 64];
    snprintf(text, sizeof text, "rank %d: %s; waits for the next world", dt_context_rank(context),
             why->text);
    if (why->code != DT_E_ELSEWHERE)
        dt_say(DT_TRAIN_PROGRAM, text);
}

/* Whether CONTEXT has found no world behind that of EPOCH, whose round has not ended. */
static bool waits_in_vain(struct dt_context *context, int64_t epoch)
{
    return dt_context_epoch(context) == epoch && !dt_page_round_over(dt_context_page(context));
}

/* After a failed run: whether this process is in a next world now. A rank that tells the reason may
 * take long to end, and its round does not end before it. The rank that waited for that then ends
 * with the same reason: with one of its own it would be blamed. */
static bool reenter(struct dt_context *context, struct failure *f)
{
    const struct failure before = *f;
    int64_t left = dt_context_epoch(context);
    if (!dt_context_may_reenter(context, &f->err))
        return false;
    program_let_signals_end();
    if (program_told_to_end)
        return false;
    say_waiting(context, &f->err);
    fflush(NULL);
    f->met = false;
    if (dt_context_reenter(context, &f->err) < 0) {
        if (before.err.code == DT_E_ELSEWHERE && waits_in_vain(context, left))
            *f = before;
        return false;
    }
    f->met = true;
    program_catch_signals();
    return true;
}

/* Where the model's weights are; NULL: nowhere. */
static const char *weights_of(const struct dt_train_args *a, const struct dt_config *c)
{
    const char *weights = a->init_from ? a->init_from : c->model.weights;
    return weights && *weights ? weights : NULL;
}

static void say_of_device(void *arg, const char *line)
{
    (void)arg;
    dt_say(DT_TRAIN_PROGRAM, line);
}

int program_train(const struct dt_train_args *a, const struct dt_config *c, struct failure *f)
{
    struct dt_err *err = &f->err;
    struct dt_context_options o = {.device = c->train.device,
                                   .elem = dt_config_gpu_elem(c),
                                   .wide_sums = c->train.wide_sums,
                                   .fast = !c->train.deterministic,
                                   .threads = c->train.threads,
                                   .coll_timeout_ms = c->train.collective_timeout_ms,
                                   .can_stay = true,
                                   .cudnn = c->train.attention == DT_ATTENTION_CUDNN,
                                   .say = say_of_device,
                                   .give_up = program_give_up};
    int64_t batch_before = 0;
    struct dt_train_options t = {.config = c,
                                 .resume = a->resume,
                                 .init_from = weights_of(a, c),
                                 .console = stdout,
                                 .terminal = isatty(STDOUT_FILENO),
                                 .stop = &program_told_to_end,
                                 .batch_before = &batch_before};
    enum dt_train_end end = DT_TRAIN_DONE;
    if (!c->has_model || !c->has_data)
        return dt_err_set(err, DT_E_USAGE, "%s: %s; see dtrun-train(1)", name_of(a),
                          c->has_model
                              ? "there is no data.train, which names the tokens to train on"
                              : "there is neither model.config nor model.weights, nor "
                                "--init-from: one of them names the model");
    if (c->train.steps == 0 && c->train.epochs == 0)
        return dt_err_set(err, DT_E_USAGE,
                          "train.steps: how many? It is 0, or not written, and "
                          "neither is train.epochs");
    if (c->lora.r > 0 && !t.init_from)
        return dt_err_set(err, DT_E_USAGE,
                          "lora: which model is adapted? Name its folder by model.weights, or by "
                          "--init-from");
    if (c->dpo.on && !t.init_from)
        return dt_err_set(
            err, DT_E_USAGE,
            "dpo: which model are answers compared with? Name the folder of the one to "
            "begin with by model.weights, or by --init-from");
    signal(SIGPIPE, SIG_IGN); /* who looks at a run may go away; it goes on */
    struct dt_context *context = dt_context_open(&o, err);
    if (!context)
        return -1;
    f->met = true;
    program_catch_signals(); /* not before: who waits for ranks that never come has nothing to save
                              */
    if (dt_blas_advice() && dt_context_local_rank(context) == 0)
        dt_say(DT_TRAIN_PROGRAM, dt_blas_advice());
    int rc;
    do
        rc = dt_train_run(context, &t, &end, err);
    while (rc < 0 && reenter(context, f));
    dt_context_close(context);
    if (rc == 0 && end == DT_TRAIN_DONE)
        program_told_to_end = 0; /* it came when all was done */
    return rc;
}

/* Told to end are all processes of a job at once, and this one has just begun. */
int program_rescue(const struct dt_train_args *a, const struct dt_config *c, struct dt_err *err)
{
    struct dt_rescue_options o = {.config = c, .init_from = weights_of(a, c)};
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    return dt_rescue_run(&o, err);
}
