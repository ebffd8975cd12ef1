/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of another process, which changes while it is read, or lies. Each read is whole or fails,
 * and all of one process together are bounded. The process is neither stopped nor signalled.
 *
 * Most reads are of a few bytes near others, and what a read costs is the call. So memory may be
 * read ahead, in blocks: a block answers the reads that follow until it is forgotten. Whoever
 * compares memory with what it was before forgets between the two. */
#ifndef DT_AGENT_LOOK_MEMORY_H
#define DT_AGENT_LOOK_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DT_MEMORY_READS_MAX 262144
#define DT_MEMORY_BYTES_MAX ((size_t)64 << 20)

struct dt_memory_ahead;

struct dt_memory {
    /* Fills OUT with LEN bytes at ADDRESS, or answers why it cannot, as an errno value. */
    int (*read)(void *arg, uint64_t address, void *out, size_t len);
    void *arg;
    struct dt_memory_ahead *ahead; /* NULL: nothing is read ahead */
    size_t reads, bytes;           /* that were asked for so far */
    int error;                     /* why the last read failed; E2BIG: the bounds above */
};

/* The memory of process *PID, which must outlive the result. */
struct dt_memory dt_memory_of(pid_t *pid);

/* From here on reads ahead, until dt_memory_finish(). Where there is no room for that, reads only
 * take longer. */
void dt_memory_read_ahead(struct dt_memory *m);
void dt_memory_finish(struct dt_memory *m);

/* What is read from here on is as it is now, or later. */
void dt_memory_forget(struct dt_memory *m);

/* 0, or -1 with M->error set. */
int dt_memory_read(struct dt_memory *m, uint64_t address, void *out, size_t len);
int dt_memory_word(struct dt_memory *m, uint64_t address, uint64_t *out);

#endif
