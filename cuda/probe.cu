/* SPDX-License-Identifier: Apache-2.0 */
/* Whether nvcc and the C++ compiler behind it get on with each other: what configuring tries. */
#include <cuda_bf16.h>
#include <cuda_runtime.h>

__global__ void probe(float *x)
{
    x[threadIdx.x] += 1;
}
