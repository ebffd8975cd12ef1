/* SPDX-License-Identifier: Apache-2.0 */
/* A mock GPU, for tests on machines without one: CUDA's words as a C++ compiler for the host can
 * understand them, so that the very .cu files of cuda/ run on a CPU. cuda/kernels/launch.cuh lists
 * the names; what they do here is stricter than a GPU wherever a GPU would let a mistake pass:
 *
 * - A block's threads run one at a time, each until it has to wait, in an order that
 *   DT_EMULATOR_SEED decides (0: ascending, 1: descending, others: at random, blocks too). What a
 *   forgotten barrier leaves to chance is wrong under some seed.
 * - __syncthreads() that not all threads reach, or at different lines, and warp calls that not all
 *   lanes of the mask reach, end the program with who waits where.
 * - Shared memory is NaN before each block, with guards behind each array; an asynchronous copy
 *   spoils where it goes to until it is waited for.
 * - Device memory can be touched by kernels and copies only (memory.h).
 * - Accesses of shared memory that no barrier puts in order end the program under any seed
 *   (races.cc; not where a sanitizer is in use).
 * - Loads and stores are as aligned as their types say, or end the program (alignment.cc).
 * - A block has the least shared memory of all GPUs that are served, and exp2's smallest results
 *   are 0, as they are there.
 *
 * Other settings: DT_EMULATOR_LAZY (stream.h), DT_EMULATOR_MEMORY and DT_EMULATOR_DEVICES
 * (runtime.cc), DT_EMULATOR_NCCL_POLLS (nccl.cc), DT_EMULATOR_NO_KEYS and DT_EMULATOR_LEAVES_OPEN
 * (memory.cc).
 *
 * Nothing here says anything about speed. */
#ifndef DT_TESTS_GPU_EMULATOR_H
#define DT_TESTS_GPU_EMULATOR_H

#define CUDA_NO_HALF /* "half" is a good name for a variable */
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <functional>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif

/* Of the thread that runs now. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace dt_emulator
{

enum { WARP = 32 };
/* What a block can have at most on compute capability 8.6 and 8.9; on 8.0 it is 163 KiB, on 9.0
 * 227. */
enum : size_t { SHARED = 99 * 1024 };

/* Where in a kernel a call stands, so that messages can say it. */
struct place {
    const char *file;
    int line;
};

/* What the lanes of a warp brought to a meeting; NULL for those not in the mask. */
struct lanes {
    unsigned mask;
    void *at[WARP];
};

typedef void exchange_fn(const lanes &l);

int lane();
/* Waits until all threads of the block are here. */
void meet_block(place at);
/* Waits until all lanes of MASK are here, each with something of its own; the last one to come does
 * EXCHANGE for all. WHAT and AT must be the same for all. */
void meet_warp(unsigned mask, const char *what, void *mine, exchange_fn *exchange, place at);

/* One array for each SITE and block. */
void *shared_fixed(const void *site, size_t bytes, size_t alignment);
void *shared_dynamic();

[[noreturn]] __attribute__((format(printf, 1, 2))) void give_up(const char *format, ...);

cudaError_t launch(const char *call, dim3 grid, dim3 block, size_t shared, cudaStream_t s,
                   std::function<void()> thread);
/* Ends the program if P is memory of the host that no GPU could read. */
void check_pointer(const char *call, int argument, const void *p);

template <class T> void check_argument(const char *call, int argument, const T &value)
{
    if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>)
        check_pointer(call, argument, value);
}

/* CALL: the text of the call, which begins with the kernel's name. */
template <class... P, class... A>
cudaError_t launch_kernel(const char *call, void (*kernel)(P...), dim3 grid, dim3 block,
                          size_t shared, cudaStream_t s, A... arguments)
{
    int number = 0;
    (check_argument(call, ++number, static_cast<P>(arguments)), ...);
    (void)number;
    return launch(call, grid, block, shared, s, [=] { kernel(static_cast<P>(arguments)...); });
}

struct shuffled {
    unsigned char value[16], got[16];
    int from;
};

void exchange_shuffled(const lanes &l);

template <class T> T shuffle(unsigned mask, T value, int from, const char *what, place at)
{
    static_assert(sizeof value <= sizeof shuffled::value && std::is_trivially_copyable_v<T>);
    shuffled mine = {};
    memcpy(mine.value, &value, sizeof value);
    mine.from = from;
    meet_warp(mask, what, &mine, exchange_shuffled, at);
    memcpy(&value, mine.got, sizeof value);
    return value;
}

unsigned ballot(unsigned mask, bool is, place at);
void meet_lanes(unsigned mask, place at);

} // namespace dt_emulator

#define DT_SHARED(type, name, count) DT_SHARED_AS(type, name, count, __COUNTER__)
#define DT_SHARED_AS(type, name, count, n) DT_SHARED_NAMED(type, name, count, n)
#define DT_SHARED_NAMED(type, name, count, n)                                                      \
    typedef type dt_shared_type_##n count;                                                         \
    static const char dt_shared_site_##n = 0;                                                      \
    dt_shared_type_##n &name = *static_cast<dt_shared_type_##n *>(dt_emulator::shared_fixed(       \
        &dt_shared_site_##n, sizeof(dt_shared_type_##n), alignof(dt_shared_type_##n)))
#define DT_SHARED_DYNAMIC(type, name)                                                              \
    type *name = static_cast<type *>(dt_emulator::shared_dynamic())

#define dt_launch(...) dt_emulator::launch_kernel(#__VA_ARGS__, __VA_ARGS__)

static inline void __syncthreads(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    dt_emulator::meet_block({file, line});
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, const char *file = __builtin_FILE(),
                              int line = __builtin_LINE())
{
    dt_emulator::meet_lanes(mask, {file, line});
}

static inline unsigned __ballot_sync(unsigned mask, int is, const char *file = __builtin_FILE(),
                                     int line = __builtin_LINE())
{
    return dt_emulator::ballot(mask, is != 0, {file, line});
}

/* The first lane of the part of WIDTH lanes that ours belongs to, and the first behind it. */
static inline int dt_emulator_part(int width)
{
    return dt_emulator::lane() & ~(width - 1);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, const char *file = __builtin_FILE(),
              int line = __builtin_LINE())
{
    return dt_emulator::shuffle(mask, value, dt_emulator_part(width) | (from & (width - 1)),
                                "__shfl_sync", {file, line});
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32,
                 const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    int lane = dt_emulator::lane(), from = lane - static_cast<int>(by);
    return dt_emulator::shuffle(mask, value, from < dt_emulator_part(width) ? lane : from,
                                "__shfl_up_sync", {file, line});
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32,
                   const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    int lane = dt_emulator::lane(), from = lane + static_cast<int>(by);
    return dt_emulator::shuffle(mask, value, from >= dt_emulator_part(width) + width ? lane : from,
                                "__shfl_down_sync", {file, line});
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32,
                  const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    int lane = dt_emulator::lane(), from = lane ^ with;
    return dt_emulator::shuffle(mask, value, from >= dt_emulator_part(width) + width ? lane : from,
                                "__shfl_xor_sync", {file, line});
}

/* One thread runs at a time: nothing can come between. */
template <class T>
__attribute__((no_sanitize("thread"), noinline)) T atomicAdd(T *at, std::common_type_t<T> more)
{
    T old = *at;
    *at = old + more;
    return old;
}

static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}

/* cuda/kernels/mma.cuh's instructions of a warp, see fragments.cc. */
void dt_mma_m16n8k16_bf16(float d[4], const uint32_t a[4], const uint32_t b[2],
                          const char *file = __builtin_FILE(), int line = __builtin_LINE());
void dt_ldmatrix_x4(uint32_t r[4], const void *shared_row, const char *file = __builtin_FILE(),
                    int line = __builtin_LINE());
void dt_ldmatrix_x4_trans(uint32_t r[4], const void *shared_row,
                          const char *file = __builtin_FILE(), int line = __builtin_LINE());
/* 16 bytes, zeros if not VALID. */
void dt_copy_async16(void *shared, const void *global, bool valid);
void dt_copy_async_commit();
/* Returns when at most GROUPS commits are still under way. */
void dt_emulator_copy_async_wait(int groups);
template <int GROUPS> void dt_copy_async_wait()
{
    dt_emulator_copy_async_wait(GROUPS);
}

#endif
