/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that processes of one host share without a name: a memfd, which peers reach as
 * /proc/PID/fd/N while its maker keeps it open. Once they have mapped it, the descriptor is closed
 * and the mappings are all there is: nothing is left behind however a process ends. */
#ifndef DT_WORKER_RUNTIME_COLL_HOST_SEGMENT_H
#define DT_WORKER_RUNTIME_COLL_HOST_SEGMENT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* A descriptor, or -1. RESERVE: have all of it now, or say that there is none; without it pages
 * come as they are touched. */
int dt_segment_make(const char *name, size_t bytes, bool reserve, struct dt_err *err);

/* That of a peer; a descriptor of our own, or -1. */
int dt_segment_reach(int pid, int fd, bool writable, struct dt_err *err);

/* NULL and *err on failure. The mapping stays when the descriptor is closed. */
void *dt_segment_map(int fd, size_t bytes, bool writable, struct dt_err *err);
void dt_segment_unmap(const void *at, size_t bytes); /* NULL is fine */

/* Of the pid namespace: within one, process ids mean the same to all. 0: /proc does not say. */
unsigned long dt_segment_namespace(void);

#endif
