/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of a job whose ranks are on several hosts: each sealed step of this rank goes to its
 * neighbour beside the next step, and those of its wards come into the files that the agent holds
 * for them. neighbour.h says who that is, link.h how they travel.
 *
 * One rank's loss of its neighbour is that of all: without a copy of each rank no lost host can be
 * made up for. So all stop together, for the rest of this world, by what they agree on each step.
 */
#ifndef DT_WORKER_RUNTIME_VAULT_COPIES_H
#define DT_WORKER_RUNTIME_VAULT_COPIES_H

#include "base/clock.h"
#include "worker_runtime/vault/vault.h"

#include <dtrun/coll.h>

struct dt_copies;

struct dt_copies_options {
    struct dt_coll *world;
    int host;                   /* of this rank: GROUP_RANK */
    struct dt_vault *vault;     /* outlives the copies */
    struct dt_vault_need need;  /* of the vault alone */
    bool (*give_up)(void *arg); /* asked while a copy is waited for */
    void *give_up_arg;
};

/* Two hosts or more. -1 and *err on all ranks where a rank has no room for copies, or is not
 * reached. Collective. */
int dt_copies_open(const struct dt_copies_options *o, struct dt_copies **out, struct dt_err *err);
void dt_copies_close(struct dt_copies *c); /* what has come stays; NULL is fine */

/* The slot that the vault sealed last begins its way. */
void dt_copies_send(struct dt_copies *c);
/* Until the neighbour has sealed it. -1: it has not, and *err says why. Not collective. */
int dt_copies_wait(struct dt_copies *c, struct dt_err *err);

#endif
