/* SPDX-License-Identifier: Apache-2.0 */
/* without_pidfd PROGRAM [ARGUMENT]...: the program where the kernel knows no pidfd_open, as in old
 * sandboxes and under valgrind. It says so in its environment: DT_WITHOUT_PIDFD=1. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int forbid(void)
{
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rows / sizeof *rows, rows};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
               ? -1
               : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    if (forbid() < 0) {
        printf("1..0 # SKIP this kernel takes no seccomp filter\n");
        return 0;
    }
    setenv("DT_WITHOUT_PIDFD", "1", 1);
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
