/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that this process has touched, which is what its host does not have left any more. */
#ifndef DT_WORKER_RUNTIME_TRAIN_TOUCHED_H
#define DT_WORKER_RUNTIME_TRAIN_TOUCHED_H

#include <stdint.h>

/* Bytes of its own memory, and its share of what it shares with other processes: a page that K of
 * them have touched counts for a Kth in each. Shared bytes that are counted elsewhere, APART of
 * them, are left out. A kernel that tells of no shares (before Linux 5.3) is taken to have LOCAL
 * processes touch all of it. */
int64_t dt_touched_bytes(int64_t apart, int local);

#endif
