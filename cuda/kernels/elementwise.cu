/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of two arrays, of one type and in floats, copies of rows, dropout, conversions between
 * element types, and what a type leaves of floats; n elements, each alone. Conversions are
 * ops/half.h's, so that all 16-bit patterns come out as on a CPU; of NaN in double only that it is
 * one. */
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/map.cuh"
#include "worker_runtime/ops/by_chance.h"

#include <type_traits>

namespace
{

struct sum {
    enum { IN = 2, OUT = 1 };
    static __device__ void of(const float (&x)[IN], float (&y)[OUT])
    {
        y[0] = x[0] + x[1];
    }
};

struct through_bf16 {
    enum { IN = 1, OUT = 1 };
    static __device__ void of(const float (&x)[IN], float (&y)[OUT])
    {
        y[0] = dt_bf16_to_float(dt_float_to_bf16(x[0]));
    }
};

struct through_f16 {
    enum { IN = 1, OUT = 1 };
    static __device__ void of(const float (&x)[IN], float (&y)[OUT])
    {
        y[0] = dt_f16_to_float(dt_float_to_f16(x[0]));
    }
};

/* The element types as types. */
struct bf16 {
    uint16_t bits;
};

struct f16 {
    uint16_t bits;
};

/* To float; of a double so that another rounding does no harm. */
__device__ inline float widen(float x)
{
    return x;
}

__device__ inline float widen(bf16 x)
{
    return dt_bf16_to_float(x.bits);
}

__device__ inline float widen(f16 x)
{
    return dt_f16_to_float(x.bits);
}

__device__ inline float widen(double x)
{
    return dt_double_to_float_odd(x);
}

template <class From> __device__ inline void convert(From x, float *to)
{
    *to = widen(x);
}

template <> __device__ inline void convert<double>(double x, float *to)
{
    *to = static_cast<float>(x);
}

template <class From> __device__ inline void convert(From x, bf16 *to)
{
    to->bits = dt_float_to_bf16(widen(x));
}

template <class From> __device__ inline void convert(From x, f16 *to)
{
    to->bits = dt_float_to_f16(widen(x));
}

template <class From> __device__ inline void convert(From x, double *to)
{
    *to = static_cast<double>(widen(x));
}

/* As many elements as a thread takes at a time: 16 bytes of the smallest type. */
enum { TOGETHER = 8, THREADS = 256 };

template <class T> struct alignas(16) several {
    T at[TOGETHER];
};

template <class From, class To, bool ALIGNED> __global__ void cast(size_t n, To *out, const From *x)
{
    size_t first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    size_t groups = ALIGNED ? n / TOGETHER : 0;
    for (size_t g = first; g < groups; g += stride) {
        several<From> are = reinterpret_cast<const several<From> *>(x)[g];
        several<To> become;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            convert(are.at[i], &become.at[i]);
        reinterpret_cast<several<To> *>(out)[g] = become;
    }
    for (size_t i = groups * TOGETHER + first; i < n; i += stride)
        convert(x[i], &out[i]);
}

template <class From, class To>
cudaError_t cast_between(size_t n, void *out, const void *x, cudaStream_t s)
{
    if constexpr (std::is_same<From, To>::value)
        return cudaErrorInvalidValue; /* copied before it comes here */
    bool aligned = dt_aligned16(out, x);
    dim3 grid(dt_blocks(n, aligned ? THREADS * TOGETHER : THREADS));
    return dt_launch(aligned ? cast<From, To, true> : cast<From, To, false>, grid, dim3(THREADS), 0,
                     s, n, static_cast<To *>(out), static_cast<const From *>(x));
}

template <class From>
cudaError_t cast_from(size_t n, void *out, enum dt_dtype type, const void *x, cudaStream_t s)
{
    switch (type) {
    case DT_F32:
        return cast_between<From, float>(n, out, x, s);
    case DT_BF16:
        return cast_between<From, bf16>(n, out, x, s);
    case DT_F16:
        return cast_between<From, f16>(n, out, x, s);
    case DT_F64:
        return cast_between<From, double>(n, out, x, s);
    default:
        return cudaErrorInvalidValue;
    }
}

template <class E, bool ADD> __global__ void dropout(dt_dropout d, size_t n, E *out, const E *x)
{
    size_t first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = first; i < n; i += stride) {
        uint64_t number = dt_chance_place(i, d.width, d.pitch);
        bool gone = dt_chance_bits(d.start, number) < d.gone_below;
        float left = gone ? 0 : dt_to_float(x[i]) * d.scale;
        out[i] = dt_from_float<E>(ADD ? dt_to_float(out[i]) + left : left);
    }
}

/* A pack at a time where both are ALIGNED for it. */
template <class E, bool ALIGNED>
__global__ void add_to_floats(size_t n, float *__restrict__ to, const E *__restrict__ from)
{
    constexpr int COUNT = ALIGNED ? dt_pack<E>::COUNT : 1, FLOATS = dt_pack<float>::COUNT;
    size_t first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x, packs = n / COUNT;
    for (size_t p = first; ALIGNED && p < packs; p += stride) {
        float x[dt_pack<E>::COUNT], sum[FLOATS];
        dt_load16(from + p * COUNT, x);
#pragma unroll
        for (int i = 0; i < COUNT; i += FLOATS) {
            dt_load16(to + p * COUNT + i, sum);
#pragma unroll
            for (int j = 0; j < FLOATS; j++)
                sum[j] += x[i + j];
            dt_store16(to + p * COUNT + i, sum);
        }
    }
    for (size_t i = (ALIGNED ? packs * COUNT : 0) + first; i < n; i += stride)
        to[i] += dt_to_float(from[i]);
}

/* COUNT of a row at a time: one, or a pack. */
template <class E, int COUNT>
__global__ void copy_rows(size_t rows, size_t width, E *to, size_t to_stride, const E *from,
                          size_t from_stride)
{
    size_t first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x, packs = width / COUNT;
    for (size_t i = first; i < rows * packs; i += stride) {
        size_t row = i / packs, at = i % packs * COUNT;
        const E *x = from + row * from_stride + at;
        E *y = to + row * to_stride + at;
        if constexpr (COUNT == 1)
            *y = *x;
        else
            *reinterpret_cast<dt_pack<E> *>(y) = *reinterpret_cast<const dt_pack<E> *>(x);
    }
}

} // namespace

/* Equal types, of which there may be others, are copied bit by bit. */
cudaError_t dt_cuda_cast(size_t n, void *out, enum dt_dtype out_type, const void *x,
                         enum dt_dtype type, struct dt_stream *s)
{
    if (n == 0 || (type == out_type && out == x))
        return cudaSuccess;
    if (type == out_type)
        return cudaMemcpyAsync(out, x, n * dt_dtype_size(type), cudaMemcpyDeviceToDevice,
                               s->compute);
    switch (type) {
    case DT_F32:
        return cast_from<float>(n, out, out_type, x, s->compute);
    case DT_BF16:
        return cast_from<bf16>(n, out, out_type, x, s->compute);
    case DT_F16:
        return cast_from<f16>(n, out, out_type, x, s->compute);
    case DT_F64:
        return cast_from<double>(n, out, out_type, x, s->compute);
    default:
        return cudaErrorInvalidValue;
    }
}

cudaError_t dt_cuda_add(enum dt_dtype elem, size_t n, void *to, const void *from,
                        struct dt_stream *s)
{
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        E *out = static_cast<E *>(to);
        return dt_map<sum, E>(n, {{out}, {out, static_cast<const E *>(from)}}, s->compute);
    });
}

cudaError_t dt_cuda_add_to_floats(enum dt_dtype elem, size_t n, void *to, const void *from,
                                  struct dt_stream *s)
{
    if (n == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        bool aligned = dt_aligned16(to, from);
        dim3 grid(dt_blocks(n, aligned ? THREADS * dt_pack<E>::COUNT : THREADS));
        return dt_launch(aligned ? add_to_floats<E, true> : add_to_floats<E, false>, grid,
                         dim3(THREADS), 0, s->compute, n, static_cast<float *>(to),
                         static_cast<const E *>(from));
    });
}

cudaError_t dt_cuda_copy_rows(enum dt_dtype elem, size_t rows, size_t width, void *to,
                              size_t to_stride, const void *from, size_t from_stride,
                              struct dt_stream *s)
{
    if (rows == 0 || width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        constexpr int COUNT = dt_pack<E>::COUNT;
        bool packs = dt_aligned16(to, from) && (width | to_stride | from_stride) % COUNT == 0;
        dim3 grid(dt_blocks(rows * width, packs ? THREADS * COUNT : THREADS));
        return dt_launch(packs ? copy_rows<E, COUNT> : copy_rows<E, 1>, grid, dim3(THREADS), 0,
                         s->compute, rows, width, static_cast<E *>(to), to_stride,
                         static_cast<const E *>(from), from_stride);
    });
}

cudaError_t dt_cuda_dropout(enum dt_dtype elem, const struct dt_dropout *d, size_t n, void *out,
                            bool add, const void *x, struct dt_stream *s)
{
    if (n == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return dt_launch(add ? dropout<E, true> : dropout<E, false>, dim3(dt_blocks(n, THREADS)),
                         dim3(THREADS), 0, s->compute, *d, n, static_cast<E *>(out),
                         static_cast<const E *>(x));
    });
}

cudaError_t dt_cuda_round_to(size_t n, float *x, enum dt_dtype type, struct dt_stream *s)
{
    if (type == DT_BF16)
        return dt_map<through_bf16, float>(n, {{x}, {x}}, s->compute);
    if (type == DT_F16)
        return dt_map<through_f16, float>(n, {{x}, {x}}, s->compute);
    return cudaSuccess;
}
