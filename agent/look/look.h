/* SPDX-License-Identifier: Apache-2.0 */
/* A look at a process and all that descends from it: what each thread does, from outside. Python's
 * threads have their stacks, all threads what the kernel says of them. Nobody is stopped or
 * signalled, and what cannot be read says why. */
#ifndef DT_AGENT_LOOK_LOOK_H
#define DT_AGENT_LOOK_LOOK_H

#include "agent/look/process.h"
#include "agent/look/python_stack.h"
#include "base/cgroup.h"
#include "base/clock.h"

/* Processes whose turn has not come by then are not looked at. */
#define DT_LOOK_TIME_MAX (10 * DT_SECOND)

struct dt_look_entry {
    struct dt_look_process process;
    uint32_t python; /* PY_VERSION_HEX; 0: it is no Python */
    struct dt_python_stacks stacks;
    char unreadable[512]; /* why there are no stacks; "" where there are, or can be none */
    char no_native[160]; /* why those of C code are not whole; "" where they are, or nobody asked */
};

struct dt_look {
    struct dt_look_entry *at; /* parents first */
    size_t len;
    bool more; /* processes than DT_LOOK_PROCESSES_MAX, or than there was time for */
    struct dt_cgroup_memory memory; /* of the control group of the first process */
    int64_t killed;                 /* there by the kernel, for want of memory; -1: not told */
    char refused[256]; /* what to do about memory that the kernel lets us not read; "" where it
                          lets us */
};

/* End with dt_look_finish() also after a failure, which is that there is no process PID. */
int dt_look_at(struct dt_look *look, pid_t pid, struct dt_err *err);
void dt_look_finish(struct dt_look *look);

/* The stack of thread T of that process; NULL: it is no thread of Python's. */
const struct dt_python_thread *dt_look_stack_of(const struct dt_look_entry *e,
                                                const struct dt_look_task *t);

/* A CPython in a process, for reading its stacks again and again. */
struct dt_look_python {
    uint32_t version; /* PY_VERSION_HEX; 0: there is none */
    uint64_t runtime; /* where its _PyRuntime is */
    struct dt_python_layout layout;
};

/* Finds the CPython in memory M among COUNT images. 0: done, or there is none. -1 and *err; the
 * version is set if it is one that we do not know. */
int dt_look_find_python(struct dt_memory *m, const struct dt_look_image *images, int count,
                        struct dt_look_python *python, struct dt_err *err);

/* Finds the CPython in memory M among COUNT images and reads its stacks. 0: done, or there is none
 * (*python is 0 then). -1 and *err. */
int dt_look_read_python(struct dt_memory *m, const struct dt_look_image *images, int count,
                        uint32_t *python, struct dt_python_stacks *stacks, struct dt_err *err);

#endif
