/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel's log says of the workers of one attempt: reads /dev/kmsg from where it ended
 * when the attempt began, so that no clock has to be compared. Many kernels refuse it to ordinary
 * users, and containers have none: then the other witnesses do. */
#ifndef DT_AGENT_FAILURE_KERNEL_LOG_H
#define DT_AGENT_FAILURE_KERNEL_LOG_H

#include "base/kernel_record.h"

struct dt_kernel_log;

/* Whether PID is a worker of this attempt: what is said of one is kept whatever else the kernel
 * says. */
typedef bool dt_kernel_log_own_fn(void *arg, pid_t pid);

/* What is logged from here on is of this attempt. NULL: it may not be read, or there is no memory;
 * the functions below take that too. */
struct dt_kernel_log *dt_kernel_log_open(dt_kernel_log_own_fn *is_own, void *arg);
void dt_kernel_log_close(struct dt_kernel_log *l);

/* The same without a file, for tests: records come by dt_kernel_log_take(). PIDS: the kernel
 * numbers processes as we do. */
struct dt_kernel_log *dt_kernel_log_open_empty(bool pids, dt_kernel_log_own_fn *is_own, void *arg);
void dt_kernel_log_take(struct dt_kernel_log *l, struct dt_bytes record);

/* Reads what has come since. Never waits. */
void dt_kernel_log_update(struct dt_kernel_log *l);

/* That the kernel killed process PID for want of memory; NULL: it did not say so. */
const struct dt_kernel_record *dt_kernel_log_kill(const struct dt_kernel_log *l, pid_t pid);

/* The Xid that explains most of what process PID met: one of its own before one that names nobody,
 * then a broken GPU before others, then the first. NULL: there is none. */
const struct dt_kernel_record *dt_kernel_log_xid(const struct dt_kernel_log *l, pid_t pid);

#endif
