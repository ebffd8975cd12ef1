/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the system calls in which threads wait. Pure. */
#ifndef DT_AGENT_LOOK_SYSCALL_NAME_H
#define DT_AGENT_LOOK_SYSCALL_NAME_H

#define DT_SYSCALL_NAME_MAX 32

/* "futex", or "system call 999" for one that hardly anybody waits in. */
const char *dt_syscall_name(long number, char out[DT_SYSCALL_NAME_MAX]);

#endif
