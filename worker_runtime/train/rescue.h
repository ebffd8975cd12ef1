/* SPDX-License-Identifier: Apache-2.0 */
/* What the vaults of a node have, made a checkpoint when its workers are gone and no next world has
 * come. A worker leaves a note on how to do that in its vault; the agent then runs dtrun-train once
 * more, with --rescue, over the files of all its workers (rendezvous/protocol/vault_fds.h). Where
 * no node has every shard, those that are left save together: ckpt/rescue.h. */
#ifndef DT_WORKER_RUNTIME_TRAIN_RESCUE_H
#define DT_WORKER_RUNTIME_TRAIN_RESCUE_H

#include "worker_runtime/config/config.h"
#include "worker_runtime/vault/vault.h"

/* The note, of a run C that saves somewhere; else none. It says of adapters what they are: the
 * folder that they began from may be gone by then. */
void dt_rescue_leave_note(struct dt_vault *v, const struct dt_config *c, bool saves);

struct dt_rescue_options {
    const struct dt_config *config;
    const char *init_from; /* as struct dt_train_options has it */
};

/* Saves the newest step that is whole, if no checkpoint of the run is as new, and uploads it. Says
 * what came of it. -1: nothing could be saved, and *err says why. */
int dt_rescue_run(const struct dt_rescue_options *o, struct dt_err *err);

#endif
