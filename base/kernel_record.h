/* SPDX-License-Identifier: Apache-2.0 */
/* One record of the kernel's log, as /dev/kmsg gives it: whether it tells why a process failed.
 * Pure.
 *
 * Anybody who may write to /dev/kmsg can put such words there, but not in the kernel's own name:
 * only its records are believed. */
#ifndef DT_BASE_KERNEL_RECORD_H
#define DT_BASE_KERNEL_RECORD_H

#include "base/buf.h"

#include <stdint.h>
#include <sys/types.h>

enum dt_kernel_event {
    DT_KERNEL_OTHER,      /* nothing of interest here */
    DT_KERNEL_KILLED,     /* PID, for want of memory */
    DT_KERNEL_GPU_BROKEN, /* the GPU itself, or what it hangs on, has failed: an Xid */
    DT_KERNEL_GPU_FAULT,  /* a program made its GPU fail: an Xid */
    DT_KERNEL_GPU_TOLD,   /* any other Xid */
};

#define DT_KERNEL_TEXT_MAX 160

struct dt_kernel_record {
    enum dt_kernel_event event;
    pid_t pid;                     /* in the kernel's first namespace of processes; 0: not told */
    bool group;                    /* KILLED: a control group was at its limit, not the host */
    int64_t resident;              /* KILLED: bytes of memory that the process had; -1: not told */
    char text[DT_KERNEL_TEXT_MAX]; /* an Xid: the driver's words, printable */
};

/* RECORD: as one read(2) gives it. */
void dt_kernel_record_read(struct dt_bytes record, struct dt_kernel_record *out);

#endif
