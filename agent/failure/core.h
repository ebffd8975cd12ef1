/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernel has put the core dump of a process. Pure. */
#ifndef DT_AGENT_FAILURE_CORE_H
#define DT_AGENT_FAILURE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* kernel.core_pattern and kernel.core_uses_pid, and the process: its folder is where it was
 * started, which most never leave. */
struct dt_core {
    const char *pattern;
    bool uses_pid;
    pid_t pid;
    int signum;
    const char *folder;
};

/* "/runs/core.812" or "see it by: coredumpctl info 812"; cut to SIZE. What only the kernel knows of
 * a name, as the second of the crash, is a "*" in it, as for a shell. */
const char *dt_core_where(const struct dt_core *core, char *out, size_t size);

#endif
