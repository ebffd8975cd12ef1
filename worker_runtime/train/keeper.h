/* SPDX-License-Identifier: Apache-2.0 */
/* The last steps of a run, kept in the vault, and when a step is told.
 *
 * A step that is told is never done again, so where ranks keep steps its line waits until all have
 * it: they say so in the next step's own sum, or in a sum that is made when no step follows. Where
 * there are several nodes, a rank has it when another node has a copy. */
#ifndef DT_WORKER_RUNTIME_TRAIN_KEEPER_H
#define DT_WORKER_RUNTIME_TRAIN_KEEPER_H

#include "worker_runtime/ckpt/checkpoint.h"
#include "worker_runtime/telemetry/metrics.h"
#include "worker_runtime/vault/copies.h"
#include "worker_runtime/vault/pace.h"

#include <dtrun/page.h>

struct dt_trainer;

/* What is told of a step. */
struct dt_step_told {
    struct dt_step_metrics metrics;
    struct dt_page_values page;
    int64_t own_ns, data_ns;  /* as dt_page_spend() has them ... */
    int64_t communication_ns; /* ... and dt_page_communicate() this */
    double mfu;               /* NaN: not known */
};

/* What goes into the vault beside shards, as it is: only the same program reads it. */
struct dt_kept_state {
    struct dt_ckpt_state state;
    int64_t skipped;
    struct dt_step_told told;
    bool anew;           /* as struct dt_uploader has it */
    char base[PATH_MAX]; /* the model that adapters are trained beside; "": no adapters are */
};

/* What a rank knows; summed over all. */
struct dt_keeping_news {
    double secured;        /* ranks that are safe with the step whose line waits */
    double failed;         /* ranks that can keep none any more */
    double lost;           /* ranks whose copy does not come to another node any more */
    double copy_s, step_s; /* how long the last copy took, and the last step; 0: not measured */
};

struct dt_keeper {
    struct dt_vault *vault;   /* NULL: this rank has none */
    struct dt_copies *copies; /* NULL: none are made */
    size_t shard;       /* numbers of each array of an image; 0: those of this rank's shards */
    bool on;            /* steps are kept; the same on all ranks, as is all below */
    bool failed;        /* on this rank alone, and not yet told */
    struct dt_err lost; /* why this rank's copies are over; code 0: they are not */
    bool waits;         /* the step kept last is not told */
    struct dt_kept_state *last;
    struct dt_vault_pace pace;
    int64_t kept;  /* the step of the last copy; -1: none in this world */
    double copy_s; /* that the last copy took; of this rank */

    struct dt_vault_choice back; /* what this world began from; .world 0: not from the vault */
    uint32_t told;               /* enum dt_vault_told, of that step */
    uint64_t job_mark;           /* the vault's; drawn where it has none; 0: train.vault is off */
};

/* Whose steps are T's: of the run RUN_ID that trains what T does, beside the model in BASE if it
 * trains adapters, as the command line or the configuration names it; NULL: none is named. */
struct dt_vault_whose dt_keeper_whose(const struct dt_trainer *t, const char *run_id,
                                      const char *base);
/* What the vaults of all ranks come to. Collective. */
int dt_keeper_find(struct dt_trainer *t, struct dt_err *err);
static inline bool dt_keeper_is_back(const struct dt_keeper *k)
{
    return k->back.world > 0;
}
/* Whether this very job has saved S, in this world or an earlier one. */
bool dt_keeper_is_of_job(const struct dt_trainer *t, const struct dt_ckpt_state *s);
/* What the vault had: it has the right checksum, and what would be a place in memory is looked at
 * all the same. */
int dt_kept_check(struct dt_kept_state *k, struct dt_err *err);
/* Then: the state of that step into the trainer, and what its uploader knew. Where the checkpoint
 * of step STEP is newer (-1: there is none), whose state the trainer has, nothing but what the
 * uploader knew comes from the vault. */
void dt_keeper_settle_start(struct dt_trainer *t, int64_t step);
/* The shards of that step, into the trainer's parameters. Collective. */
int dt_keeper_load(struct dt_trainer *t, struct dt_err *err);
/* Whether steps are kept from here on. Collective. */
int dt_keeper_begin(struct dt_trainer *t, struct dt_err *err);
void dt_keeper_close(struct dt_keeper *k);

/* The step at hand is done, and TOLD is what there is to tell of it: keeps the one, and tells the
 * other, now or later. Not collective. */
void dt_keeper_take(struct dt_trainer *t, const struct dt_step_told *told);
/* What this rank knows, once its copy has come to where it belongs. */
void dt_keeper_tell(struct dt_trainer *t, struct dt_keeping_news *own);
/* What all know. Collective. */
int dt_keeper_hear(struct dt_trainer *t, const struct dt_keeping_news *all, struct dt_err *err);
/* Both, for what waits to be told, where no step follows at once. Collective. */
int dt_keeper_settle(struct dt_trainer *t, struct dt_err *err);

/* Behind the steps that are told: the first that is not. */
int64_t dt_keeper_first_untold(const struct dt_trainer *t);
/* Tells the step that this world began from, if it was never told; it is on the page in any case.
 */
void dt_keeper_catch_up(struct dt_trainer *t);
/* A validation behind the step at hand was told; and whether one is to be made of the step that
 * this world began from. */
void dt_keeper_validated(struct dt_trainer *t);
bool dt_keeper_owes_validation(const struct dt_trainer *t);

#endif
