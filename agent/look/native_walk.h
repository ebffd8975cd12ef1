/* SPDX-License-Identifier: Apache-2.0 */
/* The table of dt_native.so, which walks the stacks of C code by libdw. */
#ifndef DT_AGENT_LOOK_NATIVE_WALK_H
#define DT_AGENT_LOOK_NATIVE_WALK_H

#include "base/plugin.h"

#include <sys/types.h>

#define DT_NATIVE_DEPTH_MAX 64
#define DT_NATIVE_FUNCTION_MAX 128
#define DT_NATIVE_OBJECT_MAX 64

struct dt_native_frame {
    char function[DT_NATIVE_FUNCTION_MAX]; /* "" unknown */
    char object[DT_NATIVE_OBJECT_MAX];     /* name of the program or library that has it */
};

struct dt_native_record {
    pid_t tid;
    struct dt_native_frame frame;
};

#define DT_NATIVE_WALK_ABI 1
struct dt_native_walk_table {
    struct dt_plugin_head head;

    /* Stops each of the COUNT threads TIDS of process PID for a moment, one after the other, and
     * writes a record to FD for each of their calls, the innermost first; of Python's own loop and
     * what is outside of it none. May take long, or for ever, or crash, where the process is
     * strange: meant for a process of its own. -1 and *err: nothing can be walked. */
    int (*walk)(pid_t pid, const pid_t *tids, size_t count, int fd, struct dt_err *err);
};

#endif
