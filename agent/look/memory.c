/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/memory.h"

#include <errno.h>
#include <sys/uio.h>

static int read_process(void *arg, uint64_t address, void *out, size_t len)
{
    const pid_t *pid = arg;
    struct iovec here = {out, len};
    struct iovec there = {(void *)(uintptr_t)address, len};
    ssize_t n = process_vm_readv(*pid, &here, 1, &there, 1, 0);
    if (n < 0)
        return errno;
    return (size_t)n == len ? 0 : EFAULT;
}

struct dt_memory dt_memory_of(pid_t *pid)
{
    return (struct dt_memory){.read = read_process, .arg = pid};
}

int dt_memory_read(struct dt_memory *m, uint64_t address, void *out, size_t len)
{
    m->error = 0;
    if (m->reads >= DT_MEMORY_READS_MAX || len > DT_MEMORY_BYTES_MAX - m->bytes)
        m->error = E2BIG;
    else if (len > 0)
        m->error = m->read(m->arg, address, out, len);
    if (m->error)
        return -1;
    m->reads++;
    m->bytes += len;
    return 0;
}

int dt_memory_word(struct dt_memory *m, uint64_t address, uint64_t *out)
{
    return dt_memory_read(m, address, out, sizeof *out);
}
