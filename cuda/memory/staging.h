/* SPDX-License-Identifier: Apache-2.0 */
/* Little copies to a GPU that do not wait for it: through pinned memory of ours, a slot each, in
 * turns. One thread. */
#ifndef DT_CUDA_MEMORY_STAGING_H
#define DT_CUDA_MEMORY_STAGING_H

#include "worker_runtime/device/device.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

struct dt_cuda_staging;

enum { DT_CUDA_SLOT = DT_DEVICE_LITTLE }; /* most bytes of a copy */

struct dt_cuda_staging *dt_cuda_staging_open(struct dt_err *err);
void dt_cuda_staging_close(struct dt_cuda_staging *g);
/* Behind the work of STREAM. HOST may be changed when the call is back; waits only where a slot
 * comes round whose copy is not done yet. */
cudaError_t dt_cuda_staging_send(struct dt_cuda_staging *g, void *at, const void *host,
                                 size_t bytes, cudaStream_t stream);

#endif
