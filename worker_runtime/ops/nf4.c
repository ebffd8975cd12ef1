/* SPDX-License-Identifier: Apache-2.0 */
/* Packing. Arithmetic is in float, one operation at a time, as on the GPUs that bitsandbytes packs
 * on, so the same bits come out, with two exceptions, each rounded once here: the mean of the
 * largest, whose sum has another order on each device there, and the map, whose last bits hang on
 * the width of a processor's vectors there. */
#include "worker_runtime/ops/nf4.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Half-way between neighbours of the codebook. */
static const float thresholds[DT_NF4_CODES - 1] = {
    -0.8480964004993439f,  -0.6106329262256622f, -0.4599952697753906f,   -0.33967943489551544f,
    -0.23460740596055984f, -0.1379117332398891f, -0.045525018125772476f, 0.03979014977812767f,
    0.1202552504837513f,   0.2035212516784668f,  0.2920137718319893f,    0.3893125355243683f,
    0.5016634166240692f,   0.6427869200706482f,  0.8614784178118011f,
};

#define LEAST 1e-38f /* a block of zeros is divided by it */

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Seven decades, each cut finer than the one below it: the means of neighbours of 2^i + 1 numbers
 * evenly from 0.1 to 1, times 10^(i - 6). */
void dt_nf4_map(float map[DT_NF4_MAP])
{
    static const double decade[7] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    size_t n = 0;
    for (int i = 0; i < 7; i++) {
        int parts = 1 << i;
        for (int k = 0; k < parts; k++) {
            float mean = (float)(decade[i] * (0.1 + 0.9 * (2 * k + 1) / (2 * parts)));
            map[n++] = mean;
            map[n++] = -mean;
        }
    }
    map[n++] = 0;
    map[n++] = 1;
    qsort(map, DT_NF4_MAP, sizeof *map, by_size);
}

int dt_nf4_open(struct dt_nf4_writer *w, void *packed, size_t count, struct dt_err *err)
{
    *w = (struct dt_nf4_writer){.to = dt_nf4_parts_of(packed, count), .count = count};
    w->absmax = malloc((dt_nf4_blocks(count) + 1) * sizeof *w->absmax);
    if (!w->absmax)
        return dt_err_set(err, DT_E_MEMORY, "no memory to quantize %zu weights", count);
    memset(packed, 0, w->to.words * sizeof(uint32_t));
    dt_nf4_map(w->to.map);
    return 0;
}

void dt_nf4_close(struct dt_nf4_writer *w)
{
    free(w->absmax);
    w->absmax = NULL;
}

static float largest_of(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        float size = fabsf(x[i]);
        most = size > most ? size : most;
    }
    return most;
}

/* The sum of differences is 0, or NaN where a number is not finite. */
static bool are_finite(const float *x, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] - x[i];
    return sum == 0;
}

/* How many thresholds are below V. */
static uint8_t code_of(float v)
{
    int code = 0;
    for (int i = 0; i < DT_NF4_CODES - 1; i++)
        code += v > thresholds[i];
    return (uint8_t)code;
}

static float one_by(float largest)
{
    return 1 / (largest > LEAST ? largest : LEAST);
}

/* The last of an odd number has a 0 behind it, as in bitsandbytes. */
static void write_block(struct dt_nf4_writer *w, const float *x, size_t n)
{
    uint8_t codes[DT_NF4_BLOCK + 1];
    float largest = largest_of(x, n), by = one_by(largest);
    w->absmax[w->done / DT_NF4_BLOCK] = largest;
    for (size_t i = 0; i < n; i++)
        codes[i] = code_of(x[i] * by);
    codes[n] = 7;
    uint8_t *to = w->to.codes + w->done / 2;
    for (size_t i = 0; i < n; i += 2)
        *to++ = (uint8_t)(codes[i] << 4 | codes[i + 1]);
    w->done += n;
}

int dt_nf4_write(struct dt_nf4_writer *w, const float *x, size_t n, struct dt_err *err)
{
    if (!are_finite(x, n))
        return dt_err_set(err, DT_E_USAGE,
                          "a number in it is not finite, and has no place among 16 others");
    for (size_t at = 0; at < n; at += DT_NF4_BLOCK)
        write_block(w, x + at, n - at < DT_NF4_BLOCK ? n - at : DT_NF4_BLOCK);
    return 0;
}

/* The nearest of the map; half-way, the one with an even number, which is where the search of
 * bitsandbytes' GPU code ends. */
static uint8_t nearest(const float *map, float v)
{
    size_t low = 0, high = DT_NF4_MAP - 1; /* the answer is one of these or between */
    while (low < high) {
        size_t i = (low + high) / 2;
        float half = (map[i] + map[i + 1]) * 0.5f;
        bool above = i % 2 ? v >= half : v > half;
        low = above ? i + 1 : low;
        high = above ? high : i;
    }
    return (uint8_t)low;
}

void dt_nf4_finish(struct dt_nf4_writer *w)
{
    size_t blocks = dt_nf4_blocks(w->count);
    double sum = 0;
    for (size_t i = 0; i < blocks; i++)
        sum += (double)w->absmax[i];
    float offset = blocks ? (float)(sum / (double)blocks) : 0;
    *w->to.offset = offset;
    for (size_t i = 0; i < blocks; i++)
        w->absmax[i] -= offset;
    for (size_t at = 0; at < blocks; at += DT_NF4_GROUP) {
        size_t n = blocks - at < DT_NF4_GROUP ? blocks - at : DT_NF4_GROUP;
        float largest = largest_of(w->absmax + at, n), by = one_by(largest);
        w->to.nested[at / DT_NF4_GROUP] = largest;
        for (size_t i = at; i < at + n; i++)
            w->to.absmax[i] = nearest(w->to.map, w->absmax[i] * by);
    }
}

void dt_nf4_read(const void *packed, size_t count, size_t first, size_t n, float *out)
{
    static const float codebook[DT_NF4_CODES] = DT_NF4_CODEBOOK;
    const struct dt_nf4_parts p = dt_nf4_parts_of(packed, count);
    for (size_t i = first, end = first + n; i < end;) {
        size_t block = i / DT_NF4_BLOCK, to = (block + 1) * DT_NF4_BLOCK;
        float scale = dt_nf4_scale(&p, block);
        for (; i < to && i < end; i++)
            *out++ = codebook[dt_nf4_code(&p, i)] * scale;
    }
}
