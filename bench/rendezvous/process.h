/* SPDX-License-Identifier: Apache-2.0 */
/* What another process has used, from the kernel. */
#ifndef BENCH_RENDEZVOUS_PROCESS_H
#define BENCH_RENDEZVOUS_PROCESS_H

#include "bench/fail.h"

#include <sys/types.h>

/* Seconds of processor time of all its threads so far. */
int process_cpu(pid_t pid, double *seconds, struct fail *f);
/* The most memory it ever had resident, in KiB. */
int process_peak(pid_t pid, unsigned long *kib, struct fail *f);

#endif
