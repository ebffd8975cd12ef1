/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of the mock GPU. A stream is a queue of work, done as soon as possible: at
 * the call, or later by a thread where it has to wait for other processes. With DT_EMULATOR_LAZY=MS
 * it is done when somebody waits or asks for it, and only as much as that needs (or when nothing
 * new has come for MS milliseconds), so that work which waits for no event of another stream comes
 * too early and shows. Both are orders that a GPU may choose. */
#ifndef DT_TESTS_GPU_EMULATOR_STREAM_H
#define DT_TESTS_GPU_EMULATOR_STREAM_H

#include "tests/gpu/emulator/emulator.h"

#include <vector>

namespace dt_emulator
{

/* False: not yet (a collective whose peers have not come); it is asked again. */
typedef std::function<bool()> work;

/* S may be NULL, the default stream, which here waits for no other. */
void put(cudaStream_t s, work w);
/* The one it was made for; what belongs to none has the one that is asked for. */
int device_of(cudaStream_t s);
/* Blocks. */
void wait_for(cudaStream_t s);
void wait_for_all();

/* What is put on S from now on is recorded, in place of being done; S is not NULL. */
cudaError_t begin_recording(cudaStream_t s);
bool is_recording(cudaStream_t s);
cudaError_t end_recording(cudaStream_t s, std::vector<work> *all);
/* Why nothing can be put on S any more: something was that cannot be recorded. */
cudaError_t may_record(cudaStream_t s);
/* What a thread that records may not do, as it would never end or be forgotten: spoils it. */
cudaError_t not_while_recording();

/* block.cc */
void run_grid(const char *call, dim3 grid, dim3 block, size_t shared,
              const std::function<void()> &body);

/* The calling thread's: runtime.cc. */
int chosen_device();

/* What cudaGetLastError() says next. Returns E. */
cudaError_t note(cudaError_t e);

} // namespace dt_emulator

#endif
