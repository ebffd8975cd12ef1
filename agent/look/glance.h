/* SPDX-License-Identifier: Apache-2.0 */
/* A glance at a process: only where its main thread stands. Made to be repeated each second at a
 * small part of a look's cost, as the first one finds the interpreter and the next ones know it. */
#ifndef DT_AGENT_LOOK_GLANCE_H
#define DT_AGENT_LOOK_GLANCE_H

#include "agent/look/look.h"

/* Set ROOT and zero the rest. */
struct dt_glance {
    pid_t root;
    /* What is known so far: */
    pid_t pid; /* ROOT, or the first one below it that is a Python; 0: none is known */
    uint64_t started;
    struct dt_look_python python;
    struct dt_python_wanted main;
    int wait, patience; /* glances until a Python is looked for again, at first and this time */
};

struct dt_glance_seen {
    bool lives;
    char state;      /* of the main thread, as in ps(1) */
    uint64_t cpu_ms; /* of the main thread; where there is no Python, of those of all below ROOT */
    uint64_t faults, sleeps; /* as in struct dt_look_task */
    struct dt_python_stacks stacks;
    const struct dt_python_thread *main; /* one of STACKS; NULL: there is no Python, or none yet */
};

/* End SEEN with dt_glance_finish(). */
void dt_glance_take(struct dt_glance *g, struct dt_glance_seen *seen);
void dt_glance_finish(struct dt_glance_seen *seen);

#endif
