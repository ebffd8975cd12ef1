/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a process that is looked at: those below it, its threads, and the image
 * of a CPython in it. It is in /proc but for few bytes of memory, and reading it costs the process
 * nothing. Its environment and its arguments are never read: they may hold secrets. */
#ifndef DT_AGENT_LOOK_PROCESS_H
#define DT_AGENT_LOOK_PROCESS_H

#include "agent/look/native_walk.h"
#include "agent/look/waiting.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DT_LOOK_PROCESSES_MAX 4096
#define DT_LOOK_TASKS_MAX 1024
#define DT_LOOK_IMAGES_MAX 16

#define DT_LOOK_NO_SYSCALL (-1) /* it computes, or we may not know */

struct dt_look_task {
    pid_t tid, inner; /* INNER: its number in its own namespace */
    char name[16];
    char state;     /* as in ps(1) */
    char wchan[48]; /* where in the kernel it waits; "": nowhere, or not told */
    struct dt_waiting_call call;
    struct dt_waiting waiting; /* for what it waits in CALL */
    uint64_t cpu_ms;
    uint64_t faults, sleeps; /* pages that it got without a disk; how often it began to wait */
    struct dt_native_frame *native; /* where it was asked for; the innermost first */
    size_t native_depth;
};

struct dt_look_process {
    pid_t pid;
    char name[16];
    unsigned long network; /* the number of its network namespace; 0: not told */
    uint64_t started;      /* clock ticks since boot: tells it from a later one of the same pid */
    struct dt_look_task *tasks;
    size_t len;
    bool more; /* tasks than DT_LOOK_TASKS_MAX */
};

/* ROOT and what descends from it but for us, parents first, to be freed. NULL and *err: it is not
 * there. MORE: there are others beyond DT_LOOK_PROCESSES_MAX. */
pid_t *dt_look_descendants(pid_t root, size_t *count, bool *more, struct dt_err *err);

/* End with dt_look_process_finish() also after a failure. */
int dt_look_process_read(struct dt_look_process *p, pid_t pid, struct dt_err *err);
void dt_look_process_finish(struct dt_look_process *p);

/* What its main thread has done so far: STATE, CPU_MS, FAULTS and SLEEPS. False: it has ended. */
bool dt_look_process_glance(pid_t pid, struct dt_look_task *main, uint64_t *started);

/* Whether it is still the same process. */
bool dt_look_process_lives(const struct dt_look_process *p);

struct dt_look_image {
    uint64_t base; /* where it begins */
    char name[64]; /* of its file */
};

/* The images in process PID that may be a CPython's: how many, or an errno value below 0. */
int dt_look_images(pid_t pid, struct dt_look_image images[DT_LOOK_IMAGES_MAX]);

#endif
