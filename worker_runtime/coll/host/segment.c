/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/coll/host/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int dt_segment_make(const char *name, size_t bytes, bool reserve, struct dt_err *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "no shared memory could be made");
    int rc = ftruncate(fd, (off_t)bytes);
    /* Without this, a host that is short of memory answers a later write with SIGBUS. */
    if (rc == 0 && reserve && bytes > 0)
        rc = fallocate(fd, 0, 0, (off_t)bytes);
    if (rc == 0)
        return fd;
    dt_err_errno(err, DT_E_MEMORY, errno, "no %zu bytes of shared memory", bytes);
    close(fd);
    return -1;
}

int dt_segment_reach(int pid, int fd, bool writable, struct dt_err *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    int own = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (own < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno,
                            "%s cannot be opened (workers of one host must be of one user and "
                            "share a pid namespace)",
                            path);
    return own;
}

void *dt_segment_map(int fd, size_t bytes, bool writable, struct dt_err *err)
{
    int prot = PROT_READ | (writable ? PROT_WRITE : 0);
    void *at = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        dt_err_errno(err, DT_E_MEMORY, errno, "%zu bytes of shared memory cannot be mapped", bytes);
        return NULL;
    }
    return at;
}

void dt_segment_unmap(const void *at, size_t bytes)
{
    if (at)
        munmap((void *)(uintptr_t)at, bytes);
}

unsigned long dt_segment_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long)st.st_ino : 0;
}
