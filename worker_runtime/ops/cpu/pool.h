/* SPDX-License-Identifier: Apache-2.0 */
/* The one pool of threads in a rank. Work is cut in as many parts as the caller says, and part i
 * does the same whoever runs it, so results do not depend on how many threads there are. The
 * caller's thread works too. */
#ifndef DT_WORKER_RUNTIME_OPS_CPU_POOL_H
#define DT_WORKER_RUNTIME_OPS_CPU_POOL_H

#include "base/err.h"

#include <stddef.h>

struct dt_pool;

/* THREADS in all, the caller's among them. */
struct dt_pool *dt_pool_create(int threads, struct dt_err *err);
void dt_pool_destroy(struct dt_pool *p);
int dt_pool_threads(const struct dt_pool *p);

/* Runs WORK(arg, 0..parts-1), each once, and returns when all are done. P NULL: all here. WORK must
 * not call this again. */
typedef void (*dt_pool_work_fn)(void *arg, size_t part);
void dt_pool_run(struct dt_pool *p, size_t parts, dt_pool_work_fn work, void *arg);

/* Which thread of the pool runs this part, 0 to threads-1: for scratch memory. */
int dt_pool_self(void);

#endif
