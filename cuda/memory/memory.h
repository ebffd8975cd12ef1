/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of one GPU, in blocks. What a driver gives costs a wait for the whole device, so what
 * is given back is kept and handed out again. That is right without any waiting as long as a block
 * is used on one stream: who comes next works behind who was there. Knows nothing of CUDA but three
 * calls. From any thread. */
#ifndef DT_CUDA_MEMORY_MEMORY_H
#define DT_CUDA_MEMORY_MEMORY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct dt_cuda_memory;

enum dt_cuda_took { DT_CUDA_TOOK, DT_CUDA_NONE_LEFT, DT_CUDA_TOOK_FAILED };

struct dt_cuda_memory_calls {
    /* *AT: 256-byte aligned. NONE_LEFT without an error; FAILED with *err. */
    enum dt_cuda_took (*take)(void *arg, size_t bytes, void **at, struct dt_err *err);
    void (*give)(void *arg, void *at);
    /* Of the whole device, others included; both 0 where that cannot be told. */
    void (*left)(void *arg, size_t *free_bytes, size_t *total);
    void *arg;
    const char *name; /* "GPU 0": how errors begin */
};

struct dt_cuda_memory_figures {
    size_t in_use, reserved; /* by who asked; of the device, what is kept for reuse included */
    size_t peak;             /* the most that in_use has been */
};

/* CAP: most bytes of the device; 0: all there are. CALLS is copied. */
struct dt_cuda_memory *dt_cuda_memory_create(const struct dt_cuda_memory_calls *calls, size_t cap,
                                             struct dt_err *err);
void dt_cuda_memory_destroy(struct dt_cuda_memory *m); /* and all that was not given back */

/* 256-byte aligned, not cleared. WHAT it is for lasts as long as M. Where there is not enough,
 * DT_E_MEMORY says who holds how much. */
void *dt_cuda_memory_alloc(struct dt_cuda_memory *m, size_t bytes, const char *what,
                           struct dt_err *err);
/* AT from alloc, or NULL. */
void dt_cuda_memory_free(struct dt_cuda_memory *m, void *at);
void dt_cuda_memory_figures(struct dt_cuda_memory *m, struct dt_cuda_memory_figures *f);

#endif
