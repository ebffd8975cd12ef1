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

    std::vector<copy> copies;
    int commits;
};

/* The one that runs now. */
thread *current();
bool is_shared(const void *at, size_t bytes);

} // namespace dt_emulator

#endif
