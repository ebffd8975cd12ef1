/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads at one place of shared memory, one of them writing, and no barrier between. In the
 * order that threads take their turns here it may well come out right; on a GPU it is chance. Only
 * __syncthreads() and, within a warp, __syncwarp() put accesses in order: shuffles, votes and
 * matrix instructions make lanes wait for each other, but say nothing about memory.
 *
 * Kernels are compiled with the calls that ThreadSanitizer wants before each access, and those
 * calls are answered here. Of each place the last writer is known and the last two readers: with
 * more readers a race may pass. So may those of atomics, and of memcpy(), which kernels do not
 * call. */
#include "tests/gpu/emulator/block.h"

namespace dt_emulator
{

struct access {
    unsigned block; /* which of all that ran, from 1 on: what others left is nothing */
    unsigned meetings, warp_meetings;
    int thread;
};

struct place_in_shared {
    access wrote, read[2];
};

static std::vector<place_in_shared> places(SHARED); /* a byte each */

static access now(const thread &t)
{
    return {block_number(), t.meetings, t.warp_meetings, t.warp * WARP + t.lane};
}

static bool is_before(const access &then, const access &a)
{
    return then.block != a.block || then.thread == a.thread || then.meetings < a.meetings ||
           (then.thread / WARP == a.thread / WARP && then.warp_meetings < a.warp_meetings);
}

static void check(const access &then, const access &a, const char *what, const char *other,
                  size_t at)
{
    if (!is_before(then, a))
        give_up("a race: it %s byte %zu of shared memory, which thread %d %s, and no barrier is "
                "between",
                what, at, then.thread, other);
}

void shared_read(const void *at, size_t bytes)
{
    size_t from = shared_offset(at);
    if (from >= SHARED)
        return;
    const access a = now(*current());
    for (size_t i = from; i < from + bytes && i < SHARED; i++) {
        place_in_shared *p = &places[i];
        check(p->wrote, a, "reads", "writes", i);
        if (p->read[0].block == a.block && p->read[0].thread != a.thread)
            p->read[1] = p->read[0];
        p->read[0] = a;
    }
}

void shared_written(const void *at, size_t bytes)
{
    size_t from = shared_offset(at);
    if (from >= SHARED)
        return;
    const access a = now(*current());
    for (size_t i = from; i < from + bytes && i < SHARED; i++) {
        place_in_shared *p = &places[i];
        check(p->wrote, a, "writes", "writes", i);
        check(p->read[0], a, "writes", "reads", i);
        check(p->read[1], a, "writes", "reads", i);
        p->wrote = a;
    }
}

} // namespace dt_emulator

#ifdef DT_EMULATOR_TELLS_RACES /* else a sanitizer has these */

using namespace dt_emulator;

extern "C" {

void __tsan_init()
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit(void *)
{
}

#define ACCESSES(bytes)                                                                            \
    void __tsan_read##bytes(void *at)                                                              \
    {                                                                                              \
        shared_read(at, bytes);                                                                    \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void *at)                                                    \
    {                                                                                              \
        shared_read(at, bytes);                                                                    \
    }                                                                                              \
    void __tsan_write##bytes(void *at)                                                             \
    {                                                                                              \
        shared_written(at, bytes);                                                                 \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void *at)                                                   \
    {                                                                                              \
        shared_written(at, bytes);                                                                 \
    }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(void *at, size_t bytes)
{
    shared_read(at, bytes);
}
void __tsan_write_range(void *at, size_t bytes)
{
    shared_written(at, bytes);
}
void __tsan_vptr_update(void **, void *)
{
}
void __tsan_vptr_read(void **)
{
}
}

#endif
