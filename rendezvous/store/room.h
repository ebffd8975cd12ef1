/* SPDX-License-Identifier: Apache-2.0 */
/* What one peer's buffers, and what is kept for it, take of the budget of all. Inside the server
 * only. */
#ifndef DT_RENDEZVOUS_STORE_ROOM_H
#define DT_RENDEZVOUS_STORE_ROOM_H

#include "rendezvous/store/peer.h"

/* Whether P may hold IN and OUT bytes, beside what is being sent or kept for it; asked before they
 * are allocated. False: it waits for room. */
bool dt_store_room_take(struct dt_store_peer *p, uint64_t in, uint64_t out);
/* The same for an answer of N bytes more. Of a buffer that is lent to P only the content counts: no
 * more is kept. */
bool dt_store_room_take_answer(struct dt_store_peer *p, uint64_t n);
/* P was told to wait. */
bool dt_store_room_is_awaited(const struct dt_store_peer *p);

/* Enters in the budget what P holds now. */
void dt_store_room_account(struct dt_store_peer *p);
/* Enters what the socket has taken of its answers since the last look. */
void dt_store_room_note_sent(struct dt_store_peer *p);

/* The peer that has waited longest tries again, if there is room. The next follows when that one
 * has its share. */
void dt_store_room_offer(struct dt_store_peers *peers);

#endif
