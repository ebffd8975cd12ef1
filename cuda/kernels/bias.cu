/* SPDX-License-Identifier: Apache-2.0 */
/* A bias, added to rows of out[rows, stride]; and dbias[columns] += the sum of dout[rows, stride]'s
 * rows. */
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/kernels.h"

namespace
{

enum { ADDING = 128 };

/* parts[gridDim.y, columns]. WIDE columns a thread: 1, or as many as 16 bytes hold. */
template <class E, int WIDE>
__global__ void __launch_bounds__(DT_ACROSS *DT_DOWN)
    sum_rows(size_t rows, size_t columns, size_t row_stride, size_t rows_each,
             float *__restrict__ parts, const E *__restrict__ dout)
{
    size_t column = (static_cast<size_t>(blockIdx.x) * DT_ACROSS + threadIdx.x) * WIDE;
    size_t first = blockIdx.y * rows_each;
    size_t last = first + rows_each < rows ? first + rows_each : rows;
    float sum[WIDE] = {}, x[WIDE];

    if (column < columns) {
#pragma unroll 4
        for (size_t row = first + threadIdx.y; row < last; row += DT_DOWN) {
            dt_load_columns(dout + row * row_stride + column, x);
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                sum[i] += x[i];
        }
    }
    dt_put_parts<WIDE>(parts, columns, column, sum);
}

/* Columns across, WIDE a thread; rows down. */
template <class E, int WIDE>
__global__ void __launch_bounds__(ADDING) add_bias(size_t rows, size_t columns, size_t row_stride,
                                                   E *__restrict__ out, const E *__restrict__ bias)
{
    size_t column = (static_cast<size_t>(blockIdx.x) * ADDING + threadIdx.x) * WIDE;
    float add[WIDE], x[WIDE];
    if (column >= columns)
        return;
    dt_load_columns(bias + column, add);
    for (size_t row = blockIdx.y; row < rows; row += gridDim.y) {
        E *at = out + row * row_stride + column;
        dt_load_columns(at, x);
#pragma unroll
        for (int i = 0; i < WIDE; i++)
            x[i] += add[i];
        dt_store_columns(at, x);
    }
}

template <class E> cudaError_t forward(const struct dt_linear *l, E *out, struct dt_stream *s)
{
    constexpr int WIDE = dt_pack<E>::COUNT;
    const E *bias = static_cast<const E *>(l->bias);
    size_t row_stride = dt_linear_stride(l);
    bool wide = l->out % WIDE == 0 && row_stride % WIDE == 0 && dt_aligned16(out, bias);
    dim3 grid(dt_blocks(l->out, static_cast<size_t>(ADDING) * (wide ? WIDE : 1)),
              dt_blocks(l->rows, 1, UINT16_MAX));
    return dt_launch(wide ? add_bias<E, WIDE> : add_bias<E, 1>, grid, dim3(ADDING), 0, s->compute,
                     l->rows, l->out, row_stride, out, bias);
}

template <class E>
cudaError_t backward(size_t rows, size_t columns, size_t row_stride, E *dbias, const E *dout,
                     struct dt_stream *s)
{
    constexpr int WIDE = dt_pack<E>::COUNT;
    bool wide = columns % WIDE == 0 && row_stride % WIDE == 0 && dt_aligned16(dout);
    const dt_column_parts p = dt_cut_columns(rows, columns, wide ? WIDE : 1, WIDE);
    if (p.count == 0)
        return cudaErrorInvalidValue; /* wider than scratch */
    cudaError_t e =
        dt_launch(wide ? sum_rows<E, WIDE> : sum_rows<E, 1>, p.grid, p.block, 0, s->compute, rows,
                  columns, row_stride, p.rows_each, static_cast<float *>(s->scratch), dout);
    return e == cudaSuccess ? dt_join_parts<E>(p, columns, dbias, nullptr, s) : e;
}

} // namespace

cudaError_t dt_cuda_bias_forward(enum dt_dtype elem, const struct dt_linear *l, void *out,
                                 struct dt_stream *s)
{
    if (l->rows == 0 || l->out == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [&](auto of) {
        using E = decltype(of);
        return forward(l, static_cast<E *>(out), s);
    });
}

cudaError_t dt_cuda_bias_backward(enum dt_dtype elem, const struct dt_linear *l, void *dbias,
                                  const void *dout, struct dt_stream *s)
{
    if (l->rows == 0 || l->out == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [&](auto of) {
        using E = decltype(of);
        return backward(l->rows, l->out, dt_linear_stride(l), static_cast<E *>(dbias),
                        static_cast<const E *>(dout), s);
    });
}
