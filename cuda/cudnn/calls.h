/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of cuDNN that attention stands on, as a table, so that what builds graphs and chooses
 * plans also runs where there is no GPU: tests fill a table of their own. The plugin does not link
 * cuDNN: it is looked for when somebody asks for it. */
#ifndef DT_CUDA_CUDNN_CALLS_H
#define DT_CUDA_CUDNN_CALLS_H

#include "base/err.h"
#include "cuda/cudnn/names.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

/* What answers with an int gives a status: DT_CUDNN_SUCCESS, or what text() names. */
struct dt_cudnn_calls {
    size_t (*version)(void);
    const char *(*text)(int status);
    void (*last_error)(char *text, size_t size); /* of this thread; "" where there is none */
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, cudaStream_t s);
    int (*make)(enum dt_cudnn_kind kind, void **descriptor);
    int (*unmake)(void *descriptor);
    int (*set)(void *descriptor, enum dt_cudnn_attribute attribute, enum dt_cudnn_value type,
               int64_t count, const void *values);
    int (*get)(void *descriptor, enum dt_cudnn_attribute attribute, enum dt_cudnn_value type,
               int64_t room, int64_t *count, void *values);
    int (*finalize)(void *descriptor);
    int (*execute)(void *handle, void *plan, void *pack);
};

/* The versions that will do: before, a masked score had to be a finite number; what a next major
 * one calls its numbers nobody knows. */
enum { DT_CUDNN_OLDEST = 91000, DT_CUDNN_TOO_NEW = 100000 };

/* Those of libcudnn.so.9: the one that this process has already, else the one in PyTorch's wheels
 * beside the cuBLASLt that is loaded, else the loader's. It stays loaded. NULL and *err: a sentence
 * that says what is missing. */
const struct dt_cudnn_calls *dt_cudnn_load(struct dt_err *err);

/* 0, or -1 and *err where VERSION will not do. */
int dt_cudnn_check_version(size_t version, struct dt_err *err);

#endif
