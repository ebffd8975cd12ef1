/* SPDX-License-Identifier: Apache-2.0 */
/* Small kernels, right and wrong ones, by which the emulator is tested. */
#ifndef DT_TESTS_GPU_EMULATOR_SAMPLES_H
#define DT_TESTS_GPU_EMULATOR_SAMPLES_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = a * x[i] + y[i], with a thread for each and more */
cudaError_t sample_axpy(size_t n, float *out, float a, const float *x, const float *y,
                        cudaStream_t s);
/* out[block] = the sum of the block's 256 of x, over shared memory. Without BARRIER, wrong. */
cudaError_t sample_block_sums(size_t blocks, float *out, const float *x, bool barrier,
                              cudaStream_t s);
/* The same by warps: xor shuffles, then a shuffle of what the warps found. */
cudaError_t sample_warp_sums(size_t blocks, float *out, const float *x, cudaStream_t s);
/* out[thread] of one block of 64: what up, down, indexed shuffles and the ballot of odd lanes give.
 */
cudaError_t sample_shuffles(int *up, int *down, int *at, unsigned *odd, cudaStream_t s);
/* Only threads below LIMIT of 64 come to the barrier. */
cudaError_t sample_divergent_barrier(unsigned limit, cudaStream_t s);
/* Odd lanes wait at another barrier than even ones. */
cudaError_t sample_two_barriers(cudaStream_t s);
/* Only lanes below LIMIT shuffle. */
cudaError_t sample_divergent_shuffle(unsigned limit, cudaStream_t s);
/* out[lane] = 31 - lane, by way of shared memory: after __syncwarp(), or, wrong, after a shuffle.
 */
cudaError_t sample_lanes_exchange(float *out, bool barrier, cudaStream_t s);
/* Writes to element AT of a shared array of 64. */
cudaError_t sample_shared_overrun(unsigned at, cudaStream_t s);
/* out[i] = what a shared array holds that nobody wrote */
cudaError_t sample_unwritten_shared(float *out, cudaStream_t s);
/* Reads x[AT]. */
cudaError_t sample_read(float *out, const float *x, size_t at, cudaStream_t s);
/* Reads the 16 bytes from x[AT] on. */
cudaError_t sample_read16(float *out, const float *x, size_t at, cudaStream_t s);
/* d[16][8] += a[16][16] b, where b is [16][8], or [8][16] and TURNED over: bfloat16, by
 * asynchronous copies (zeros in place of A where not VALID), ldmatrix and mma. Without WAIT, wrong.
 */
cudaError_t sample_product(float *d, const uint16_t *a, const uint16_t *b, bool turned, bool valid,
                           bool wait, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
