/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/syscall_name.h"

#include <stdio.h>
#include <sys/syscall.h>

#define ROW(name)                                                                                  \
    {                                                                                              \
        SYS_##name, #name                                                                          \
    }

/* clang-format off */
static const struct {
    long number;
    const char *name;
} rows[] = {
    ROW(futex), ROW(clock_nanosleep), ROW(nanosleep), ROW(sched_yield), ROW(rt_sigtimedwait), ROW(rt_sigsuspend),
    ROW(wait4), ROW(waitid), ROW(clone), ROW(clone3),
    ROW(read), ROW(readv), ROW(pread64), ROW(write), ROW(writev), ROW(pwrite64), ROW(fsync), ROW(fdatasync),
    ROW(newfstatat), ROW(statx), ROW(statfs), ROW(faccessat), ROW(readlinkat), ROW(mkdirat), ROW(unlinkat), ROW(renameat2),
    ROW(getdents64), ROW(preadv), ROW(pwritev), ROW(openat), ROW(close), ROW(flock), ROW(fcntl), ROW(ioctl), ROW(sendfile), ROW(splice),
    ROW(ppoll), ROW(pselect6), ROW(epoll_pwait), ROW(io_getevents), ROW(io_uring_enter),
    ROW(connect), ROW(accept), ROW(accept4), ROW(recvfrom), ROW(recvmsg), ROW(sendto), ROW(sendmsg),
    ROW(mmap), ROW(munmap), ROW(madvise), ROW(msgrcv), ROW(semop), ROW(semtimedop),
#ifdef SYS_poll /* not on 64-bit ARM, which has the newer ones only */
    ROW(stat), ROW(lstat), ROW(access), ROW(readlink), ROW(mkdir), ROW(rmdir), ROW(unlink), ROW(rename),
    ROW(poll), ROW(select), ROW(epoll_wait), ROW(pause), ROW(open), ROW(vfork),
#endif
};
/* clang-format on */

const char *dt_syscall_name(long number, char out[DT_SYSCALL_NAME_MAX])
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].number == number)
            return rows[i].name;
    snprintf(out, DT_SYSCALL_NAME_MAX, "system call %ld", number);
    return out;
}
