/* SPDX-License-Identifier: Apache-2.0 */
/* What another process has used, from the kernel. */
#ifndef BENCH_RENDEZVOUS_PROCESS_H
#define BENCH_RENDEZVOUS_PROCESS_H

#include "base/err.h"

#include <sys/types.h>

/* Seconds of processor time of all its threads so far. */
int process_cpu(pid_t pid, double *seconds, struct dt_err *err);
/* The most memory it ever had resident, in KiB. */
int process_peak(pid_t pid, unsigned long *kib, struct dt_err *err);

#endif
