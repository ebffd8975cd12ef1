/* SPDX-License-Identifier: Apache-2.0 */
/* What memory.c keeps and told.c tells: segments, each one piece of the driver's, cut into
 * blocks that follow each other without gaps. */
#ifndef DT_CUDA_MEMORY_INSIDE_H
#define DT_CUDA_MEMORY_INSIDE_H

#include "cuda/memory/memory.h"

#include <pthread.h>
#include <stdint.h>

enum { DT_CUDA_ACCOUNTS = 24 }; /* the last one is for all that came later */

struct account {
    const char *what;
    size_t bytes;
};

struct block {
    struct block *previous, *next; /* in the segment, by address */
    size_t offset, bytes;
    struct account *account; /* NULL: free */
};

struct segment {
    struct segment *next;
    char *at;
    size_t bytes;
    bool small; /* for many little blocks, so that these do not cut up large ones */
    struct block *first;
};

struct dt_cuda_memory {
    struct dt_cuda_memory_calls calls;
    pthread_mutex_t lock;
    size_t cap;
    struct segment *segments;
    struct dt_cuda_memory_figures figures;
    struct account accounts[DT_CUDA_ACCOUNTS];
};

/* WANTED bytes for WHAT could not be had. */
void dt_cuda_memory_say_short(const struct dt_cuda_memory *m, size_t wanted, const char *what,
                              struct dt_err *err);

#endif
