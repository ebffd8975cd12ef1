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

/* Who and when: 28 bits for the number of the block, of all that ran; 14 for the barriers passed;
 * 12 for those of the warp; 10 for the thread. 0: nobody. */
typedef uint64_t access;
enum { WARP_BITS = 5, THREAD_BITS = 10, WARP_MEETINGS_BITS = 12, MEETINGS_BITS = 14 };

struct place_in_shared {
    access wrote, read[2];
};

static place_in_shared places[SHARED]; /* a byte each */

/* Elements of two bytes and more begin at even ones. */
static size_t step(size_t bytes)
{
    return bytes > 1 ? 2 : 1;
}

static inline uint64_t low(uint64_t x, int bits)
{
    return x & ((uint64_t(1) << bits) - 1);
}

static access now(const thread &t)
{
    access a = low(block_number(), 28);
    a = a << MEETINGS_BITS | low(t.meetings, MEETINGS_BITS);
    a = a << WARP_MEETINGS_BITS | low(t.warp_meetings, WARP_MEETINGS_BITS);
    return a << THREAD_BITS | uint64_t(t.warp * WARP + t.lane);
}

static inline bool is_before(access then, access a)
{
    const int barriers = THREAD_BITS + WARP_MEETINGS_BITS;
    if (then == a || then >> barriers != a >> barriers) /* another block, or a barrier ago */
        return true;
    uint64_t thread = low(then, THREAD_BITS), self = low(a, THREAD_BITS);
    return thread == self ||
           (thread >> WARP_BITS == self >> WARP_BITS && then >> THREAD_BITS != a >> THREAD_BITS);
}

static inline void check(access then, access a, const char *what, const char *other, size_t at)
{
    if (__builtin_expect(!is_before(then, a), 0))
        give_up("a race: it %s byte %zu of shared memory, which thread %d %s, and no barrier is "
                "between",
                what, at, int(low(then, THREAD_BITS)), other);
}

static size_t offset_of(const void *at)
{
    return shared_begin ? size_t(static_cast<const unsigned char *>(at) - shared_begin)
                        : size_t(SHARED);
}

void shared_read(const void *at, size_t bytes)
{
    size_t from = offset_of(at);
    if (from >= SHARED)
        return;
    const access a = now(*current());
    for (size_t i = from; i < from + bytes && i < SHARED; i += step(bytes)) {
        place_in_shared *p = &places[i];
        if (p->read[0] == a)
            continue; /* it was right, and what is written in between would say so */
        check(p->wrote, a, "reads", "writes", i);
        if (low(p->read[0] ^ a, THREAD_BITS) != 0)
            p->read[1] = p->read[0];
        p->read[0] = a;
    }
}

void shared_written(const void *at, size_t bytes)
{
    size_t from = offset_of(at);
    if (from >= SHARED)
        return;
    const access a = now(*current());
    for (size_t i = from; i < from + bytes && i < SHARED; i += step(bytes)) {
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
