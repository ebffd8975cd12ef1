/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of dtrun-train's program share. Told to end by SIGTERM or SIGINT it finishes what
 * it does in order, and dies by that signal. */
#ifndef DT_WORKER_PROGRAM_INSIDE_H
#define DT_WORKER_PROGRAM_INSIDE_H

#include "worker_runtime/config/config.h"
#include "worker_runtime/train/options.h"
#include "worker_runtime/train/train.h"

#include <signal.h>

/* -- signals.c ------------------------------------------------------------------------------- */

/* The signal that came; the second one is not caught any more. */
extern volatile sig_atomic_t program_told_to_end;

void program_catch_signals(void);
void program_let_signals_end(void);
int program_die_by(int sig);

/* -- last_words.c ---------------------------------------------------------------------------- */

struct failure {
    struct dt_err err;
    bool of_configuration;
    bool met; /* the other ranks: they found out together who says what, see dt_agree() */
};

/* A number above 0 of the environment, or FALLBACK. */
int program_number(const char *name, int fallback);
/* Says why, and leaves that to dtrun; returns the exit status. */
int program_say_failure(const struct failure *f);
/* From another thread than the one that trains, which holds what an end in order would wait for. */
void program_give_up(void *arg, const struct dt_err *why);

/* -- commands.c: "tokenize", "generate" and so on --------------------------------------------- */

int program_carry_out(const struct dt_train_args *a, struct dt_err *err);

/* -- questions.c: what is asked instead of training ------------------------------------------- */

int program_estimate(const struct dt_train_args *a, const struct dt_config *c, struct dt_err *err);
int program_suggest(const struct dt_train_args *a, const struct dt_config *c, struct dt_err *err);
int program_check_nccl(struct dt_err *err);
int program_verify(const struct dt_train_args *a, struct dt_err *err);

/* -- training.c ------------------------------------------------------------------------------ */

int program_train(const struct dt_train_args *a, const struct dt_config *c, struct failure *f);
int program_rescue(const struct dt_train_args *a, const struct dt_config *c, struct dt_err *err);

#endif
