/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between hosts: what this rank seals goes to its neighbour while the next step computes,
 * and what its wards seal comes here (who that is: neighbour.h). A thread of the link moves both,
 * over a wire of its own (coll/wire/tcp): its door lets in those alone who know the secrets of the
 * card, which ranks give to each other over the job's own group.
 *
 * A copy is a head (the slot's facts and its seal), the rest of the slot, and the neighbour's reply
 * once it has sealed what came: one copy at a time. Whatever is not as it should be ends the link,
 * for the rest of this world: the next one makes its own. */
#ifndef DT_WORKER_RUNTIME_VAULT_LINK_H
#define DT_WORKER_RUNTIME_VAULT_LINK_H

#include "base/clock.h"
#include "worker_runtime/vault/image.h"

struct dt_link;

#define DT_LINK_CARD 64 /* bytes by which another rank finds this one, and a secret */

struct dt_link_card {
    uint8_t bytes[DT_LINK_CARD];
};

struct dt_link_ward {
    int rank;
    struct dt_vault_image *image; /* for its copies; the link's until that is closed */
};

/* Listens for wards. CARD is for the others to know before dt_link_start(). */
struct dt_link *dt_link_open(int rank, struct dt_link_card *card, struct dt_err *err);
/* Calls NEIGHBOUR, waits for COUNT WARDS, and begins to move copies; nothing here waits for them.
 * CARDS: of all ranks, by rank; they and WARDS are not kept. A ward's copy is taken when job, mesh,
 * epoch, world and shard are those of LIKE. */
int dt_link_start(struct dt_link *l, const struct dt_link_card *cards, int neighbour,
                  const struct dt_link_ward *wards, int count, const struct dt_vault_facts *like,
                  struct dt_err *err);
/* Ends the thread, wherever it is, and the connections. From then on nothing is written into images
 * and nothing that was offered is read. NULL is fine. */
void dt_link_close(struct dt_link *l);

/* SLOT of OWN was sealed: it stays as it is until dt_link_wait() or dt_link_close() is back. What
 * was offered before has been waited for. */
void dt_link_offer(struct dt_link *l, const struct dt_vault_image *own, int slot);
/* Until the neighbour has sealed what was offered last, which may be nothing. -1: it has not within
 * TIMEOUT, GIVE_UP(ARG) came true, or the link has ended; *err says why, with a code that is none
 * of a group's. */
int dt_link_wait(struct dt_link *l, dt_ms timeout, bool (*give_up)(void *arg), void *arg,
                 struct dt_err *err);

#endif
