/* SPDX-License-Identifier: Apache-2.0 */
/* One block of a kernel at work: its threads, what they wait for, and its shared memory. */
#ifndef DT_TESTS_GPU_EMULATOR_BLOCK_H
#define DT_TESTS_GPU_EMULATOR_BLOCK_H

#include "tests/gpu/emulator/emulator.h"
#include "tests/gpu/emulator/fiber.h"

#include <vector>

namespace dt_emulator
{

/* An asynchronous copy that was started and not waited for. */
struct copy {
    unsigned char *to;
    const unsigned char *from; /* NULL: zeros */
    int group;
};

struct thread {
    enum { FRESH, READY, AT_BLOCK, AT_WARP, DONE } state;
    uint3 index;
    int warp, lane;
    fiber *runs_on;
    /* what it waits for */
    const char *what;
    place at;
    unsigned mask;
    void *mine;
    /* barriers that it has passed, of the block and of its warp */
    unsigned meetings, warp_meetings;

    std::vector<copy> copies;
    int commits;
};

/* The one that runs now. */
thread *current();
bool is_shared(const void *at, size_t bytes);
/* SHARED bytes; NULL while no kernel runs. */
extern unsigned char *shared_begin;
/* How many blocks have been run, with this one. */
unsigned block_number();

/* races.cc: before the current thread does so. */
void shared_read(const void *at, size_t bytes);
void shared_written(const void *at, size_t bytes);

} // namespace dt_emulator

#endif
