/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of all threads of a CPython, read from outside while it runs. A stack counts when it
 * is the same before and after its names were read: so no name is from an object that was freed
 * meanwhile. Each of the three is read anew, however much M reads ahead. If a stack changes each
 * time, only its unchanged outer frames count. Pure but for the reads. */
#ifndef DT_AGENT_LOOK_PYTHON_STACK_H
#define DT_AGENT_LOOK_PYTHON_STACK_H

#include "agent/look/python_layout.h"

#include <stdbool.h>

#define DT_PYTHON_THREADS_MAX 1024
#define DT_PYTHON_INTERPRETERS_MAX 64
#define DT_PYTHON_DEPTH_MAX 256
#define DT_PYTHON_FILE_MAX 256     /* of a longer path, the end */
#define DT_PYTHON_FUNCTION_MAX 128 /* of a longer name, the start */

struct dt_python_frame {
    char file[DT_PYTHON_FILE_MAX]; /* UTF-8, as all text here */
    char function[DT_PYTHON_FUNCTION_MAX];
    int line; /* 0: none */
};

struct dt_python_thread {
    uint64_t native_id; /* as gettid(2) tells the thread itself; 0: not known */
    struct dt_python_frame *frames;
    size_t depth;         /* of FRAMES, the innermost first */
    bool deeper;          /* there are more frames outside of these */
    bool changing;        /* ... and inside, which are others each time */
    char unreadable[128]; /* why there are no frames; "" where there are */
};

struct dt_python_stacks {
    struct dt_python_thread *at;
    size_t len;
    bool more;       /* threads than DT_PYTHON_THREADS_MAX */
    bool collecting; /* garbage, in one of the interpreters */
};

/* One thread. Where its state is, is found once and remembered: so the next read does not go
 * through all threads before it. A state that is no longer that thread's is looked for again. */
struct dt_python_wanted {
    uint64_t native_id;
    uint64_t state; /* 0: not found yet */
};

/* Reads the threads of all interpreters. End with dt_python_stacks_finish() also after a failure.
 */
int dt_python_stacks_read(struct dt_python_stacks *stacks, struct dt_memory *m,
                          const struct dt_python_layout *layout, uint64_t runtime,
                          struct dt_err *err);
/* The same of the thread alone that is WANTED. */
int dt_python_stacks_read_one(struct dt_python_stacks *stacks, struct dt_memory *m,
                              const struct dt_python_layout *layout, uint64_t runtime,
                              struct dt_python_wanted *wanted, struct dt_err *err);
void dt_python_stacks_finish(struct dt_python_stacks *stacks);

#endif
