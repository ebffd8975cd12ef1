/* SPDX-License-Identifier: Apache-2.0 */
/* What the keys mean for which PyTorch's workers wait in the job's store, and so whose turn it is.
 * By PyTorch 1.13 to 2.6; G is the number of a process group, and 0 the world:
 *
 *    default_pg/G/0/RANK, default_pg/0//cpu//0/RANK, default_pg/0//G//cpu//0/RANK  gloo: an address
 *    default_pg/G/N, default_pg/0//cuda//N, default_pg/0//G//cuda//N  NCCL's id, given by rank 0
 *    ...store_based_barrier_key:G:last_worker  all ranks have come
 *
 * In 1.13 all of that stands behind worker/attempt_N/. Pure. */
#ifndef DT_RENDEZVOUS_PROTOCOL_STORE_KEY_H
#define DT_RENDEZVOUS_PROTOCOL_STORE_KEY_H

#include <stdbool.h>

/* Which rank of the world should set the first of KEYS; -1: it names none. */
int dt_store_key_setter(const char *keys);

/* Whether who waits for A waits for the same as who waits for B. */
bool dt_store_key_same(const char *a, const char *b);

/* "rank 3's address", "NCCL's id, which rank 0 gives"; "" where the key alone tells. */
#define DT_STORE_KEY_WORDS 128
const char *dt_store_key_words(const char *keys, char out[DT_STORE_KEY_WORDS]);

#endif
